"""A measurement in a process of its own: what comes back of it, how it is stopped, and what is left when it dies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import psutil
import pytest

from pairlab import Spec, attended, store
from pairlab.attended import attend, attend_async
from pairlab.errors import BadSpec, HostBusy, MeasurementFailed, StoreError, UnknownName
from pairlab.records import Run
from pairlab.testbed import hostlock
from tests import host
from tests.conftest import need

SPEC = Spec(workload="flowgen", pairs=2, duration_s=1.0, max_skew_s=5.0, max_foreign_cpu=1.0)
LONG = SPEC.replace(duration_s=60.0)
#: Is seen at work more than once, whatever three seconds the machine does without us.
SEEN = SPEC.replace(duration_s=4.0)

pytestmark = pytest.mark.usefixtures("runs_dir")


def blocking(spec, **asked):
    return attend(spec, **asked)


def in_a_loop(spec, **asked):
    return asyncio.run(attend_async(spec, **asked))


ways = pytest.mark.parametrize("way", [blocking, in_a_loop], ids=lambda way: way.__name__)


def the_child():
    """The process that measures for this one."""
    (found,) = [each for each in psutil.Process().children() if "pairlab.attended" in each.cmdline()]
    return found


def when_it_sends(act):
    """A callback for phases that does this once, as soon as clients send."""
    done = []

    def on_phase(name, *_):
        if name == "measuring (s)" and not done:
            done.append(True)
            act()

    return on_phase


def no_process_left(before):
    """Whether nothing of ours runs any more, already now; clean_host sees to the rest, where others come and go."""
    return "processes" not in host.difference(before)


def playing(monkeypatch, script):
    """Has this script play the child."""
    monkeypatch.setattr(attended, "_command", lambda: [sys.executable, "-c", script])


@ways
def test_the_run_that_was_stored_comes_back_and_phases_and_samples_on_the_way(way, runs_dir, clean_host):
    need("netns")
    phases, samples, threads = [], [], set()

    def on_phase(*phase):
        phases.append(phase)
        threads.add(threading.get_ident())

    run = way(SEEN, on_phase=on_phase, on_sample=samples.append)
    assert run.path == store.find(SEEN, runs_dir).path
    assert list(run.flows["status"]) == ["ok", "ok"]
    own = [name for name in dict.fromkeys(name for name, *_ in phases) if not name.startswith("waiting for process")]
    expected = ["starting", "bringing up", "servers listening", "clients ready", "measuring (s)", "taking down"]
    assert own == expected
    measured_s = [done for name, done, total in phases if name == "measuring (s)" and total == 4.0]
    assert measured_s[0] == 0
    assert 0.5 <= measured_s[1] <= 4
    assert threads == {threading.get_ident()}
    assert {len(each.client_bps) for each in samples} == {2}
    assert any(min(each.client_bps) > 1e6 for each in samples)


@ways
def test_a_run_that_counts_is_not_measured_again_unless_asked(way, tmp_path):
    need("netns")
    root = tmp_path / "elsewhere"
    asked = SPEC.replace(duration_s=0.5)
    kept = store.write(Run(asked, "ok", measured_at=datetime.now(UTC)), root)
    phases = []
    found = way(asked, root=root, on_phase=lambda *phase: phases.append(phase[0]))
    assert (found.path, found.measured_at) == (kept.path, kept.measured_at)
    assert phases[-1].startswith("stored already")
    fresh = way(asked, root=root, fresh=True)
    assert fresh.measured_at > kept.measured_at
    assert fresh.path == kept.path


@ways
@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        (SPEC.replace(driver="bridg"), UnknownName, "no driver 'bridg'; there are: bridge"),
        (SPEC.replace(pairs=600), BadSpec, "'bridge' can have 511 at most"),
    ],
    ids=["unknown name", "bad spec"],
)
def test_an_error_comes_back_as_what_it_is(way, spec, error, words, runs_dir):
    with pytest.raises(error, match=words):
        way(spec)
    assert not runs_dir.exists()


def test_a_place_that_takes_no_run_is_told_as_such(tmp_path):
    need("netns")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        attend(SPEC.replace(duration_s=0.5), root=tmp_path / "file" / "runs")


@ways
def test_another_measurement_is_waited_for_and_named_or_refused(way):
    need("netns")
    with hostlock.measuring():
        with pytest.raises(HostBusy, match=f"process {os.getpid()} of "):
            way(SPEC, wait=False)
        waited = []

        class Enough(Exception):
            pass

        def on_phase(name, *_):
            if name.startswith("waiting for process"):
                waited.append(name)
                raise Enough

        with pytest.raises(Enough):
            way(SPEC, on_phase=on_phase)
    assert waited[0].startswith(f"waiting for process {os.getpid()} of ")


@ways
def test_an_error_of_who_looks_on_ends_the_measurement_and_leaves_nothing(way, runs_dir, clean_host):
    need("netns")

    def fail(sample):
        raise ZeroDivisionError("in the drawing")

    with pytest.raises(ZeroDivisionError, match="in the drawing"):
        way(LONG, on_sample=fail)
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@pytest.mark.parametrize("moment", ["starting", "bringing up", "servers listening", "measuring (s)"])
def test_cancelling_leaves_the_host_clean_and_no_half_run(moment, runs_dir, clean_host):
    need("netns")

    async def stopped():
        come = asyncio.Event()
        task = asyncio.create_task(attend_async(LONG, on_phase=lambda name, *_: name == moment and come.set()))
        await asyncio.wait_for(come.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


ATTENDING = """
from pairlab import Spec
from pairlab.attended import attend

