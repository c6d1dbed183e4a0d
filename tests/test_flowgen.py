"""flowgen, the native flow generator and launcher; each test runs over the release and sanitized builds."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pairlab.errors import MeasurementFailed
from pairlab.testbed.barrier import Conductor
from pairlab.testbed.contracts import Endpoint

SOURCE = Path(__file__).resolve().parents[1] / "lib" / "flowgen"
PATIENCE_S = 20.0  # how long a test waits for what must come; never slept through


# --- binaries and processes


def make(*targets: str) -> None:
    built = run("make", "-C", SOURCE, *targets, patience_s=300)
    assert built.returncode == 0, built.stdout + built.stderr


def needs_compiler() -> None:
    if not shutil.which("make") or not shutil.which("cc"):
        pytest.skip("building flowgen needs make and cc, not both on PATH: apt-get install make gcc")


def needs_sanitizers(folder: Path) -> None:
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    flags = "-fsanitize=address,undefined"
    if run("cc", flags, "-o", folder / "empty", folder / "empty.c", patience_s=60).returncode != 0:
        pytest.skip(f"this compiler cannot link with {flags}: apt-get install gcc (it brings libasan and libubsan)")


@pytest.fixture(scope="session", params=["release", "sanitize"])
def flowgen(request, tmp_path_factory) -> str:
    binary = SOURCE / "build" / ("flowgen" if request.param == "release" else "flowgen-sanitize")
    if request.param == "release" and binary.exists() and not shutil.which("cc"):
        return str(binary)  # built with another compiler
    needs_compiler()
    if request.param == "sanitize":
        needs_sanitizers(tmp_path_factory.mktemp("sanitizers"))
    make("all" if request.param == "release" else "sanitize")
    return str(binary)


def run(*argv, patience_s: float = PATIENCE_S) -> subprocess.CompletedProcess:
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=patience_s, check=False)


@pytest.fixture
def start():
    """Starts processes, and ends those that are left, each by its own handle."""
    processes = []

    def start(*argv, **options) -> subprocess.Popen:
        process = subprocess.Popen([str(a) for a in argv], **options)
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def has_gone(pid: int) -> bool:
    """Waits for the end of a process that need not be our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE_S)[0])
    finally:
        os.close(handle)


