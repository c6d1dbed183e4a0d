"""flowgen hold: nothing outlives its controller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.host.flowgen.helpers import REFUSED, child_of, has_gone, pids, read_line, run

#: How a launcher is told to end its child, or ends itself.
ENDS = {
    "packet": lambda held: held.control.send(b"term"),
    "signal": lambda held: held.process.send_signal(signal.SIGTERM),
    "lifeline": lambda held: held.control.close(),
    "killed": lambda held: held.process.kill(),
}
FAMILY = 'sleep 1000 & echo $$ $! > "$0"; wait'  # a child, and a grandchild in the same group


def test_a_closed_control_socket_ends_the_child_and_its_children(hold, tmp_path):
    held = hold("--", "sh", "-c", FAMILY, tmp_path / "pids").ready()
    child, grandchild = pids(tmp_path / "pids")
    held.control.close()
    assert has_gone(child)
    assert has_gone(grandchild)
    assert held.exit_status() == 128 + signal.SIGTERM


def test_children_that_ignore_sigterm_are_killed_soon_after(hold, tmp_path):
    stubborn = "trap '' TERM; " + FAMILY
    held = hold("--", "sh", "-c", stubborn, tmp_path / "pids").ready()
    child, grandchild = pids(tmp_path / "pids")
    asked_ns = time.monotonic_ns()
    held.control.send(b"term")
    ended = held.event()
    assert ended["signal"] == signal.SIGKILL
    assert 0.2e9 <= ended["end_ns"] - asked_ns < 5e9
    assert has_gone(child)
    assert has_gone(grandchild)
    assert held.exit_status() == 137


def test_one_that_reports_at_sigterm_has_the_time_that_it_was_given(hold, tmp_path):
    """It takes longer than others have."""
    slow = "trap 'sleep 0.5; echo told; exit 0' TERM; echo $$ > \"$0\"; while :; do sleep 0.01; done"
    (tmp_path / "out").touch()
    held = hold("--grace", "20", "--stdout", tmp_path / "out", "--", "sh", "-c", slow, tmp_path / "pid").ready()
    pids(tmp_path / "pid")
    held.control.send(b"term")
    ended = held.event()
    assert (ended["signal"], ended["exit_code"]) == (None, 0)
    assert (tmp_path / "out").read_text() == "told\n"


@pytest.mark.parametrize("way", ["packet", "signal"])
def test_term_ends_the_child_at_once_and_its_end_is_still_reported(hold, way):
    held = hold("--", "sleep", "1000").ready()
    asked_ns = time.monotonic_ns()
    ENDS[way](held)
    ended = held.event()
    assert (ended["event"], ended["signal"], ended["exit_code"]) == ("ended", signal.SIGTERM, None)
    assert asked_ns < ended["end_ns"]
    assert held.event() is None
    assert held.exit_status() == 128 + signal.SIGTERM


@pytest.mark.parametrize("end", ["lifeline", "signal"])
def test_one_that_lingers_exits_when_the_controller_hangs_up_or_a_signal_says_so(hold, end):
    held = hold("--linger", "--", "sh", "-c", "exit 3")
    assert [held.event()["event"] for _ in range(2)] == ["ready", "ended"]
    held.control.send(b"term")  # late, and no end
    with pytest.raises(subprocess.TimeoutExpired):
        held.process.wait(0.1)
    ENDS[end](held)
    assert held.exit_status() == 3


def test_term_leaves_time_to_write_a_last_word(hold, out):
    script = "trap 'echo last word; exit 5' TERM; echo up; while :; do sleep 0.01; done"
    held = hold("--stdout", out, "--", "sh", "-c", script)
    assert read_line(out) == "up"
    assert held.event()["event"] == "ready"
    held.control.send(b"term")
    assert held.event()["exit_code"] == 5
    assert out.read_text() == "up\nlast word\n"


@pytest.mark.parametrize("way", ["packet", "signal", "lifeline"])
def test_term_at_the_gate_ends_a_child_that_never_started(hold_at_gate, held_at, gate, tmp_path, way):
    held = hold_at_gate("--", "touch", tmp_path / "mark").ready()
    number = signal.SIGKILL if held_at == "exec" else signal.SIGTERM
    ENDS[way](held)
    if way != "lifeline":
        ended = held.event()
        assert (ended["event"], ended["start_ns"], ended["signal"]) == ("ended", None, number)
        assert held.event() is None
    assert held.exit_status() == 128 + number
    gate.release()
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("way", ENDS)
def test_a_child_that_is_due_later_ends_at_once_and_never_starts(hold_at_gate, held_at, gate, tmp_path, way):
    held = hold_at_gate("--start-after", "1000", "--", "touch", tmp_path / "mark").ready()
    child = child_of(held)
    gate.release()
    ENDS[way](held)
    if way in ("packet", "signal"):
        number = signal.SIGKILL if held_at == "exec" else signal.SIGTERM
        ended = held.event()
        assert (ended["event"], ended["start_ns"], ended["signal"]) == ("ended", None, number)
    assert has_gone(child)
    assert held.exit_status() != 0
    assert not (tmp_path / "mark").exists()


def test_an_unknown_packet_changes_nothing(hold_at_gate, gate):
    held = hold_at_gate("--", "true", stderr=subprocess.PIPE, text=True).ready()
    held.control.send(b"terminate")
    assert "ignored an unknown packet" in held.process.stderr.readline()
    gate.release()
    assert held.event()["exit_code"] == 0


def test_what_a_child_leaves_behind_ends_with_it(hold, tmp_path):
    held = hold("--", "sh", "-c", 'sleep 1000 & echo $! > "$0"; exit 4', tmp_path / "pids").ready()
    assert held.event()["exit_code"] == 4
    (orphan,) = pids(tmp_path / "pids")
    with pytest.raises(ProcessLookupError):  # gone, and reaped, before its slot was reported as ended
        os.kill(orphan, 0)


def test_a_killed_launcher_takes_its_child_with_it(hold, tmp_path):
    held = hold("--", "sh", "-c", 'echo $$ > "$0"; exec sleep 1000', tmp_path / "pids").ready()
    (child,) = pids(tmp_path / "pids")
    held.process.kill()
    assert has_gone(child)
    assert held.event() is None


DOOMED_CONTROLLER = """
import os, socket, subprocess, sys
os.mkfifo("gate")
gate = os.open("gate", os.O_RDWR)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("control")
listener.listen(64)
launchers, controls = [], []
for i in range(8):
    hold = [*sys.argv[1:], "hold", "--control", "control", "--slot", "a", "--gate", "gate"]
    launchers.append(subprocess.Popen([*hold, "--", "touch", f"mark-{i}"]))
    controls.append(listener.accept()[0])
for word in (b"hello", b"ready"):
    assert all(word in control.recv(4096) for control in controls)
print(*(launcher.pid for launcher in launchers), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("before", [[], [sys.executable, "-c", REFUSED, "ptrace"]], ids=["exec", "gate"])
def test_when_the_controller_dies_at_the_gate_nothing_starts(flowgen, start, tmp_path, before):
    """The kernel opens the gate of a dead controller as well: such a release must not be believed."""
    if before and run(*before, "/bin/true").returncode != 0:
        pytest.skip("this host does not let us refuse ptrace (seccomp)")
    controller = start(
        sys.executable, "-c", DOOMED_CONTROLLER, *before, flowgen, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    launchers = [int(pid) for pid in controller.stdout.readline().split()]
    assert len(launchers) == 8
    assert all(has_gone(launcher) for launcher in launchers)
    assert not list(tmp_path.glob("mark-*"))
