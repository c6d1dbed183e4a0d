"""One measurement at a time on a host: whoever comes second is told for whom it waits, or is refused."""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from types import SimpleNamespace

import pytest

from pairlab import cli
from pairlab.errors import HostBusy
from pairlab.testbed.host import lock as hostlock
from tests.conftest import mostly_whole, need

HOLD = """
    import sys
    from pairlab.testbed.host import lock as hostlock
    with hostlock.measuring(wait={wait}):
        print("held", flush=True)
        sys.stdin.readline()
"""
WAIT_AND_HOLD = HOLD.format(wait=True)
NOBODY = 65534


@contextlib.contextmanager
def held(script=WAIT_AND_HOLD, *before):
    """A process that holds the lock, or does what `script` does; it ends when it reads a line."""
    command = [*before, *python(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        try:
            assert it.stdout.readline() == "held\n", it.stderr.read()
            yield it
        finally:
            it.kill()


@pytest.fixture
def as_nobody():
    """What runs a command as another user, who can read this checkout."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, with setpriv (apt-get install util-linux)")
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    readable = subprocess.run([*words, sys.executable, "-c", "import pairlab.testbed.host.lock"], capture_output=True)
    if readable.returncode:
        pytest.skip("another user cannot read this checkout or its Python")
    return words


@pytest.fixture(autouse=True)
def own_lock(monkeypatch):
    """Names of these tests' own, as others may be measuring meanwhile; `python` has them in other processes too."""
    with tempfile.TemporaryDirectory() as shared:
        os.chmod(shared, 0o755)
        monkeypatch.setattr(hostlock, "ADDRESS", f"\0pairlab-test-{os.getpid()}")
        monkeypatch.setattr(hostlock, "SHARED", shared)
        yield


def python(script):
    """The command that runs this script under the name of these tests."""
    names = f"hostlock.ADDRESS, hostlock.SHARED = {hostlock.ADDRESS!r}, {hostlock.SHARED!r}"
    prelude = f"from pairlab.testbed.host import lock as hostlock; {names}\n"
    return [sys.executable, "-c", prelude + textwrap.dedent(script)]


def waits_for(process):
    """What one hears who waits while that process holds the lock, which then ends."""
    heard = []

    def tell(text):
        heard.append(text)
        process.stdin.write("\n")
        process.stdin.flush()

    with hostlock.measuring(show=tell):
        pass
    return heard


def test_the_second_waits_and_says_for_whom():
    with held() as first:
        (heard,) = waits_for(first)
    assert heard.startswith(f"waiting for process {first.pid} of {hostlock._user(os.geteuid())} (python")
    assert heard.endswith("), which is measuring on this host")


def test_or_it_is_refused_and_told_whom_to_wait_for():
    with held() as first:
        told = f"process {first.pid} of .*: wait for it to end, or stop it"
        with pytest.raises(HostBusy, match=told), hostlock.measuring(wait=False):
            raise AssertionError("two at once")


def test_users_wait_for_each_other(as_nobody):
    with held(WAIT_AND_HOLD, *as_nobody) as other:
        with (
            pytest.raises(HostBusy, match=f"process {other.pid} of {hostlock._user(NOBODY)} "),
            hostlock.measuring(False),
        ):
            raise AssertionError("two at once")
        (heard,) = waits_for(other)
        assert f"process {other.pid} of {hostlock._user(NOBODY)} " in heard
    with hostlock.measuring(wait=False):
        command = [*as_nobody, *python(HOLD.format(wait=False))]
        refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0
    assert f"HostBusy: process {os.getpid()} of {hostlock._user(os.geteuid())} (" in refused.stderr


def test_who_measures_in_another_network_namespace_is_waited_for_too():
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root and unshare, for a process in a network namespace of its own")
    with held(WAIT_AND_HOLD, "unshare", "--net") as other:
        with pytest.raises(HostBusy, match="a process in another network namespace"), hostlock.measuring(wait=False):
            raise AssertionError("two at once")
        (heard,) = waits_for(other)
        assert heard.startswith("waiting for a process in another network namespace (`sudo lslocks` names who locked ")
    with hostlock.measuring(wait=False):
        pass


@pytest.mark.parametrize("ends", ["kill", "terminate"])
def test_however_the_holder_dies_the_lock_is_free(ends):
    with held() as first:
        getattr(first, ends)()
        first.wait()
        with hostlock.measuring(wait=False):
            pass


SQUATTERS = {
    "listens": ("listen(8)", "process {pid} of "),
    "never listens": ("fileno()", "a process that does not answer (`sudo ss -xlap | grep pairlab-measuring` names it)"),
    "has a queue that is full": ("listen(0); full()", "a process that does not answer ("),
}


@pytest.mark.parametrize("squatter", SQUATTERS)
def test_a_process_that_is_no_pairlab_can_hold_it_up_and_no_more_and_is_named(squatter, monkeypatch):
    if squatter != "listens":
        monkeypatch.setattr(hostlock, "_SILENT_S", 0.2)  # who never answers is not waited for longer
    deed, named = SQUATTERS[squatter]
    script = f"""
        import socket, sys
        from pairlab.testbed.host.lock import ADDRESS
        lock, others = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), []
        lock.bind(ADDRESS)
        def full():
            try:
                while True:
                    others.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                    others[-1].connect(ADDRESS)
            except BlockingIOError:
                pass
        lock.{deed}
        print("held", flush=True)
        sys.stdin.readline()
    """
    with held(script) as other:
        with pytest.raises(HostBusy) as caught, hostlock.measuring(wait=False):
            raise AssertionError("two at once")
        assert named.format(pid=other.pid) in str(caught.value)
        (heard,) = waits_for(other)
        assert named.format(pid=other.pid) in heard


def test_a_holder_that_says_something_is_still_waited_for():
    script = """
        import socket, sys
        from pairlab.testbed.host.lock import ADDRESS
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        lock.bind(ADDRESS)
        lock.listen(8)
        print("held", flush=True)
        connection, _ = lock.accept()
        connection.sendall(b"go on" * 100)
        sys.stdin.readline()
    """
    with held(script) as other:
        assert len(waits_for(other)) == 1


def test_who_takes_it_next_may_take_a_moment_to_answer_however_long_one_waited_for_the_last(monkeypatch):
    """Between another's binding and its listening nobody answers; that is not what the next one is to be called."""
    holders = iter(["the first", None, "the next"])
    free = iter([False, False, False, True])
    real = hostlock._bind
    passed_s = itertools.count()  # a second at each look at the clock, and a hundred for the first to end
    monkeypatch.setattr(hostlock, "time", SimpleNamespace(monotonic=lambda: next(passed_s), sleep=lambda _: None))
    monkeypatch.setattr(hostlock, "_holder", lambda connection: next(holders))
    monkeypatch.setattr(hostlock, "_await_end", lambda connection: [next(passed_s) for _ in range(100)])
    monkeypatch.setattr(hostlock, "_bind", lambda lock: next(free) and real(lock))
    heard = []
    with hostlock.measuring(show=heard.append):
        pass
    assert heard == [f"waiting for {who}, which is measuring on this host" for who in ("the first", "the next")]


def test_of_many_that_wait_one_at_a_time_has_it(tmp_path):
    script = """
        import os, sys
        from pairlab.testbed.host import lock as hostlock
        for _ in range(20):
            with hostlock.measuring():
                os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL))  # fails where another is in here
                os.unlink(sys.argv[1])
    """
    command = [*python(script), str(tmp_path / "inside")]
    several = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for each in several:
        _, told = each.communicate(timeout=120)
        assert each.returncode == 0, told


@pytest.mark.parametrize("name", mostly_whole(["run", "sweep"], but=["run"]))
def test_the_command_line_refuses_or_says_for_whom_it_waits(name, capsys, runs_dir, tmp_path):
    need("netns")
    file = tmp_path / "one.yaml"
    file.write_text("{name: one, experiments: {throughput: {workload: flowgen, duration_s: 0.5}}}")
    command = ["run", "throughput"] if name == "run" else ["sweep", str(file)]
    with held() as other:
        with pytest.raises(SystemExit) as ended:
            cli.main([*command, "--no-wait"], prog_name="pairlab")
        assert ended.value.code == 1
        assert f"pairlab: process {other.pid} of " in capsys.readouterr().err
        script = f"from pairlab.cli import main; main({command!r})"
        waiting = subprocess.Popen(python(script), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert waiting.stderr.readline().startswith(f"pairlab: waiting for process {other.pid} of ")
        waiting.kill()
        waiting.communicate()


@pytest.mark.whole
def test_backends_wait_for_each_other(runs_dir):
    need("netns")
    need("docker")
    script = """
        import sys
        from pairlab import Spec, measure
        def tell(phase, done, total):
            if phase == "measuring (s)":
                print("held", flush=True)
                sys.stdin.readline()
        measure(Spec(backend="netns", workload="flowgen", pairs=1, duration_s=0.5), progress=tell)
    """
    with held(script) as other:
        refused = subprocess.run(
            python("from pairlab import Spec, measure; measure(Spec(backend='docker'), wait=False)"),
            capture_output=True,
            text=True,
        )
        assert f"HostBusy: process {other.pid} of " in refused.stderr
        other.communicate("\n" * 100, timeout=60)