def until(condition, what: str):
    """Polls, for the few things of which the kernel sends no event."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)
    return value


def sleeps(pid: int) -> bool:
    """Whether it has come to the one place where pause sleeps. (The kernel hides what it waits for there.)"""
    name, state = Path(f"/proc/{pid}/stat").read_text().split()[1:3]
    return name.startswith("(flowgen") and state == "S"


def read_line(path: Path) -> str:
    """The first line of a file that another process is about to write."""
    until(lambda: path.exists() and "\n" in path.read_text(), f"a line in {path.name}")
    return path.read_text().split("\n")[0]


# --- the build


def test_the_build_is_free_of_warnings_and_takes_a_compiler_of_several_words(tmp_path):
    needs_compiler()
    copy = shutil.copytree(SOURCE, tmp_path / "flowgen", ignore=shutil.ignore_patterns("build"))
    built = run("make", "-C", copy, "CC=env cc", patience_s=300)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    assert all(flag in built.stdout for flag in ("env cc", "-Wall", "-Wextra", "-Werror", "-static"))
    assert [path.name for path in (copy / "build").iterdir()] == ["flowgen"]


# --- server and client


class Server:
    def __init__(self, start, flowgen: str):
        self.port = free_port()
        # unbuffered: select() must see every line that readline() has not taken
        self.process = start(
            flowgen, "server", "--port", self.port, "--bind", "127.0.0.1", stdout=subprocess.PIPE, bufsize=0
        )  # fmt: skip
        until(self._listens, "the server to listen")
        assert self.received()["flow_bytes"] == 0  # the probe itself

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def received(self) -> dict:
        assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], "no line from the server"
        return json.loads(self.process.stdout.readline())

    def stop(self) -> list[dict]:
        self.process.terminate()
        rest, _ = self.process.communicate(timeout=PATIENCE_S)
        return [json.loads(line) for line in rest.splitlines()]


@pytest.fixture
def server(start, flowgen) -> Server:
    return Server(start, flowgen)


def client(flowgen: str, server: Server, *options) -> tuple[list[dict], dict]:
    done = run(flowgen, "client", "--connect", f"127.0.0.1:{server.port}", *options)
    assert done.returncode == 0, done.stderr
    *intervals, total = (json.loads(line) for line in done.stdout.splitlines())
    return intervals, total


def test_intervals_follow_each_other_and_sum_to_the_total(flowgen, server):
    intervals, total = client(flowgen, server, "--duration", 0.5, "--interval", 0.2)
    assert [line["event"] for line in intervals] == ["interval"] * len(intervals)
    assert 1 <= len(intervals) <= 3  # three, unless the machine stalls for a whole interval
    assert intervals[0]["start_s"] == 0
    assert all(a["end_s"] == b["start_s"] for a, b in itertools.pairwise(intervals))
    assert intervals[-1]["end_s"] == pytest.approx(total["duration_s"])
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"] > 1_000_000
    assert sum(line["retransmits"] for line in intervals) == total["retransmits"]


def test_intervals_end_on_multiples_of_the_interval_and_do_not_drift(flowgen, server):
    intervals, _ = client(flowgen, server, "--duration", 1, "--interval", 0.1)
    assert len(intervals) >= 5
    for line in intervals[:-1]:
        assert line["end_s"] % 0.1 < 0.08  # late by scheduling only, never early, and not late by a sum of delays


def test_the_total_is_consistent_and_in_base_units(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.3)
    assert total["event"] == "total"
    assert "error" not in total
    assert total["connect_ns"] < total["connected_ns"] < total["end_ns"] < time.monotonic_ns()
    assert total["duration_s"] == pytest.approx((total["end_ns"] - total["connected_ns"]) / 1e9)
    assert total["throughput_bps"] == pytest.approx(total["flow_bytes"] * 8 / total["duration_s"])
    assert 0 < total["flow_bytes"] <= total["bytes_written"]
    assert total["mss_bytes"] > 500
    assert total["cwnd_bytes"] >= total["mss_bytes"]
    assert 0 <= total["min_rtt_s"] <= total["rtt_s"] < 5


def test_a_flow_lasts_as_long_as_asked(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.25)
    assert 0.25 <= total["duration_s"] < 1.25


def test_the_server_receives_at_least_what_the_client_counts(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.3)
    received = server.received()
    assert total["flow_bytes"] <= received["flow_bytes"] <= total["bytes_written"]
    assert received["peer"].startswith("127.0.0.1:")
    assert total["connect_ns"] < received["first_ns"] < received["last_ns"]
    assert received["accept_ns"] <= received["first_ns"]
    assert "error" not in received


def test_bytes_that_nobody_acknowledged_do_not_count(flowgen):
    with socket.socket() as silent:  # listens, but never reads: the socket buffers fill, and then writes block
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        done = run(
            flowgen, "client", "--connect", f"127.0.0.1:{silent.getsockname()[1]}", "--duration", 0.4,
            "--interval", 0.1,
        )  # fmt: skip
    *intervals, total = (json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert total["flow_bytes"] < total["bytes_written"]
    assert intervals[-1]["bytes"] == 0
    assert total["duration_s"] >= 0.4


def test_the_default_congestion_control_is_named(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.05)
    assert total["congestion_control"] == Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def test_a_chosen_congestion_control_is_used(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.05, "--congestion", "reno")
    assert total["congestion_control"] == "reno"


def test_an_unknown_congestion_control_is_refused_by_name(flowgen, server):
    done = run(
        flowgen, "client", "--connect", f"127.0.0.1:{server.port}", "--duration", 1, "--congestion", "warp"
    )  # fmt: skip
    assert done.returncode == 1
    assert "'warp': No such file or directory" in done.stderr
    assert "warp" in json.loads(done.stdout)["error"]


def test_a_refused_connection_is_an_error_and_still_a_total(flowgen):
    done = run(flowgen, "client", "--connect", f"127.0.0.1:{free_port()}", "--duration", 1)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert done.stderr.count("\n") == 1
    total = json.loads(done.stdout)
    assert total["event"] == "total"
    assert total["flow_bytes"] == 0
    assert total["throughput_bps"] is None
    assert total["connected_ns"] is None
    assert "Connection refused" in total["error"]


def test_a_connection_that_breaks_keeps_the_intervals_so_far(flowgen, start):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender = start(
            flowgen, "client", "--connect", f"127.0.0.1:{listener.getsockname()[1]}",
            "--duration", 60, "--interval", 0.05, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        peer, _ = listener.accept()
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            peer.recv(1 << 20)
        peer.close()  # with unread data: a reset
    output, errors = sender.communicate(timeout=PATIENCE_S)
    *intervals, total = (json.loads(line) for line in output.splitlines())
    assert sender.returncode == 1
    assert "the connection broke" in errors
    assert "the connection broke" in total["error"]
    assert len(intervals) >= 2
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"] > 0
    assert total["duration_s"] < 30


def test_the_server_takes_many_flows_at_once_and_starves_none(flowgen, server, start):
    senders = [
        start(
            flowgen,
            "client",
            "--connect",
            f"127.0.0.1:{server.port}",
            "--duration",
            0.5,
            stdout=subprocess.PIPE,
        )
        for _ in range(8)
    ]
    totals = [json.loads(sender.communicate(timeout=PATIENCE_S)[0].splitlines()[-1]) for sender in senders]
    received = [server.received() for _ in senders]
    assert len({line["peer"] for line in received}) == 8
    assert sum(line["flow_bytes"] for line in received) >= sum(total["flow_bytes"] for total in totals)
    assert all(total["flow_bytes"] > 0 for total in totals)


def test_a_stopped_server_exits_cleanly_and_reports_flows_that_are_still_open(flowgen, server):
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.sendall(b"x" * 1000)
        (line,) = server.stop()
        assert line["flow_bytes"] == 1000
        assert "stopped" in line["error"]
    assert server.process.returncode == 0


def test_a_reset_connection_is_reported_with_its_error(flowgen, server):
    peer = socket.create_connection(("127.0.0.1", server.port))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close resets
    peer.close()
    assert server.received()["error"] == "Connection reset by peer"


def test_a_server_out_of_descriptors_makes_peers_wait_and_serves_them_later(flowgen, start):
    limited = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", flowgen]
    port = free_port()
    process = start(
        *limited,
        "server",
        "--port",
        port,
        "--bind",
        "127.0.0.1",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    peers = []

    def connects() -> bool:
        with contextlib.suppress(ConnectionRefusedError):
            peers.append(socket.create_connection(("127.0.0.1", port)))
        return len(peers) == 20

    until(connects, "20 connections")
    assert select.select([process.stderr], [], [], PATIENCE_S)[0]
    assert b"out of file descriptors" in process.stderr.readline()
    for peer in peers:
        peer.sendall(b"x" * 10)
        peer.close()
    lines = [json.loads(process.stdout.readline()) for _ in peers]
    assert [line["flow_bytes"] for line in lines] == [10] * 20


def test_a_port_in_use_is_an_error_that_names_it(flowgen, server):
    done = run(flowgen, "server", "--port", server.port, "--bind", "127.0.0.1")
    assert done.returncode == 1
    told = done.stderr.replace("Address in use", "Address already in use")  # musl's words, and glibc's
    assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in told


# --- arguments

CLIENT = ["client", "--connect", "127.0.0.1:9", "--duration", "1"]
HOLD = ["hold", "--control", "nowhere", "--slot", "a"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "no command"),
        (["serve"], "'serve'"),
        (["server"], "--port is missing"),
        (["server", "--port"], "--port needs a value"),
        (["server", "--port", "0"], "--port '0'"),
        (["server", "--port", "65536"], "--port '65536'"),
        (["server", "--port", "0x50"], "--port '0x50'"),
        (["server", "--port", " 80"], "--port ' 80'"),
        (["server", "--port", "+80"], "--port '+80'"),
        (["server", "--port", "80x"], "--port '80x'"),
        (["server", "--port", ""], "--port ''"),
        (["server", "--port", "99999999999999999999"], "--port '9999"),
        (["server", "--port", "80", "--port", "81"], "--port is given twice"),
        (["server", "--port", "80", "--bind", "localhost"], "--bind 'localhost'"),
        (["server", "--port", "80", "--por", "81"], "unknown option '--por'; there are: --port, --bind"),
        (["server", "--port", "80", "extra"], "unexpected argument 'extra'"),
        (["server", "--port", "80", "--", "ls"], "'--'"),
        (["client", "--duration", "1"], "--connect is missing"),
        (["client", "--connect", "127.0.0.1:9"], "--duration is missing, or --bytes"),
        (["client", "--connect", "127.0.0.1", "--duration", "1"], "--connect '127.0.0.1'"),
        (["client", "--connect", "127.0.0.1:0", "--duration", "1"], "--connect '127.0.0.1:0'"),
        (["client", "--connect", "127.0.0.1:9x", "--duration", "1"], "--connect '127.0.0.1:9x'"),
        (["client", "--connect", "::1:9", "--duration", "1"], "--connect '::1:9'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "0"], "--duration '0'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "-1"], "--duration '-1'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "nan"], "--duration 'nan'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "inf"], "--duration 'inf'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "1s"], "--duration '1s'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "1e"], "--duration '1e'"),
        ([*CLIENT, "--interval", "0"], "--interval '0'"),
        (
            ["client", "--connect", "127.0.0.1:9", "--duration", "2000", "--interval", "0.001"],
            "1000000 intervals",
        ),
        ([*CLIENT, "--write-bytes", "0"], "--write-bytes '0'"),
        ([*CLIENT, "--write-bytes", "1.5"], "--write-bytes '1.5'"),
        ([*CLIENT, "--congestion", "longer-than-the-kernel-allows"], "--congestion"),
        ([*HOLD], "after '--'"),
        ([*HOLD, "--"], "after '--'"),
        (["hold", "--slot", "a", "--", "true"], "--control is missing"),
        (["hold", "--control", "nowhere", "--", "true"], "--slot is missing"),
        ([*HOLD, "--gate", "g", "--listen", "80", "--", "true"], "--gate and --listen"),
        ([*HOLD, "--listen", "http", "--", "true"], "--listen 'http'"),
        (["hold", "--control", "nowhere", "--slot", "a\nb", "--", "true"], "--slot"),
        (["hold", "--control", "nowhere", "--slot", "é", "--", "true"], "--slot"),
        (["hold", "--control", "nowhere", "--slot", "", "--", "true"], "--slot is empty"),
        (["hold", "--control", "nowhere", "--slot", "a" * 129, "--", "true"], "--slot is longer than 128"),
        (["hold", "--control", "n" * 200, "--slot", "a", "--", "true"], "--control"),
        (["facts"], "--link is missing"),
        (["facts", "--link", "n" * 16], "--link 'nnnn"),
        (["pause", "now"], "'now'"),
        (["pause", "--for", "1"], "unknown option '--for'; there are: none"),
    ],
)
def test_a_wrong_argument_is_refused_by_name_on_one_line(flowgen, arguments, named):
    done = run(flowgen, *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stderr.startswith("flowgen")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help_lists_every_command_and_version_prints_one(flowgen):
    for arguments in (["--help"], ["client", "--help"]):
        done = run(flowgen, *arguments)
        assert done.returncode == 0
        assert all(
            f"flowgen {name}" in done.stdout for name in ("server", "client", "hold", "pause", "facts", "version")
        )
    assert run(flowgen, "version").stdout.split()[0] == "flowgen"


# --- hold


class Hold:
    """One launcher, seen from its controller."""

    def __init__(self, process: subprocess.Popen, control: socket.socket):
        self.process = process
        self.control = control

    def event(self) -> dict | None:
        """The next event; None when the launcher has closed the connection."""
        packet = self.control.recv(65536)
        return json.loads(packet) if packet else None

    def is_silent(self) -> bool:
        return not select.select([self.control], [], [], 0)[0]

    def exit_status(self) -> int:
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def hold(flowgen, start, tmp_path):
    """hold("--gate", gate, "--", "true", slot="a") -> Hold, connected, and its hello heard."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "control"))
    listener.listen(64)
    listener.settimeout(PATIENCE_S)
    connections = []

    def launch(*arguments, slot="a", before=(), **options) -> Hold:
        process = start(
            *before, flowgen, "hold", "--control", tmp_path / "control", "--slot", slot, *arguments, **options
        )
        control, _ = listener.accept()
        control.settimeout(PATIENCE_S)
        connections.append(control)
        held = Hold(process, control)
        assert held.event() == {"event": "hello", "slot": slot}
        return held

    yield launch
    for connection in connections:
        connection.close()
    listener.close()