def tell(name, done, total):
    if name == "measuring (s)" and not done:
        print(name, flush=True)

attend(Spec(workload="flowgen", pairs=2, duration_s=60.0), on_phase=tell)
"""


def attending():
    """A program that attends a long measurement, in which clients send."""
    process = host.started([sys.executable, "-c", ATTENDING])
    assert process.stdout.readline() == "measuring (s)\n"
    return process


def test_ctrl_c_is_raised_when_the_host_is_clean(runs_dir, clean_host):
    need("netns")
    with attending() as process:
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert told.rstrip().endswith("KeyboardInterrupt")
    assert told.count("Traceback") == 1
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@pytest.mark.skipif(not attended.mortal([])[1:], reason="needs setpriv, of util-linux")
def test_a_parent_that_is_killed_takes_the_measurement_with_it(runs_dir, clean_host):
    need("netns")
    with attending() as process:
        process.kill()
    assert host.settled(clean_host, within_s=5.0), host.difference(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@pytest.mark.parametrize(
    ("way", "backend"),
    [(blocking, "netns"), (in_a_loop, "netns"), (blocking, "docker")],
    ids=["blocking", "in_a_loop", "docker"],
)
def test_a_killed_child_is_a_failed_measurement_told_when_the_host_is_clean(way, backend, runs_dir, clean_host):
    need(backend)
    kill = when_it_sends(lambda: the_child().kill())
    with pytest.raises(MeasurementFailed, match=r"was killed \(SIGKILL\); its testbed is gone; does `dmesg` tell"):
        way(LONG.replace(backend=backend), on_phase=kill)
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@ways
def test_what_a_child_complained_of_before_it_died_is_told_in_the_end(way, monkeypatch):
    playing(monkeypatch, "import sys; print('x' * 5000 + 'out of luck', file=sys.stderr); sys.exit(3)")
    with pytest.raises(MeasurementFailed, match=r"ended with status 3.*x{1900}out of luck$") as caught:
        way(SPEC)
    assert len(str(caught.value)) < 2500


@ways
def test_what_is_printed_before_the_child_has_its_output_for_itself_is_passed_over(way, monkeypatch):
    playing(monkeypatch, """print('hello'); print('[1]'); print('{"error": ["HostBusy", "taken"]}')""")
    with pytest.raises(HostBusy, match="taken"):
        way(SPEC)


@ways
def test_a_sample_of_thousands_of_clients_is_one_line_like_any_other(way, monkeypatch):
    sample = {"elapsed_s": 0.5, "total_s": 1.0, "client_bps": [1e9 / 3] * 5000, "total_bps": None}
    line = json.dumps({"sample": {**sample, "usr": 0.0, "sys": 0.0, "softirq": 0.0}})
    playing(monkeypatch, f"""for _ in range(20): print('''{line}''')\nprint('{{"error": ["BadSpec", "end"]}}')""")
    seen = []
    with pytest.raises(BadSpec, match="end"):
        way(SPEC, on_sample=seen.append)
    assert len(seen) == 20
    assert seen[-1].client_bps == (1e9 / 3,) * 5000


@ways
def test_a_warning_of_the_childs_is_given_here(way, monkeypatch):
    playing(monkeypatch, """print('{"warning": "not taken down whole"}\\n{"error": ["BadSpec", "end"]}')""")
    with pytest.warns(UserWarning, match="not taken down whole"), pytest.raises(BadSpec):
        way(SPEC)


DEAF = 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(\'{"phase": ["deaf", 0, 0]}\','
DEAF += " flush=True); time.sleep(600)"


def test_a_child_that_does_not_heed_is_killed(monkeypatch, clean_host):
    playing(monkeypatch, DEAF)
    monkeypatch.setattr(attended, "PATIENCE_S", 0.3)

    def stop(name, *_):
        if name == "deaf":
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        attend(SPEC, on_phase=stop)
    assert time.monotonic() - begun < 30
    assert no_process_left(clean_host)


@pytest.mark.parametrize("patience_s", [0.3, 600.0], ids=["in time", "at the second cancelling"])
def test_a_child_that_does_not_heed_a_cancelling_is_killed(patience_s, monkeypatch, clean_host):
    playing(monkeypatch, DEAF)
    monkeypatch.setattr(attended, "PATIENCE_S", patience_s)

    async def stopped():
        deaf = asyncio.Event()
        task = asyncio.create_task(attend_async(SPEC, on_phase=lambda name, *_: name == "deaf" and deaf.set()))
        await asyncio.wait_for(deaf.wait(), 60)
        task.cancel()
        await asyncio.wait({task}, timeout=0.1 if patience_s > 1 else None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    asyncio.run(stopped())
    assert no_process_left(clean_host)


#: Until it says who it is it heeds nothing: the child of a notebook's kernel inherits that SIGINT is ignored.
STARTING = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(1)
try:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print('{{"owner": "0@0"}}', flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    open({clean!r}, "x").close()
"""


