"""Processes in endpoints: started, held until all are ready, released together, and watched until they end.

A launcher, `flowgen hold`, starts each process. It connects to our control socket, holds the process right after its
exec, before its first instruction, and reports its readiness, its release and its exit. (If ptrace(2) is refused, it
holds just before the exec, and says so.) The gate is a FIFO that we keep open: closing it releases all processes with
one system call. The control connection is a lifeline: if we die, each launcher ends its process.

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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.errors import MeasurementFailed
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.contracts import Progress, Site, no_progress
from pairlab.testbed.endpoints import Completed, Endpoint

HELLO, READY, ENDED, FAILED = "hello", "ready", "ended", "failed"

#: A launcher's counts of its process, as attributes of Process and keys of its report; None: unknown to the kernel.
COUNTED = (
    *("voluntary_switches", "involuntary_switches", "syn_retransmits", "udp_receive_errors", "diag_retransmits"),
    *("tcp_retransmits_before", "tcp_retransmits", "tcp_retransmits_by_end", "runqueue_wait_s", "stopped_s"),
    "link_changes",
)

#: The option of `flowgen hold` for traffic tools: the process has no capabilities, and never gains any.
UNPRIVILEGED = "--unprivileged"


class LinkCounts(NamedTuple):
    """A link's received and sent bytes, with link-layer headers, and packets, by the kernel's counters.

    A packet here is the kernel's unit: with segmentation offloads, up to 64 KiB under one header.
    """

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


@dataclass
class Process:
    """One process in an endpoint. Times are CLOCK_MONOTONIC in ns; None: not yet."""

    slot: str
    endpoint: Endpoint
    argv: tuple[str, ...]
    pid: int = 0
    """The launcher's pid as we see it; 0: not connected yet, or its PID namespace is not below ours."""
    ready: bool = False
    held_at: str = ""
    """Where the process was held: after its `exec`, or at the `gate` before it."""
    priority: str = ""
    """The launcher's scheduling for the release: `realtime` priority, a short time `slice`, or the default: `none`."""
    cpus: str = ""
    """The allowed CPUs, from /proc when the process was ready: 0-2,5."""
    cpus_at_end: str = ""
    """The same at its exit; empty: unknown."""
    ended: bool = False
    stopped_ns: int | None = None
    """When pairlab stopped the process; None: it did not."""
    start_ns: int | None = None
    end_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cpu_s: float = float("nan")
    voluntary_switches: int | None = None
    """Context switches because the process waited (getrusage(2), with reaped children), over its whole time."""
    involuntary_switches: int | None = None
    """Context switches because its time slice was over, or another process had priority."""
    runqueue_wait_s: float | None = None
    """For how long its first thread, since it was ready, could have run and had no CPU (schedstat)."""
    stopped_s: float | None = None
    """For how long signals had stopped it."""
    tcp_retransmits_before: int | None = None
    """Retransmitted TCP segments in its network namespace before the process was ready."""
    tcp_retransmits: int | None = None
    """Retransmitted TCP segments in its network namespace, from its start until its connections had ended."""
    tcp_retransmits_by_end: int | None = None
    """The same until the process's exit, when its connections may still have had data to deliver."""
    syn_retransmits: int | None = None
    """The SYN packets among these; a client that listens nowhere has its own SYNs only."""
    udp_receive_errors: int | None = None
    """Datagrams that its network namespace's sockets dropped on arrival, usually because of a full buffer."""
    diag_retransmits: int | None = None
    """Retransmitted segments of its own connections that existed at --diagnose-after, until each ended."""
    diag_congestion_control: str = ""
    """The congestion control of these connections; empty: unknown."""
    link_changes: int | None = None
    """How often its link was taken down, lost an address, or had its queueing disciplines or filters changed."""
    link: "LinkCounts | None" = None
    """The link's traffic from the process's readiness to its exit (--link)."""
    network: Mapping[str, object] = field(default_factory=dict)
    """Network settings when the process was ready: TCP's settings, the link's offloads and queues (--link)."""
    network_at_end: Mapping[str, object] = field(default_factory=dict)
    """The same after its exit."""
    error: str = ""
    stdout: str = ""
    stderr: str = ""

    @property
    def ended_by_itself(self) -> bool:
        """Whether the process exited before pairlab stopped it."""
        return self.end_ns is not None and (self.stopped_ns is None or self.end_ns < self.stopped_ns)

    @property
    def killed(self) -> bool:
        """Whether the process ended early for a reason other than the network: a signal, its launcher's death, no exec.

        A shell around the tool exits with 128 plus the signal (bash(1)). SIGPIPE means a broken connection.
        """
        code = self.signal or max(0, (self.exit_code or 0) - 128)
        ended = self.ended and (self.stopped_ns is None or self.ended_by_itself)
        return ended and bool(self.error or code) and code != signal.SIGPIPE

    @property
    def lasted_s(self) -> float | None:
        """From its start to its end; None: not known."""
        return None if self.start_ns is None or self.end_ns is None else (self.end_ns - self.start_ns) / 1e9

    @property
    def cpus_used(self) -> float | None:
        """Its CPU time over that; None: not known."""
        return self.cpu_s / self.lasted_s if self.lasted_s else None

    @property
    def failure(self) -> str:
        """The reason of its failure, in a line; empty: it did not fail."""
        last = (self.stderr.strip().splitlines() or [""])[-1]
        if self.error:
            return self.error
        if not self.ended:
            return "did not end"
        if self.signal:
            return f"ended by signal {self.signal}" + (f": {last}" if last else "")
        if self.exit_code:
            return f"ended with {self.exit_code}" + (f": {last}" if last else "")
        return ""