class Gate:
    """Held open from the start, as launchers expect; closing it is the release."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def release(self) -> None:
        os.close(self.fd)
        self.fd = -1


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path / "gate")
    yield gate
    if gate.fd >= 0:
        gate.release()


# Runs a command so that it may trace nothing, as a container with a strict seccomp profile, or Yama, would have it.
UNTRACED = """
import ctypes, os, platform, struct, sys
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, EPERM = 38, 22, 2, 1
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ptrace = {"x86_64": 101, "aarch64": 117}[platform.machine()]
code = b"".join(struct.pack("=HBBI", *instruction) for instruction in [
    (LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, ptrace), (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW),
])
filters = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(filters)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)]:
    if libc.prctl(*arguments):
        sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(params=["exec", "gate"])
def held_at(request) -> str:
    """Both ways of holding: after the exec, and, where tracing is refused, at the gate before it."""
    return request.param


@pytest.fixture
def hold_at_gate(hold, gate, held_at):
    """hold_at_gate("--", "true") -> Hold, at the gate in the way of held_at."""
    if held_at == "exec":
        return lambda *arguments, **options: hold("--gate", gate.path, *arguments, **options)
    untraced = [sys.executable, "-c", UNTRACED]
    if platform.machine() not in ("x86_64", "aarch64") or run(*untraced, "/bin/true").returncode != 0:
        pytest.skip("this host does not let us refuse ptrace (seccomp)")
    # The leak check of the sanitizers traces, too.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}

    def hold_untraced(*arguments, before=(), **options) -> Hold:
        return hold("--gate", gate.path, *arguments, before=[*before, *untraced], env=environment, **options)

    return hold_untraced