@pytest.mark.parametrize("after_s", [0.0, 0.5])
def test_a_child_that_is_cancelled_while_it_starts_cleans_up_as_later(after_s, monkeypatch, tmp_path):
    playing(monkeypatch, STARTING.format(clean=str(tmp_path / "clean")))

    async def stopped():
        task = asyncio.create_task(attend_async(SPEC))
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert (tmp_path / "clean").exists()


def test_who_listens_to_nothing_holds_nothing_up_and_hears_what_counts():
    reads, writes = os.pipe()
    out = attended._Outlet(writes)
    out.tell(owner="me")
    for number in range(10_000):  # a pipe has 64 KiB
        out.mention(phase=["measuring (s)", number, 10_000])
    out.tell(warning="mind the gap")
    with os.fdopen(reads, "rb") as lines:
        last = threading.Thread(target=lambda: (out.tell(run="/runs/1"), out.finish(), os.close(writes)))
        last.start()
        told = [json.loads(line) for line in lines]
        last.join()
    assert told[0] == {"owner": "me"}
    assert told[-2:] == [{"warning": "mind the gap"}, {"run": "/runs/1"}]
    phases = [each["phase"][1] for each in told[1:-2]]
    assert phases == list(range(len(phases)))
    assert 100 < len(phases) < 10_000


def test_what_others_print_in_the_child_goes_with_the_complaints():
    script = (
        "import os, subprocess, sys\n"
        "from pairlab import attended\n"
        "out = attended._Outlet(attended._own_output())\n"
        "print('from python', flush=True)\n"
        "subprocess.run(['echo', 'from a program'])\n"
        "out.tell(run='/runs/1')\n"
        "out.finish()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"run": "/runs/1"}
    assert done.stderr.splitlines() == ["from python", "from a program"]


def test_a_child_whose_parent_is_gone_measures_nothing(runs_dir):
    asked = {"parent": 1 << 22, "spec": SPEC.model_dump(), "fresh": False, "wait": True, "root": None, "watched": False}
    done = subprocess.run(
        [sys.executable, "-m", "pairlab.attended"], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert not runs_dir.exists()
