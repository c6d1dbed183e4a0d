"""flowgen hold: on which CPUs, and in which cgroups, what it launches runs."""

import contextlib
import os
import signal
import uuid
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import child_of, status_of


def allowed(pid: int) -> str:
    return status_of(pid)["Cpus_allowed_list"]


@pytest.fixture
def cgroup():
    """A cgroup of the test's own: its folder, and its path as /proc has it."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    roots = {"": ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "pids": ["/sys/fs/cgroup/pids"]}
    for controller, path in own.items():
        for root in roots.get(controller, []):
            folder = Path(root + path) / f"test-{uuid.uuid4().hex}"
            with contextlib.suppress(OSError):
                folder.mkdir()
                yield folder, os.path.join(path, folder.name)
                folder.rmdir()
                return
    pytest.skip("this host does not let us make a cgroup: run as root")


def test_a_child_runs_only_on_the_cpus_it_was_given_and_ready_says_so(hold_at_gate, gate):
    before = allowed(os.getpid())
    cpu = str(max(os.sched_getaffinity(0)))
    held = hold_at_gate("--cpus", cpu, "--", "sleep", "1000")
    assert held.event()["cpus"] == cpu
    assert allowed(child_of(held)) == cpu
    assert allowed(held.process.pid) == before
    gate.release()


def test_where_a_child_might_run_at_its_end_is_reported(hold):
    held = hold("--", "sleep", "1000").ready()
    child, cpu = child_of(held), max(os.sched_getaffinity(0))
    os.sched_setaffinity(child, {cpu})
    os.kill(child, signal.SIGTERM)
    assert held.event()["cpus_at_end"] == str(cpu)


def test_a_list_of_cpus_is_written_as_the_kernel_writes_it(hold):
    cpus = sorted(os.sched_getaffinity(0))
    held = hold("--cpus", f"{cpus[0]},{cpus[0]}-{cpus[-1]}", "--", "sleep", "1000")
    assert held.event()["cpus"] == allowed(os.getpid())


def test_cpus_that_are_not_there_fail_the_launch(hold):
    assert hold("--cpus", "8191", "--", "true").event() == {
        "event": "failed",
        "slot": "a",
        "error": "cannot run on the CPUs 8191: Invalid argument",
    }


def test_a_child_joins_its_cgroup_before_it_is_ready_and_its_launcher_does_not(hold_at_gate, cgroup):
    folder, path = cgroup
    held = hold_at_gate("--cgroup", folder, "--", "sleep", "1000").ready()
    assert f":{path}\n" in Path(f"/proc/{child_of(held)}/cgroup").read_text()
    assert path not in Path(f"/proc/{held.process.pid}/cgroup").read_text()
    held.control.send(b"term")
    assert held.event()["event"] == "ended"


def test_a_child_joins_every_cgroup_it_is_given(hold, tmp_path):
    folders = [tmp_path / "cpu", tmp_path / "cpuset"]
    for folder in folders:
        folder.mkdir()
        (folder / "cgroup.procs").touch()
    hold("--cgroup", folders[0], "--cgroup", folders[1], "--", "true").ready()
    assert [(folder / "cgroup.procs").read_text() for folder in folders] == ["0", "0"]  # 0: who writes


def test_a_cgroup_that_cannot_be_joined_fails_the_launch(hold_at_gate, tmp_path):
    held = hold_at_gate("--cgroup", tmp_path / "none", "--", "touch", tmp_path / "mark")
    failed = held.event()
    assert failed["event"] == "failed"
    assert failed["error"] == f"cannot join the cgroup {tmp_path / 'none'}: No such file or directory"
    assert held.event() is None
    assert not (tmp_path / "mark").exists()