def children_of(launcher: int) -> list[int]:
    def parent(stat: Path) -> int:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return int(stat.read_text().rpartition(")")[2].split()[1])
        return 0

    return [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if parent(stat) == launcher]


def child_of(held: Hold) -> int:
    """The one child of a launcher."""
    (child,) = children_of(held.process.pid)
    return child


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def mapped_files(pid: int) -> set[str]:
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[5] for line in maps if "/" in line}


def test_at_the_gate_a_child_is_ready_but_has_not_started(hold_at_gate, held_at, gate, tmp_path):
    mark = tmp_path / "mark"
    held = hold_at_gate("--", "touch", mark)
    ready = held.event()
    urgency = ready["urgency"] if held_at == "exec" else "none"  # else it is not the launcher who lets it go
    assert ready == {"event": "ready", "slot": "a", "ns": ready["ns"], "held": held_at, "urgency": urgency}
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
    held = hold_at_gate("--", "sleep", "1000")
    assert held.event()["event"] == "ready"
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
    held = hold_at_gate("--", "touch", tmp_path / "mark")
    assert held.event()["event"] == "ready"
    child = child_of(held)
    held.process.kill()
    assert has_gone(child)
    gate.release()
    assert not (tmp_path / "mark").exists()


def test_one_release_starts_all_children(hold_at_gate, gate):
    held = [hold_at_gate("--", "true", slot=f"pair-{i}") for i in range(8)]
    for one in held:
        assert one.event()["event"] == "ready"
    released_ns = time.monotonic_ns()
    gate.release()
    ended = [one.event() for one in held]
    assert [e["slot"] for e in ended] == [f"pair-{i}" for i in range(8)]
    starts = [e["start_ns"] for e in ended]
    assert released_ns <= min(starts)
    assert max(starts) - released_ns < 0.5e9


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
    assert failed == {
        "event": "failed",
        "slot": "a",
        "error": "cannot run no-such-command: No such file or directory",
    }
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
        assert f"nobody holds the gate {path}" in failed["error"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--netns", "/nonexistent"],
            "cannot open network namespace /nonexistent: No such file or directory",
        ),
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
    held = hold("--listen", port, "--", flowgen, "server", "--port", port, "--bind", "127.0.0.1")
    assert held.event()["event"] == "ready"
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
    held = hold("--listen", port, "--", sys.executable, "-c", script, port)
    assert held.event()["event"] == "ready"


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
    [
        ("exit 0", 0, None, 0),
        ("exit 7", 7, None, 7),
        ("kill -KILL $$", None, 9, 137),
        ("kill -USR1 $$", None, 10, 138),
    ],
)
def test_exit_codes_and_signals_are_reported_and_passed_on(hold, script, exit_code, number, status):
    held = hold("--", "sh", "-c", script)
    assert held.event()["event"] == "ready"
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


