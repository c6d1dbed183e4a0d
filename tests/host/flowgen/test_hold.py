"""flowgen hold: how what it launches starts, and what it says of it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import child_of, free_port, has_gone, mapped_files, read_line, run, status_of, until


def test_at_the_gate_a_child_is_ready_but_has_not_started(hold_at_gate, held_at, gate, tmp_path):
    mark = tmp_path / "mark"
    held = hold_at_gate("--", "touch", mark)
    ready = held.event()
    urgency = ready["urgency"] if held_at == "exec" else "none"  # else it is not the launcher who lets it go
    cpus = status_of(child_of(held))["Cpus_allowed_list"]
    said = {"event": "ready", "slot": "a", "held": held_at, "urgency": urgency, "cpus": cpus, "network": None}
    assert ready == {**said, "ns": ready["ns"]}
    assert ready["ns"] < time.monotonic_ns()
    assert not mark.exists()
    assert held.is_silent()

    released_ns = time.monotonic_ns()
    gate.release()
    ended = held.event()
    assert ended["event"] == "ended"
    assert ended["exit_code"] == 0
    assert released_ns <= ended["start_ns"] < ended["end_ns"] < time.monotonic_ns()
    assert mark.exists()
    assert held.event() is None


def test_a_file_can_be_the_standard_input_of_a_child(hold, tmp_path):
    (tmp_path / "in").write_text("given")
    (tmp_path / "out").touch()
    held = hold("--stdin", tmp_path / "in", "--stdout", tmp_path / "out", "--", "cat")
    assert [held.event()["event"] for _ in range(2)] == ["ready", "ended"]
    assert (tmp_path / "out").read_text() == "given"


def test_a_standard_input_that_there_is_not_is_a_failure_and_starts_nothing(hold, tmp_path):
    mark = tmp_path / "mark"
    failed = hold("--stdin", tmp_path / "none", "--", "touch", mark).event()
    assert failed["event"] == "failed"
    assert failed["error"] == f"cannot open {tmp_path / 'none'} for input: No such file or directory"
    assert not mark.exists()


def test_a_held_child_has_become_the_program_and_executed_nothing_of_it(hold, gate):
    program = shutil.which("sleep")
    held = hold("--gate", gate.path, "--", program, "1000")
    assert held.event()["held"] == "exec"
    child = child_of(held)
    assert os.path.samefile(f"/proc/{child}/exe", program)
    assert Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[1] == b"1000"
    assert status_of(child)["State"].startswith("t")  # stopped by its tracer
    assert int(status_of(child)["TracerPid"]) == held.process.pid
    before = mapped_files(child)
    gate.release()
    until(lambda: status_of(child)["State"].startswith("S"), "the child to sleep")
    if not mapped_files(child) - before:
        pytest.skip("sleep is a static program here: it maps nothing by which to see it start")
    assert not any("libc." in file for file in before)  # only the program and its loader, which had not run


def test_a_released_child_is_traced_by_nobody(hold_at_gate, gate):
    held = hold_at_gate("--", "sleep", "1000").ready()
    child = child_of(held)
    gate.release()
    until(lambda: status_of(child)["Name"] == "sleep", "the child to become sleep")
    until(lambda: status_of(child)["State"].startswith("S"), "the child to sleep")
    assert status_of(child)["TracerPid"] == "0"
    held.control.send(b"term")
    ended = held.event()
    assert ended["start_ns"] is not None
    assert ended["signal"] == signal.SIGTERM


def test_a_launcher_sleeps_from_the_release_to_the_end_of_its_child(hold, gate):
    held = hold("--gate", gate.path, "--", "sleep", "1000")
    assert held.event()["held"] == "exec"
    child = child_of(held)
    gate.release()
    until(lambda: status_of(child)["State"].startswith("S"), "the child to sleep")
    until(lambda: status_of(held.process.pid)["State"].startswith("S"), "the launcher to sleep")
    turns = status_of(held.process.pid)["voluntary_ctxt_switches"]
    time.sleep(0.2)  # in which nothing is to happen
    assert status_of(held.process.pid)["voluntary_ctxt_switches"] == turns


def test_signals_before_the_release_do_not_start_a_held_child(hold, gate, tmp_path):
    held = hold("--gate", gate.path, "--", "touch", tmp_path / "mark")
    assert held.event()["held"] == "exec"
    child = child_of(held)
    os.kill(child, signal.SIGCONT)
    os.kill(child, signal.SIGUSR1)
    assert status_of(child)["State"].startswith("t")
    gate.release()
    ended = held.event()
    assert ended["signal"] == signal.SIGUSR1  # it waited for the release, and came before the first instruction
    assert not (tmp_path / "mark").exists()


def test_a_held_child_that_someone_kills_is_reported_as_never_started(hold, gate):
    held = hold("--gate", gate.path, "--", "true")
    assert held.event()["held"] == "exec"
    os.kill(child_of(held), signal.SIGKILL)
    ended = held.event()
    assert (ended["start_ns"], ended["signal"]) == (None, signal.SIGKILL)


def test_a_killed_launcher_takes_its_held_child_with_it(hold_at_gate, gate, tmp_path):
    held = hold_at_gate("--", "touch", tmp_path / "mark").ready()
    child = child_of(held)
    held.process.kill()
    assert has_gone(child)
    gate.release()
    assert not (tmp_path / "mark").exists()


def test_one_release_starts_all_children(hold_at_gate, gate):
    held = [hold_at_gate("--", "true", slot=f"pair-{i}") for i in range(8)]
    ready = [one.event() for one in held]
    assert {each["event"] for each in ready} == {"ready"}
    urgencies = {each["urgency"] for each in ready}
    released_ns = time.monotonic_ns()
    gate.release()
    ended = [one.event() for one in held]
    assert [e["slot"] for e in ended] == [f"pair-{i}" for i in range(8)]
    starts = [e["start_ns"] for e in ended]
    assert released_ns <= min(starts)
    if urgencies == {"realtime"}:  # others have their turn of the CPU when the machine sees fit
        assert max(starts) - released_ns < 0.5e9


def test_one_release_starts_each_child_when_it_is_due_and_none_before(hold_at_gate, gate):
    due_s = (0.0, 0.05, 0.1, 0.15)
    every = [hold_at_gate("--start-after", due, "--", "true", slot=f"{due}") for due in due_s]
    assert {held.event()["event"] for held in every} == {"ready"}
    released_ns = time.monotonic_ns()
    gate.release()
    starts_ns = [held.event()["start_ns"] for held in every]
    assert starts_ns == sorted(starts_ns)
    assert all(start_ns - released_ns >= due * 1e9 for start_ns, due in zip(starts_ns, due_s, strict=True))


def test_a_launcher_sleeps_until_its_child_is_due(hold, gate):
    held = hold("--gate", gate.path, "--start-after", "1000", "--", "true")
    assert held.event()["held"] == "exec"
    until(lambda: status_of(held.process.pid)["State"].startswith("S"), "the launcher to wait at the gate")
    turns = status_of(held.process.pid)["voluntary_ctxt_switches"]
    gate.release()
    until(lambda: status_of(held.process.pid)["voluntary_ctxt_switches"] != turns, "the launcher to see the gate open")
    until(lambda: status_of(held.process.pid)["State"].startswith("S"), "the launcher to sleep")
    turns = status_of(held.process.pid)["voluntary_ctxt_switches"]
    time.sleep(0.2)  # in which nothing is to happen
    assert status_of(held.process.pid)["voluntary_ctxt_switches"] == turns


def test_without_a_gate_ready_means_that_the_command_runs(hold):
    held = hold("--", "true")
    ready, ended = held.event(), held.event()
    assert (ready["event"], ended["event"]) == ("ready", "ended")
    assert ended["start_ns"] < ready["ns"]
    assert held.exit_status() == 0


def test_a_command_that_cannot_run_is_reported_with_its_name_and_the_reason(hold):
    # A PATH of our own: had it an unreadable folder, the reason would be that (Permission denied).
    held = hold("--", "no-such-command", stderr=subprocess.PIPE, text=True, env={"PATH": os.defpath})
    failed = held.event()
    assert failed == {"event": "failed", "slot": "a", "error": "cannot run no-such-command: No such file or directory"}
    assert held.event() is None
    assert held.exit_status() == 1
    assert held.process.stderr.read() == f"flowgen hold: slot a: {failed['error']}\n"


def test_a_command_that_cannot_run_is_reported_before_it_is_ready_or_where_untraced_after(hold_at_gate, held_at, gate):
    held = hold_at_gate("--", "/dev/null")
    if held_at == "gate":
        assert held.event()["event"] == "ready"
        gate.release()
    assert held.event()["error"] == "cannot run /dev/null: Permission denied"
    assert held.event() is None
    assert held.exit_status() == 1


def test_a_gate_that_nobody_holds_is_reported_and_not_waited_for(hold, tmp_path):
    os.mkfifo(tmp_path / "left")
    (tmp_path / "file").touch()
    for path in (tmp_path / "left", tmp_path / "file"):
        failed = hold("--gate", path, "--", "true").event()
        assert failed["event"] == "failed"
        assert f"the gate {path} has no writer" in failed["error"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--netns", "/nonexistent"], "cannot open network namespace /nonexistent: No such file or directory"),
        (["--netns", "/dev/null"], "cannot enter network namespace /dev/null: Invalid argument"),
        (["--stdout", "/nonexistent"], "cannot open /nonexistent for output: No such file or directory"),
        (["--stderr", "/nonexistent"], "cannot open /nonexistent for output: No such file or directory"),
        (["--gate", "/nonexistent"], "cannot open the gate /nonexistent: No such file or directory"),
        (["--gate", '/"\xe9'], 'cannot open the gate /"\xc3\xa9: No such file or directory'),
    ],
)
def test_what_a_launch_lacks_is_reported_as_its_failure(hold, arguments, error):
    held = hold(*arguments, "--", "true")
    assert held.event() == {"event": "failed", "slot": "a", "error": error}
    assert held.event() is None
    assert held.exit_status() == 1


def test_a_launcher_without_a_controller_says_so_and_runs_nothing(flowgen, tmp_path):
    done = run(flowgen, "hold", "--control", tmp_path / "none", "--slot", "a", "--", "touch", tmp_path / "mark")
    assert done.returncode == 1
    assert "cannot reach the controller" in done.stderr
    assert not (tmp_path / "mark").exists()


def test_a_server_is_ready_when_its_port_is_listened_on(hold, flowgen):
    port = free_port()
    held = hold("--listen", port, "--", flowgen, "server", "--port", port, "--bind", "127.0.0.1").ready()
    socket.create_connection(("127.0.0.1", port)).close()  # refused, were it not
    held.control.send(b"term")
    ended = held.event()
    assert (ended["event"], ended["exit_code"]) == ("ended", 0)


def test_an_ipv6_listener_counts_as_well(hold):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this host has no IPv6 loopback: {error}")
        port = probe.getsockname()[1]
    script = (
        "import signal, socket, sys\n"
        "server = socket.create_server(('::1', int(sys.argv[1])), family=socket.AF_INET6)\n"
        "signal.pause()"
    )
    hold("--listen", port, "--", sys.executable, "-c", script, port).ready()


def test_a_server_that_ends_before_it_listens_is_never_ready(hold):
    held = hold("--listen", free_port(), "--", "sh", "-c", "exit 3")
    ended = held.event()
    assert (ended["event"], ended["exit_code"]) == ("ended", 3)
    assert held.event() is None


def test_a_port_that_another_listens_on_is_not_taken_for_the_child(hold, server):
    held = hold("--listen", server.port, "--", "sleep", "1000")
    failed = held.event()
    assert failed["event"] == "failed"
    assert f"port {server.port} is already listened on" in failed["error"]


@pytest.mark.parametrize(
    ("script", "exit_code", "number", "status"),
    [("exit 0", 0, None, 0), ("exit 7", 7, None, 7), ("kill -KILL $$", None, 9, 137), ("kill -USR1 $$", None, 10, 138)],
)
def test_exit_codes_and_signals_are_reported_and_passed_on(hold, script, exit_code, number, status):
    held = hold("--", "sh", "-c", script).ready()
    ended = held.event()
    assert (ended["exit_code"], ended["signal"]) == (exit_code, number)
    assert held.exit_status() == status


def test_resources_of_the_child_are_reported(hold):
    held = hold("--", sys.executable, "-c", "b = bytearray(64 << 20); x = sum(range(2_000_000))")
    held.event()
    ended = held.event()
    assert ended["user_s"] > 0
    assert ended["sys_s"] >= 0
    assert 64 << 20 < ended["max_rss_bytes"] < 2 << 30
    assert ended["user_s"] <= (ended["end_ns"] - ended["start_ns"]) / 1e9 + 0.05


def test_context_switches_of_the_child_are_reported_by_kind(hold):
    naps = hold("--", sys.executable, "-c", "import time; [time.sleep(0.001) for _ in range(200)]")
    naps.event()
    ended = naps.event()
    assert 200 <= ended["voluntary_switches"] < 2000
    assert ended["involuntary_switches"] >= 0


def test_output_goes_into_the_given_files_and_input_is_empty(hold, tmp_path):
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("left from before")
    err.write_text("")
    hold("--stdout", out, "--stderr", err, "--", "sh", "-c", "cat; echo one; echo two >&2").event()
    assert read_line(out) == "one"
    assert read_line(err) == "two"
    assert out.read_text() == "one\n"


def test_slot_names_with_quotes_and_backslashes_come_back_as_they_were(hold):
    slot = 'a "b" \\ {c}, 1'
    held = hold("--", "true", slot=slot)
    assert held.event()["slot"] == slot
    assert held.event()["slot"] == slot


def test_the_command_finds_signals_and_descriptors_as_if_started_from_a_shell(hold_at_gate, gate, out):
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l"
    # SIGPIPE and SIGCHLD ignored in the controller must not pass through to the workload
    ignoring = [sys.executable, "-c", (
        "import os, signal, sys; [signal.signal(s, signal.SIG_IGN) for s in (13, 17)];"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )]  # fmt: skip
    held = hold_at_gate("--stdout", out, "--", "sh", "-c", script, before=ignoring).ready()
    gate.release()
    assert held.event()["exit_code"] == 0
    blocked, ignored, descriptors = out.read_text().splitlines()
    assert int(blocked.split()[1], 16) == 0
    libc_own = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's, and no program can set them (signal(7))
    assert int(ignored.split()[1], 16) & ~libc_own == 0
    assert int(descriptors) == 4  # in, out, err, and the one of ls itself


def test_the_child_runs_in_the_given_network_namespace(hold, namespace, out):
    inside = ["nsenter", "--target", namespace, "--user", "--preserve-credentials"]
    path = f"/proc/{namespace}/ns/net"
    held = hold("--netns", path, "--stdout", out, "--", "readlink", "/proc/self/ns/net", before=inside)
    held.event()
    assert held.event()["exit_code"] == 0
    assert out.read_text().strip() == os.readlink(path) != os.readlink("/proc/self/ns/net")


def test_readiness_is_that_of_the_port_in_the_given_network_namespace(hold, namespace, server, flowgen):
    """The same port is listened on outside: that neither counts as ready, nor as taken."""
    inside = ["nsenter", "--target", namespace, "--user", "--preserve-credentials"]
    options = ["--netns", f"/proc/{namespace}/ns/net", "--listen", server.port]
    held = hold(*options, "--", "sh", "-c", "exit 3", before=inside)
    assert held.event()["exit_code"] == 3
    held = hold(*options, "--", flowgen, "server", "--port", server.port, before=inside).ready()


def on_cpu_or_due_ns(pid):
    """For how long it was running, or waiting for its turn of a CPU: the first two numbers of /proc/PID/schedstat."""
    return sum(map(int, Path(f"/proc/{pid}/schedstat").read_text().split()[:2]))


def test_a_neighbour_is_resolved_before_ready_by_its_answer_from_a_closed_port(hold):
    begun_ns = time.monotonic_ns() - on_cpu_or_due_ns(os.getpid())
    held = hold("--resolve", "127.0.0.1", "--", "sleep", "1000")
    ready = held.event()
    assert ready["event"] == "ready"
    passed_ns = ready["ns"] - begun_ns - on_cpu_or_due_ns(os.getpid())
    assert passed_ns - on_cpu_or_due_ns(held.process.pid) < 0.9e9  # unanswered, it sleeps for a second


def test_a_neighbour_that_does_not_answer_delays_a_launch_by_a_second_and_no_more(hold):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        try:
            silent.bind(("127.0.0.2", 9))  # an open discard port answers nothing
        except PermissionError:
            pytest.skip("only root may open a port below 1024")
        begun = time.monotonic()
        hold("--resolve", "127.0.0.2", "--", "sleep", "1000").ready()
        assert time.monotonic() - begun >= 1.0
