"""flowgen hold: how urgent a launcher is, and that what it launches is not."""

from __future__ import annotations

import os
import platform
import shutil
import sys

import pytest

from tests.host.flowgen.helpers import child_of, run, until

CAP_SYS_NICE = 23


def policy_of(pid: int) -> int:
    return os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK


@pytest.fixture(scope="session")
def realtime() -> None:
    trial = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    if run(sys.executable, "-c", trial).returncode != 0:
        pytest.skip("this host refuses us SCHED_FIFO: run as root, in a CPU cgroup that has real time")


@pytest.fixture
def without_sys_nice() -> list[str]:
    """What to run a command through, so that it may not be in real time."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("taking CAP_SYS_NICE from root needs setpriv, not on PATH: apt-get install util-linux")
    return ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]


def test_a_launcher_is_in_real_time_while_it_holds_and_its_client_never(hold, gate, realtime):
    held = hold("--gate", gate.path, "--", "sleep", "1000")
    assert held.event()["urgency"] == "realtime"
    child = child_of(held)
    assert os.sched_getscheduler(held.process.pid) == os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    assert os.sched_getparam(held.process.pid).sched_priority == 1
    assert os.sched_getscheduler(child) == os.SCHED_OTHER
    gate.release()
    until(lambda: policy_of(held.process.pid) == os.SCHED_OTHER, "the launcher to leave real time")
    assert os.sched_getscheduler(child) == os.SCHED_OTHER


def test_a_launcher_in_real_time_keeps_its_nice_value(hold, gate, realtime):
    held = hold("--gate", gate.path, "--", "sleep", "1000", before=["nice", "-n", "5"])
    assert held.event()["urgency"] == "realtime"
    gate.release()
    until(lambda: policy_of(held.process.pid) == os.SCHED_OTHER, "the launcher to leave real time")
    assert os.getpriority(os.PRIO_PROCESS, held.process.pid) == min(os.nice(0) + 5, 19)


def test_a_launcher_that_may_not_be_in_real_time_asks_for_a_short_slice(hold, gate, without_sys_nice):
    held = hold("--gate", gate.path, "--", "true", before=without_sys_nice)
    version = tuple(int(number) for number in platform.release().split(".")[:2])
    assert held.event()["urgency"] == ("slice" if version >= (6, 12) else "none")
    assert os.sched_getscheduler(held.process.pid) == os.SCHED_OTHER
    gate.release()
    assert held.event()["exit_code"] == 0


def test_a_scheduling_policy_that_someone_chose_is_left_alone(hold, gate):
    batch = (
        "import os, sys; os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0));"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    held = hold("--gate", gate.path, "--", "true", before=[sys.executable, "-c", batch])
    assert held.event()["urgency"] == "none"
    assert [os.sched_getscheduler(pid) for pid in (held.process.pid, child_of(held))] == [os.SCHED_BATCH] * 2


@pytest.mark.parametrize("inheritable", [False, True])
def test_what_is_launched_has_no_cap_sys_nice(hold_at_gate, gate, out, inheritable):
    before = ["setpriv", "--inh-caps", "+sys_nice", "--ambient-caps", "+sys_nice"] if inheritable else []
    if before and run(*before, "true").returncode != 0:
        pytest.skip("this host does not let us hand CAP_SYS_NICE on (setpriv, as root)")
    script = "grep ^Cap /proc/self/status"
    held = hold_at_gate("--stdout", out, "--", "sh", "-c", script, before=before).ready()
    gate.release()
    assert held.event()["exit_code"] == 0
    found = {line.split()[0]: int(line.split()[1], 16) for line in out.read_text().splitlines()}
    assert found.keys() == {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"}
    if os.geteuid() != 0:
        del found["CapBnd:"]  # to take from that set is a privilege; and there is nobody to gain of it
    assert [name for name, bits in found.items() if bits >> CAP_SYS_NICE & 1] == []
