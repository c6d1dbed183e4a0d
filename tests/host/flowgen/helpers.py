"""flowgen's tests: its processes, and how their ends, files and sockets are waited for."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "lib" / "flowgen"
PATIENCE_S = 120.0  # how long a test waits for what must come; never slept through


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


def run(*argv, patience_s: float = PATIENCE_S, **options) -> subprocess.CompletedProcess:
    command = [str(a) for a in argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience_s, check=False, **options)


def free_port() -> int:
    """A port that nobody has, of those that the kernel gives to nobody by itself: it may be bound some time later."""
    lowest, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    while True:
        port = random.randrange(int(lowest) - 10_000, int(lowest))
        with contextlib.suppress(OSError), socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            for each in (tcp, udp):
                each.bind(("127.0.0.1", port))
            return port


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


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def on_the_way(port: int) -> int:
    """Bytes to that port of 127.0.0.1 that wait to be sent, or to be read (proc_net(5))."""
    waiting = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues, *_ = line.split()
        to_send, to_read = (int(queue, 16) for queue in queues.split(":"))
        if state != "0A":  # else it listens, and counts connections
            waiting += to_send * remote.endswith(f":{port:04X}") + to_read * local.endswith(f":{port:04X}")
    return waiting


class Server:
    """A server on 127.0.0.1 that is ready; before: what runs it."""

    def __init__(self, start, flowgen: str, *options, command="server", before=(), **streams):
        self.port, self.flowgen = free_port(), flowgen
        argv = [*before, flowgen, command, "--port", self.port, "--bind", "127.0.0.1", *options]
        # unbuffered: select() must see every line that readline() has not taken
        self.process = start(*argv, stdout=subprocess.PIPE, bufsize=0, **streams)
        table, state = ("udp", "07") if "--udp" in options else ("tcp", "0A")  # of both ports, UDP's is bound last
        bound = f":{self.port:04X} 00000000:0000 {state}"
        until(lambda: bound in Path(f"/proc/net/{table}").read_text(), "the server to listen")

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def target(self) -> list[str]:
        """A client's option."""
        return ["--connect", f"127.0.0.1:{self.port}"]

    def received(self) -> dict:
        assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], "no line from the server"
        return json.loads(self.process.stdout.readline())

    def stop(self) -> list[dict]:
        """The lines that it has not been asked for."""
        return self.stop_and_tell()[0]

    def stop_and_tell(self) -> tuple[list[dict], str]:
        """The same, and what it complained of, where that is piped."""
        self.process.terminate()
        said, complaint = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, complaint
        return [json.loads(line) for line in said.splitlines()], (complaint or b"").decode()


def client(flowgen: str, server: Server, *options) -> tuple[list[dict], dict]:
    done = run(flowgen, "client", *server.target, *options)
    assert done.returncode == 0, done.stderr
    *intervals, total = (json.loads(line) for line in done.stdout.splitlines())
    return intervals, total


class Hold:
    """One launcher, seen from its controller."""

    def __init__(self, process: subprocess.Popen, control: socket.socket):
        self.process = process
        self.control = control

    def event(self) -> dict | None:
        """The next event; None when the launcher has closed the connection."""
        packet = self.control.recv(65536)
        return json.loads(packet) if packet else None

    def ready(self) -> Hold:
        """Itself, when that is its next event."""
        assert (event := self.event())["event"] == "ready", event
        return self

    def is_silent(self) -> bool:
        return not select.select([self.control], [], [], 0)[0]

    def exit_status(self) -> int:
        return self.process.wait(PATIENCE_S)


class Gate:
    """Held open from the start, as launchers expect; closing it is the release."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def release(self) -> None:
        os.close(self.fd)
        self.fd = -1


# Runs a command that may not call what its first argument names, as a strict seccomp profile, or Yama, would have it.
REFUSED = """
import ctypes, os, platform, struct, sys
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, EPERM = 38, 22, 2, 1
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
numbers = {"ptrace": {"x86_64": 101, "aarch64": 117}, "close_range": {"x86_64": 436, "aarch64": 436}}
number = numbers[sys.argv[1]][platform.machine()]
code = b"".join(struct.pack("=HBBI", *instruction) for instruction in [
    (LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW),
])
filters = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(filters)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)]:
    if libc.prctl(*arguments):
        sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[2], sys.argv[2:])
"""


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


def pids(path: Path) -> list[int]:
    return [int(pid) for pid in read_line(path).split()]
