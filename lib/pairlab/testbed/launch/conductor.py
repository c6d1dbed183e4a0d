"""All clients ready, then all start: processes in endpoints, released together and watched until they end.

Every process is started by a launcher, `flowgen hold`, which connects to our control socket, holds the process right
after its exec, before its first instruction, and reports when it is ready, when it was released and how it ended.
(Where ptrace(2) is refused, it holds just before the exec, and says so.) The gate is a FIFO that we keep open: closing
it releases all with one system call. The control connection is a lifeline: when we are gone, each launcher ends its
process.

A release is not yet a packet: clients that are released together still wait for a CPU, which is contention too.
flowgen reports when each connection was established; see connected_s in the records.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.errors import MeasurementFailed
from pairlab.testbed.contracts import Progress, Site, silent
from pairlab.testbed.endpoints import Completed, Endpoint

HELLO, READY, ENDED, FAILED = "hello", "ready", "ended", "failed"

#: The option of `flowgen hold` with which a traffic tool is started: it has no capabilities, nor ever gets one.
UNPRIVILEGED = "--unprivileged"


class LinkCounts(NamedTuple):
    """What a link received and sent, by the kernel's counters: bytes with link-layer headers, and packets.

    A packet here is what the kernel hands over at once: with segmentation offloads up to 64 KiB under one header.
    """

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


@dataclass
class Process:
    """One process in an endpoint. Times are CLOCK_MONOTONIC in ns; None: has not happened."""

    slot: str
    endpoint: Endpoint
    argv: tuple[str, ...]
    pid: int = 0
    """Its launcher's, as we see it; 0: it has not connected yet, or its PID namespace is not below ours."""
    ready: bool = False
    held: str = ""
    """Where it was held: after its `exec`, or at the `gate` before it."""
    urgency: str = ""
    """How its launcher gets the CPU to release it: by `realtime` priority, a short `slice`, or as usual: `none`."""
    cpus: str = ""
    """The CPUs it may run on, from /proc when it is ready: 0-2,5."""
    over: bool = False
    stopped_ns: int | None = None
    """When it was asked to end; None: it was not."""
    start_ns: int | None = None
    end_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cpu_s: float = float("nan")
    voluntary_switches: int | None = None
    """Context switches because it waited, over its whole time (getrusage(2), with children that it reaped)."""
    involuntary_switches: int | None = None
    """The same because its time slice was over, or another process was more urgent."""
    tcp_retransmits_before: int | None = None
    """TCP segments that had been retransmitted in its network namespace when it was ready."""
    tcp_retransmits: int | None = None
    """TCP segments retransmitted in its network namespace, from its start until its connections had ended."""
    tcp_retransmits_by_end: int | None = None
    """The same until the process had ended, when its connections may still have had data to deliver."""
    syn_retransmits: int | None = None
    """The packets among these that were to open a connection; a client that listens nowhere has its own SYNs only."""
    udp_receive_errors: int | None = None
    """Datagrams that came to its network namespace and that its sockets did not take: a full buffer, as a rule."""
    diag_retransmits: int | None = None
    """Those of its own connections that existed at --diagnose-after, until each ended."""
    diag_congestion_control: str = ""
    """The congestion control of these connections; empty: not seen."""
    link: "LinkCounts | None" = None
    """What its link carried between its being ready and its end (--link)."""
    network: Mapping[str, object] = field(default_factory=dict)
    """How its network was set when it was ready: TCP's settings, its link's offloads and queues (--link)."""
    network_at_end: Mapping[str, object] = field(default_factory=dict)
    """The same when it had ended."""
    error: str = ""
    stdout: str = ""
    stderr: str = ""

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended before it was asked to."""
        return self.end_ns is not None and (self.stopped_ns is None or self.end_ns < self.stopped_ns)

    @property
    def killed(self) -> bool:
        """Whether it ended, before it was asked to, by what no network does: a signal, its launcher's end, no exec.

        A shell that ran the tool exits with 128 more than the signal (bash(1)). SIGPIPE is a broken connection's.
        """
        code = self.signal or max(0, (self.exit_code or 0) - 128)
        ended = self.over and (self.stopped_ns is None or self.ended_by_itself)
        return ended and bool(self.error or code) and code != signal.SIGPIPE

    @property
    def trouble(self) -> str:
        """Why it failed, in a line; empty where it did not."""
        last = (self.stderr.strip().splitlines() or [""])[-1]
        if self.error:
            return self.error
        if not self.over:
            return "did not end"
        if self.signal:
            return f"ended by signal {self.signal}" + (f": {last}" if last else "")
        if self.exit_code:
            return f"ended with {self.exit_code}" + (f": {last}" if last else "")
        return ""


class Conductor:
    """Starts processes in a site's endpoints, releases them together, and learns how they end.

    directory: the testbed's working directory as we see it; the site's `directory` is the same one seen from inside.
    """

    def __init__(self, site: Site, directory: Path):
        _allow_many_connections()
        self._site = site
        self._directory = directory
        self._processes: dict[str, Process] = {}
        self._connections: dict[str, socket.socket] = {}
        self._numbers = count()
        self._gates: list[int] = []
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(directory / "control"))
        os.chmod(directory / "control", 0o666)  # a container's user is not always ours
        self._listener.listen(4096)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def gate(self) -> "Gate":
        """A new gate, closed."""
        return Gate(self._directory, f"gate-{next(self._numbers)}", self._gates)

    def start(
        self,
        commands: Iterable[tuple[Endpoint, Sequence[str]]],
        *,
        gate: "Gate | None" = None,
        options: Sequence[Sequence[str]] | None = None,
        keep_output: bool = True,
    ) -> list[Process]:
        """Starts these commands; each holds at the gate, if there is one.

        options: further options of `flowgen hold`, for each. keep_output: whether stdout is kept; stderr always is.
        """
        started, calls = [], []
        commands = list(commands)
        for (endpoint, argv), extra in zip(commands, options or [()] * len(commands), strict=True):
            slot = f"{endpoint.name}.{next(self._numbers)}"
            process = Process(slot, endpoint, tuple(argv))
            for kind in ("out", "err"):
                file = self._directory / f"{slot}.{kind}"
                file.touch()
                file.chmod(0o666)
            inside = self._site.directory
            launcher = [self._site.flowgen, "hold", "--control", f"{inside}/control", "--slot", slot]
            launcher += ["--stdout", f"{inside}/{slot}.out" if keep_output else "/dev/null"]
            launcher += ["--stderr", f"{inside}/{slot}.err"]
            launcher += ["--gate", f"{inside}/{gate.name}", "--linger"] if gate else []
            launcher += extra
            launcher += self._site.launch_options(endpoint.name)
            self._processes[slot] = process
            started.append(process)
            calls.append((endpoint.name, [*launcher, "--", *argv]))
        self._site.spawn(calls)
        return started

    def wait_ready(
        self,
        processes: Sequence[Process],
        timeout_s: float,
        progress: Progress = silent,
        phase: str = "waiting",
    ) -> None:
        """Returns when each is ready (listening, or at the gate), or is over; raises MeasurementFailed at timeout."""
        self._wait(processes, lambda process: process.ready or process.over, timeout_s, progress, phase)
        late = [process for process in processes if not (process.ready or process.over)]
        if late:
            raise MeasurementFailed(
                f"{len(late)} of {len(processes)} processes were not ready after {timeout_s:g} s,"
                f" the first in {late[0].endpoint.name}: {' '.join(late[0].argv)}"
                + "".join(f": {line}" for line in self._read(late[0]).stderr.splitlines()[-1:])
            )

    def wait_ended(self, processes: Sequence[Process], timeout_s: float) -> None:
        """Returns when all are over, or at timeout; see `over` of each."""
        self._wait(processes, lambda process: process.over, timeout_s, silent, "")

    def stop(self, processes: Sequence[Process], timeout_s: float = 5.0) -> None:
        """Ends those that still run (SIGTERM, then SIGKILL), waits until they are over, and lets their launchers go."""
        for process in processes:
            if not process.over:
                process.stopped_ns = time.monotonic_ns()
                self._tell_to_end(process)
        self._wait(processes, lambda process: process.over, timeout_s, silent, "")
        for process in processes:
            if process.over and (connection := self._connections.get(process.slot)):
                self._lose(connection)

    def results(self, processes: Sequence[Process]) -> list[Process]:
        """The same processes with what they printed."""
        return [self._read(process) for process in processes]

    def run(self, endpoint: Endpoint, argv: Sequence[str], timeout_s: float, unprivileged: bool = False) -> Completed:
        """One command in one endpoint, from start to end."""
        (process,) = self.start([(endpoint, argv)], options=[[UNPRIVILEGED] if unprivileged else []])
        self.wait_ended([process], timeout_s)
        if not process.over:
            self.stop([process])
            raise MeasurementFailed(f"{argv[0]} in {endpoint.name} did not end within {timeout_s:g} s")
        self._read(process)
        if process.error:
            raise MeasurementFailed(f"{endpoint.name}: {process.error}")
        code = process.exit_code if process.exit_code is not None else 128 + (process.signal or 0)
        return Completed(process.argv, code, process.stdout, process.stderr)

    def close(self) -> None:
        """Ends every process started here."""
        for connection in [*self._connections.values(), self._listener]:
            connection.close()
        self._connections.clear()
        self._selector.close()
        for gate in self._gates:
            os.close(gate)
        self._gates.clear()

    def _wait(
        self,
        processes: Sequence[Process],
        done: Callable[[Process], bool],
        timeout_s: float,
        progress: Progress,
        phase: str,
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while left := [process for process in processes if not done(process)]:
            progress(phase, len(processes) - len(left), len(processes))
            if not self._receive(max(0.0, deadline - time.monotonic())):  # what has arrived counts, however late
                return
        progress(phase, len(processes), len(processes))

    def _receive(self, timeout_s: float) -> bool:
        """Receives messages of launchers; False when none came in time."""
        events = self._selector.select(timeout_s)
        for key, _ in events:
            if key.fileobj is self._listener:
                connection, _ = self._listener.accept()
                self._selector.register(connection, selectors.EVENT_READ)
                continue
            sender = key.fileobj
            assert isinstance(sender, socket.socket)
            try:
                packet = sender.recv(65536)
            except OSError:
                packet = b""
            try:
                self._note(json.loads(packet), sender)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                self._lose(sender)  # its end, or it is no launcher of ours
        return bool(events)

    def _note(self, message: dict, connection: socket.socket) -> None:
        process = self._processes[message["slot"]]
        if process.over or self._connections.setdefault(process.slot, connection) is not connection:
            raise ValueError("only the launcher, which connects before its process runs, speaks for it")
        if message["event"] == HELLO:
            process.pid = _peer(connection)
            if process.stopped_ns is not None:
                self._tell_to_end(process)
            return
        if message["event"] == READY:
            process.ready = True
            process.held, process.urgency = message.get("held", ""), message.get("urgency", "")
            if process.urgency in ("slice", "none") and self._site.grant_realtime(_peer(connection)):
                process.urgency = "realtime"
            process.cpus = message.get("cpus") or ""
            process.network = _network(message)
            return
        process.over = True
        if message["event"] == FAILED:
            process.error = message["error"]
            return
        process.start_ns, process.end_ns = message["start_ns"], message["end_ns"]
        process.exit_code, process.signal = message["exit_code"], message["signal"]
        process.cpu_s = message["user_s"] + message["sys_s"]
        process.voluntary_switches = message.get("voluntary_switches")
        process.involuntary_switches = message.get("involuntary_switches")
        process.tcp_retransmits_before = message.get("tcp_retransmits_before")
        process.tcp_retransmits = message.get("tcp_retransmits")
        process.tcp_retransmits_by_end = message.get("tcp_retransmits_by_end")
        process.syn_retransmits = message.get("syn_retransmits")
        process.udp_receive_errors = message.get("udp_receive_errors")
        process.diag_retransmits = message.get("diag_retransmits")
        process.diag_congestion_control = message.get("diag_congestion_control") or ""
        counted = [message[name] for name in LinkCounts._fields if message.get(name) is not None]
        process.link = LinkCounts(*counted) if len(counted) == len(LinkCounts._fields) else None
        process.network_at_end = _network(message)

    def _tell_to_end(self, process: Process) -> None:
        """Tells its launcher; one that has not connected yet gets it when it does."""
        if connection := self._connections.get(process.slot):
            with contextlib.suppress(OSError):
                connection.send(b"term")

    def _lose(self, connection: socket.socket) -> None:
        """A launcher is gone. If it had not reported how its process ended, it was killed, and its process with it."""
        self._selector.unregister(connection)
        connection.close()
        for slot, known in list(self._connections.items()):
            if known is connection:
                del self._connections[slot]
                process = self._processes[slot]
                if not process.over:
                    process.over, process.error = True, "its launcher was killed"

    def _read(self, process: Process) -> Process:
        process.stdout = (self._directory / f"{process.slot}.out").read_text(errors="replace")
        process.stderr = (self._directory / f"{process.slot}.err").read_text(errors="replace")
        return process


def _network(message: Mapping[str, Any]) -> dict[str, object]:
    return {key: value for key, value in (message.get("network") or {}).items() if key != "event"}


def _peer(connection: socket.socket) -> int:
    """The pid of the other end, as we see it (SO_PEERCRED, unix(7))."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid


def _allow_many_connections() -> None:
    """Raises the soft limit of descriptors, often 1024: each launcher takes one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Gate:
    """Processes wait here until it opens, once, for all of them; each then for its own --start-after, if it has one."""

    def __init__(self, directory: Path, name: str, open_gates: list[int]):
        self.name = name
        os.mkfifo(directory / name)
        os.chmod(directory / name, 0o666)
        self._open_gates = open_gates
        # Open for writing too, so that launchers can open it for reading without blocking.
        self._descriptor = os.open(directory / name, os.O_RDWR | os.O_CLOEXEC)
        open_gates.append(self._descriptor)

    def release(self) -> int:
        """Releases all; returns the moment, CLOCK_MONOTONIC in ns."""
        self._open_gates.remove(self._descriptor)
        moment = time.monotonic_ns()
        os.close(self._descriptor)
        return moment