def test_the_command_finds_signals_and_descriptors_as_if_started_from_a_shell(hold_at_gate, gate, tmp_path):
    out = tmp_path / "out"
    out.write_text("")
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l"
    # SIGPIPE and SIGCHLD ignored in the controller must not pass through to the workload
    ignoring = [sys.executable, "-c", (
        "import os, signal, sys; [signal.signal(s, signal.SIG_IGN) for s in (13, 17)];"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )]  # fmt: skip
    held = hold_at_gate("--stdout", out, "--", "sh", "-c", script, before=ignoring)
    assert held.event()["event"] == "ready"
    gate.release()
    assert held.event()["exit_code"] == 0
    blocked, ignored, descriptors = out.read_text().splitlines()
    assert int(blocked.split()[1], 16) == 0
    libc_own = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's, and no program can set them (signal(7))
    assert int(ignored.split()[1], 16) & ~libc_own == 0
    assert int(descriptors) == 4  # in, out, err, and the one of ls itself


# --- hold: urgency

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
    assert os.getpriority(os.PRIO_PROCESS, held.process.pid) == 5


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
def test_what_is_launched_has_no_cap_sys_nice(hold_at_gate, gate, tmp_path, inheritable):
    out = tmp_path / "out"
    out.write_text("")
    before = ["setpriv", "--inh-caps", "+sys_nice", "--ambient-caps", "+sys_nice"] if inheritable else []
    if before and run(*before, "true").returncode != 0:
        pytest.skip("this host does not let us hand CAP_SYS_NICE on (setpriv, as root)")
    script = "grep ^Cap /proc/self/status"
    held = hold_at_gate("--stdout", out, "--", "sh", "-c", script, before=before)
    assert held.event()["event"] == "ready"
    gate.release()
    assert held.event()["exit_code"] == 0
    found = {line.split()[0]: int(line.split()[1], 16) for line in out.read_text().splitlines()}
    assert found.keys() == {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"}
    if os.geteuid() != 0:
        del found["CapBnd:"]  # to take from that set is a privilege; and there is nobody to gain of it
    assert [name for name, bits in found.items() if bits >> CAP_SYS_NICE & 1] == []


# --- hold: in another network namespace


@pytest.fixture
def namespace(flowgen, start) -> int:
    """The pid of a process in user and network namespaces of its own."""
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if not shutil.which("nsenter") or run(*alone, "true").returncode != 0:
        pytest.skip("this host does not let us make a network namespace (unshare --user --net)")
    process = start(*alone, flowgen, "pause")
    until(lambda: sleeps(process.pid), "pause to wait")
    return process.pid


def test_the_child_runs_in_the_given_network_namespace(hold, namespace, tmp_path):
    out = tmp_path / "out"
    out.write_text("")
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
    held = hold(*options, "--", flowgen, "server", "--port", server.port, before=inside)
    assert held.event()["event"] == "ready"


# --- hold: nothing outlives its controller

FAMILY = 'sleep 1000 & echo $$ $! > "$0"; wait'  # a child, and a grandchild in the same group


def pids(path: Path) -> list[int]:
    return [int(pid) for pid in read_line(path).split()]


def test_a_closed_control_socket_ends_the_child_and_its_children(hold, tmp_path):
    held = hold("--", "sh", "-c", FAMILY, tmp_path / "pids")
    assert held.event()["event"] == "ready"
    child, grandchild = pids(tmp_path / "pids")
    held.control.close()
    assert has_gone(child)
    assert has_gone(grandchild)
    assert held.exit_status() == 128 + signal.SIGTERM


def test_children_that_ignore_sigterm_are_killed_soon_after(hold, tmp_path):
    stubborn = "trap '' TERM; " + FAMILY
    held = hold("--", "sh", "-c", stubborn, tmp_path / "pids")
    assert held.event()["event"] == "ready"
    child, grandchild = pids(tmp_path / "pids")
    asked_ns = time.monotonic_ns()
    held.control.send(b"term")
    ended = held.event()
    assert ended["signal"] == signal.SIGKILL
    assert 0.2e9 <= ended["end_ns"] - asked_ns < 5e9
    assert has_gone(child)
    assert has_gone(grandchild)
    assert held.exit_status() == 137


@pytest.mark.parametrize("way", ["packet", "signal"])
def test_term_ends_the_child_at_once_and_its_end_is_still_reported(hold, way):
    held = hold("--", "sleep", "1000")
    assert held.event()["event"] == "ready"
    asked_ns = time.monotonic_ns()
    if way == "packet":
        held.control.send(b"term")
    else:
        held.process.send_signal(signal.SIGTERM)
    ended = held.event()
    assert (ended["event"], ended["signal"], ended["exit_code"]) == ("ended", signal.SIGTERM, None)
    assert asked_ns < ended["end_ns"]
    assert held.event() is None
    assert held.exit_status() == 128 + signal.SIGTERM


def test_term_leaves_time_to_write_a_last_word(hold, tmp_path):
    out = tmp_path / "out"
    out.write_text("")
    script = "trap 'echo last word; exit 5' TERM; echo up; while :; do sleep 0.01; done"
    held = hold("--stdout", out, "--", "sh", "-c", script)
    assert read_line(out) == "up"
    assert held.event()["event"] == "ready"
    held.control.send(b"term")
    assert held.event()["exit_code"] == 5
    assert out.read_text() == "up\nlast word\n"


@pytest.mark.parametrize("way", ["packet", "signal", "lifeline"])
def test_term_at_the_gate_ends_a_child_that_never_started(hold_at_gate, held_at, gate, tmp_path, way):
    held = hold_at_gate("--", "touch", tmp_path / "mark")
    assert held.event()["event"] == "ready"
    number = signal.SIGKILL if held_at == "exec" else signal.SIGTERM
    if way == "packet":
        held.control.send(b"term")
    elif way == "signal":
        held.process.send_signal(signal.SIGTERM)
    else:
        held.control.close()
    if way != "lifeline":
        ended = held.event()
        assert (ended["event"], ended["start_ns"], ended["signal"]) == ("ended", None, number)
        assert held.event() is None
    assert held.exit_status() == 128 + number
    gate.release()
    assert not (tmp_path / "mark").exists()


def test_an_unknown_packet_changes_nothing(hold_at_gate, gate):
    held = hold_at_gate("--", "true", stderr=subprocess.PIPE, text=True)
    assert held.event()["event"] == "ready"
    held.control.send(b"terminate")
    assert "ignored a packet" in held.process.stderr.readline()
    gate.release()
    assert held.event()["exit_code"] == 0


def test_what_a_child_leaves_behind_ends_with_it(hold, tmp_path):
    held = hold("--", "sh", "-c", 'sleep 1000 & echo $! > "$0"; exit 4', tmp_path / "pids")
    assert held.event()["event"] == "ready"
    assert held.event()["exit_code"] == 4
    (orphan,) = pids(tmp_path / "pids")
    with pytest.raises(ProcessLookupError):  # gone, and reaped, before its slot was reported as ended
        os.kill(orphan, 0)


def test_a_killed_launcher_takes_its_child_with_it(hold, tmp_path):
    held = hold("--", "sh", "-c", 'echo $$ > "$0"; exec sleep 1000', tmp_path / "pids")
    assert held.event()["event"] == "ready"
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


@pytest.mark.parametrize("before", [[], [sys.executable, "-c", UNTRACED]], ids=["exec", "gate"])
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


# --- hold, as the conductor hears it


class Here:
    """A site whose endpoints are this host."""

    def __init__(self, flowgen: str, directory: Path, start):
        self.flowgen, self.directory = flowgen, str(directory)
        self.launchers: list[subprocess.Popen] = []
        self._start = start

    def spawn(self, calls) -> None:
        self.launchers += [self._start(*argv) for _, argv in calls]


@pytest.fixture
def here(flowgen, tmp_path, start):
    return Here(flowgen, tmp_path, start)


@pytest.fixture
def conductor(here, tmp_path):
    with contextlib.closing(Conductor(here, tmp_path)) as conductor:
        yield conductor


@pytest.fixture
def endpoint():
    return Endpoint("here", "127.0.0.1", lambda *_: None)


def test_a_launcher_that_is_killed_before_it_is_ready_is_missed(conductor, here, endpoint):
    (process,) = conductor.start([(endpoint, ["sleep", "1000"])], listen=[free_port()])  # which never listens
    child = until(lambda: children_of(here.launchers[0].pid), "the launcher to launch")
    here.launchers[0].kill()
    conductor.wait_ready([process], PATIENCE_S)
    assert (process.ready, process.over, process.trouble) == (False, True, "its launcher was killed")
    assert has_gone(child[0])


def test_a_launcher_that_is_not_ready_yet_can_be_stopped(conductor, endpoint):
    (process,) = conductor.start([(endpoint, ["sleep", "1000"])], listen=[free_port()])
    with pytest.raises(MeasurementFailed, match="were not ready"):
        conductor.wait_ready([process], 0.2)
    conductor.stop([process], PATIENCE_S)
    assert (process.over, process.signal) == (True, signal.SIGTERM)


def test_a_process_knows_how_it_was_held_and_how_urgent_its_launcher_was(conductor, endpoint):
    gate = conductor.gate()
    (process,) = conductor.start([(endpoint, ["true"])], gate=gate)
    conductor.wait_ready([process], PATIENCE_S)
    assert (process.held, process.urgency in ("realtime", "slice", "none")) == ("exec", True)
    gate.release()
    conductor.wait_ended([process], PATIENCE_S)
    assert process.trouble == ""


def test_as_many_launchers_may_connect_as_the_host_allows(tmp_path):
    """In a process of its own, as a limit is for good."""
    script = (
        "import resource, sys; from pathlib import Path; from pairlab.testbed.barrier import Conductor;"
        "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, most)); Conductor(None, Path(sys.argv[1]));"
        "sys.exit(resource.getrlimit(resource.RLIMIT_NOFILE) != (most, most))"
    )
    assert run(sys.executable, "-c", script, tmp_path).returncode == 0


# --- facts

OFFLOADS = {"tx_checksum", "rx_checksum", "scatter_gather", "tso", "gso", "gro"}
SETTINGS = {"tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_timestamps", "tcp_sack", "tcp_ecn"}


def test_facts_describe_a_link_and_the_settings_of_tcp(flowgen):
    done = run(flowgen, "facts", "--link", "lo")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts.keys() == {"event", "link", "mtu_bytes"} | OFFLOADS | SETTINGS
    assert (facts["event"], facts["link"]) == ("facts", "lo")
    assert facts["mtu_bytes"] == int(Path("/sys/class/net/lo/mtu").read_text())
    assert all(facts[key] in (0, 1, None) for key in OFFLOADS)
    for key in SETTINGS:
        setting = Path(f"/proc/sys/net/ipv4/{key}").read_text()
        assert facts[key].split() == setting.split()


def test_facts_of_a_link_that_is_not_there_are_an_error_that_names_it(flowgen):
    done = run(flowgen, "facts", "--link", "nowhere0")
    assert done.returncode == 1
    assert "'nowhere0': No such device" in done.stderr
    assert done.stdout == ""


# --- pause


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pause_exits_cleanly_when_told_to(flowgen, start, number):
    process = start(flowgen, "pause")
    until(lambda: sleeps(process.pid), "pause to wait")
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 0


def test_pause_heeds_sigterm_as_process_1_for_which_the_kernel_discards_unhandled_signals(flowgen, start):
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or run(*namespace, "true").returncode != 0:
        pytest.skip("this host does not let us make a pid namespace (unshare --user --pid)")
    report = 'read pid rest < /proc/self/stat; echo $pid; exec "$0" pause'
    process = start(*namespace, "sh", "-c", report, flowgen, stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    until(lambda: sleeps(pid), "pause to wait")
    os.kill(pid, signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_pause_reaps_what_ends_under_it(flowgen, start):
    script = 'exec 3<&0; cat <&3 >/dev/null & echo $!; exec "$0" pause 3<&-'  # cat ends with our end of the pipe
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = start("sh", "-c", script, flowgen, **pipes)
    orphan = int(process.stdout.readline())
    until(lambda: sleeps(process.pid), "pause to wait")
    process.stdin.close()
    until(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan to be reaped")
    assert process.poll() is None