class ProcessLauncher:
    """Starts processes in a site's endpoints, releases them together, and receives their launchers' reports.

    directory: the testbed's working directory as we see it; the site's `directory` is its path inside endpoints.
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
        return Gate(self._directory, f"gate-{next(self._numbers)}", self._gates, self._site.release)

    def start(
        self,
        commands: Iterable[tuple[Endpoint, Sequence[str]]],
        *,
        gate: "Gate | None" = None,
        options: Sequence[Sequence[str]] | None = None,
        keep_output: bool = True,
    ) -> list[Process]:
        """Starts these commands; each holds at the gate, if there is one.

        options: further options of `flowgen hold`, per command. keep_output: whether to keep stdout; stderr always is.
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
        progress: Progress = no_progress,
        phase: str = "waiting",
    ) -> None:
        """Returns when each is ready (listening, or at the gate) or has ended; raises MeasurementFailed at timeout."""
        self._wait(processes, lambda process: process.ready or process.ended, timeout_s, progress, phase)
        late = [process for process in processes if not (process.ready or process.ended)]
        if late:
            raise MeasurementFailed(
                f"{len(late)} of {len(processes)} processes were not ready after {timeout_s:g} s,"
                f" the first in {late[0].endpoint.name}: {' '.join(late[0].argv)}"
                + "".join(f": {line}" for line in self._read(late[:1])[0].stderr.splitlines()[-1:])
            )

    def wait_ended(
        self, processes: Sequence[Process], timeout_s: float, before_reading: Callable[[], None] = lambda: None
    ) -> None:
        """Returns when all have ended, or at timeout; see each one's `ended`.

        Launchers' reports are parsed once all have arrived, to leave the CPU to the flows until then. before_reading:
        called just before, or at timeout.
        """
        deadline_s = time.monotonic() + timeout_s
        connections = [self._connections.get(process.slot) for process in processes if not process.ended]
        silent = {connection for connection in connections if connection}
        unread: list[tuple[socket.socket, bytes]] = []
        while silent and (packets := self._packets(max(0.0, deadline_s - time.monotonic()))) is not None:
            unread += packets
            silent.difference_update(sender for sender, _ in packets)
            if not all(packet for _, packet in packets):
                break  # a closed connection is always readable
        before_reading()
        for sender, packet in unread:
            self._read_report(sender, packet)
        remaining_s = max(0.0, deadline_s - time.monotonic())
        self._wait(processes, lambda process: process.ended, remaining_s, no_progress, "")

    def stop(self, processes: Sequence[Process], timeout_s: float = 5.0) -> None:
        """Ends the running ones (SIGTERM, then SIGKILL), waits for their exit, and releases their launchers."""
        for process in processes:
            if not process.ended:
                process.stopped_ns = time.monotonic_ns()
                self._tell_to_end(process)
        self._wait(processes, lambda process: process.ended, timeout_s, no_progress, "")
        for process in processes:
            if process.ended and (connection := self._connections.get(process.slot)):
                self._lose(connection)

    def results(self, processes: Sequence[Process]) -> list[Process]:
        """The same processes with their output."""
        return self._read(processes)

    def run(self, endpoint: Endpoint, argv: Sequence[str], timeout_s: float, unprivileged: bool = False) -> Completed:
        """Runs one command in one endpoint."""
        (process,) = self.start([(endpoint, argv)], options=[[UNPRIVILEGED] if unprivileged else []])
        self.wait_ended([process], timeout_s)
        if not process.ended:
            self.stop([process])
            raise MeasurementFailed(f"{argv[0]} in {endpoint.name} did not end within {timeout_s:g} s")
        self._read([process])
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
        deadline_s = time.monotonic() + timeout_s
        while waiting := [process for process in processes if not done(process)]:
            progress(phase, len(processes) - len(waiting), len(processes))
            if not self._receive(max(0.0, deadline_s - time.monotonic())):  # late reports count, too
                return
        progress(phase, len(processes), len(processes))

    def _receive(self, timeout_s: float) -> bool:
        """Receives and parses messages of launchers; False if none came in time."""
        packets = self._packets(timeout_s)
        for sender, packet in packets or ():
            self._read_report(sender, packet)
        return packets is not None

    def _packets(self, timeout_s: float) -> list[tuple[socket.socket, bytes]] | None:
        """Launchers' messages as (sender, packet); an empty packet: the launcher is gone. None: no messages."""
        if not (events := self._selector.select(timeout_s)):
            return None
        packets = []
        for key, _ in events:
            if key.fileobj is self._listener:
                connection, _ = self._listener.accept()
                self._selector.register(connection, selectors.EVENT_READ)
                continue
            sender = key.fileobj
            assert isinstance(sender, socket.socket)
            try:
                packets.append((sender, sender.recv(65536)))
            except OSError:
                packets.append((sender, b""))
        return packets

    def _read_report(self, sender: socket.socket, packet: bytes) -> None:
        if sender.fileno() < 0:
            return  # closed because of an earlier report
        try:
            self._note(json.loads(packet), sender)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            self._lose(sender)  # the launcher's end, or no launcher of ours

    def _note(self, message: dict, connection: socket.socket) -> None:
        process = self._processes[message["slot"]]
        if process.ended or self._connections.setdefault(process.slot, connection) is not connection:
            raise ValueError("only the launcher, which connects before its process runs, speaks for it")
        if message["event"] == HELLO:
            process.pid = 0 if message.get("relayed") else ownership.peer(connection)[0]
            if process.stopped_ns is not None:
                self._tell_to_end(process)
            return
        if message["event"] == READY:
            process.ready = True
            process.held_at, process.priority = message.get("held", ""), message.get("urgency", "")
            if process.priority in ("slice", "none") and self._site.grant_realtime(ownership.peer(connection)[0]):
                process.priority = "realtime"
            process.cpus = message.get("cpus") or ""
            process.network = _network(message)
            return
        process.ended = True
        if message["event"] == FAILED:
            process.error = message["error"]
            return
        process.start_ns, process.end_ns = message["start_ns"], message["end_ns"]
        process.exit_code, process.signal = message["exit_code"], message["signal"]
        process.cpu_s = message["user_s"] + message["sys_s"]
        for name in COUNTED:
            setattr(process, name, message.get(name))
        process.cpus_at_end = message.get("cpus_at_end") or ""
        process.diag_congestion_control = message.get("diag_congestion_control") or ""
        counts = [message[name] for name in LinkCounts._fields if message.get(name) is not None]
        process.link = LinkCounts(*counts) if len(counts) == len(LinkCounts._fields) else None
        process.network_at_end = _network(message)

    def _tell_to_end(self, process: Process) -> None:
        """Sends the launcher the order to end its process; before it has connected, _note does so at its hello."""
        if connection := self._connections.get(process.slot):
            with contextlib.suppress(OSError):
                connection.send(b"term")

    def _lose(self, connection: socket.socket) -> None:
        """Handles a launcher's end. Without a report of its process's exit, launcher and process were killed."""
        self._selector.unregister(connection)
        connection.close()
        for slot, other in list(self._connections.items()):
            if other is connection:
                del self._connections[slot]
                process = self._processes[slot]
                if not process.ended:
                    process.ended, process.error = True, "its launcher was killed"

    def _read(self, processes: Sequence[Process]) -> list[Process]:
        self._site.fetch([process.slot for process in processes], self._directory)
        for process in processes:
            process.stdout = (self._directory / f"{process.slot}.out").read_text(errors="replace")
            process.stderr = (self._directory / f"{process.slot}.err").read_text(errors="replace")
        return [*processes]


def _network(message: Mapping[str, Any]) -> dict[str, object]:
    return {key: value for key, value in (message.get("network") or {}).items() if key != "event"}


def _allow_many_connections() -> None:
    """Raises the soft limit of descriptors, often 1024: each launcher needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Gate:
    """Processes wait here until it opens, once, for all of them; then each for its own --start-after, if any."""

    def __init__(self, directory: Path, name: str, open_gates: list[int], elsewhere: Callable[[str], int | None]):
        self.name = name
        os.mkfifo(directory / name)
        os.chmod(directory / name, 0o666)
        self._open_gates = open_gates
        self._release_elsewhere = elsewhere
        # Open for writing too, so that launchers can open it for reading without blocking.
        self._descriptor = os.open(directory / name, os.O_RDWR | os.O_CLOEXEC)
        open_gates.append(self._descriptor)

    def release(self) -> int:
        """Releases all processes; returns the moment, CLOCK_MONOTONIC in ns."""
        self._open_gates.remove(self._descriptor)
        moment = time.monotonic_ns()
        os.close(self._descriptor)
        return self._release_elsewhere(self.name) or moment
