"""What a testbed is made of: endpoints in pairs, what each may use of the host, and what each pair sends.

This module imports nothing heavy, as the process inside a sandbox starts with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What one endpoint may use of the CPUs.

    cpus: those it may run on, by number; None: any. cpu_quota: CPUs' worth of time at most; 0: no limit. cpu_shares:
    weight of its time against other endpoints', where 1024 is the kernel's default; 0: that default.
    """

    cpus: tuple[int, ...] | None = None
    cpu_quota: float = 0.0
    cpu_shares: int = 0


@dataclass(frozen=True)
class Link:
    """How one endpoint's link is shaped, so that the right answer of a measurement over it is known.

    rate_bps: most that it sends, link-layer headers included; 0: no limit. loss: share of arriving packets that are
    dropped at random.
    """

    rate_bps: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True)
class Task:
    """What one pair is to send, on each of its flows.

    protocol: `tcp` or `udp`. role: `elephant` or `mouse`, empty where the spec has no elephants. flow_bytes: payload
    of each flow, which then ends; 0: it ends by time.
    """

    protocol: str = "tcp"
    role: str = ""
    flow_bytes: int = 0


@dataclass(frozen=True)
class EndpointPlan:
    """One endpoint to be made: client or server of a pair, with its limits and its link.

    side: `client` or `server`. address: its IPv4 address on the driver's network, where Docker does not choose one.
    """

    pair: int
    side: str
    address: str
    prefix: int = 16
    limits: Limits = Limits()
    link: Link = Link()

    @property
    def name(self) -> str:
        """client-0, server-0, client-1, …"""
        return f"{self.side}-{self.pair}"

    @property
    def partner(self) -> str:
        """The name of the other end of its pair."""
        return f"{'server' if self.side == 'client' else 'client'}-{self.pair}"


@dataclass(frozen=True)
class Completed:
    """A command that has ended in an endpoint."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Endpoint:
    """One end of a pair that is up: a container, or a network namespace."""

    name: str
    address: str
    _runner: Callable[..., Completed] = field(repr=False, compare=False)

    def run(self, argv: Sequence[str], timeout_s: float = 30.0, *, unprivileged: bool = False) -> Completed:
        """Runs a command in here, without a shell, and returns what it printed.

        unprivileged: without capabilities, as traffic tools run. Raises MeasurementFailed when it cannot be started or
        does not end within timeout_s.
        """
        return self._runner(self, argv, timeout_s, unprivileged)


@dataclass(frozen=True)
class Pair:
    """A client and its server. port: where the server listens. task: what the client sends."""

    index: int
    client: Endpoint
    server: Endpoint
    port: int
    task: Task
