"""What a measurement looks like while it runs: what each client's link sends, and what the CPUs do.

The kernel's own counters are read from outside: /proc/PID/net/dev of each client's launcher, which lives in the
client's network namespace. Nothing runs in there, and nothing is sent. What cannot be seen is None, never an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from pairlab.testbed.contracts import Site
from pairlab.testbed.host.cpu_sampler import shares_between
from pairlab.testbed.host.link_telemetry import LinkCounter, may_open
from pairlab.testbed.launch.conductor import Process

#: How far apart samples are.
EVERY_S = 0.5


@dataclass(frozen=True)
class Sample:
    """How it goes at one moment; rates and shares are since the sample before, or the release.

    elapsed_s: since the release. total_s: until when clients send (Spec.traffic_s). client_bps: bits per second that
    each pair sent, by its client's link, its server's or both (Spec.direction), link-layer headers included; None: it
    cannot be seen, as where all share a loopback. total_bps: of all clients together, or of that loopback where nobody
    else uses it. usr, sys, softirq: shares of the time of all CPUs.
    """

    elapsed_s: float
    total_s: float
    client_bps: tuple[float | None, ...]
    total_bps: float | None
    usr: float
    sys: float
    softirq: float


#: Told each sample.
Watch = Callable[[Sample], None]


class Sampler:
    """Samples these processes, which send when they are released, for `watch`. A context manager.

    clients: the senders of each pair; where it has two, the first ones of all pairs come first. pairs: how many there
    are; 0: as many as senders.

    alone: whether no other pairs of the testbed send.
    """

    def __init__(
        self,
        clients: Sequence[Process],
        site: Site,
        isolated: bool,
        total_s: float,
        watch: Watch,
        alone: bool = True,
        pairs: int = 0,
    ):
        self._total_s = total_s
        self._watch = watch
        self._isolated = isolated
        self._pairs = pairs or len(clients)
        running = [each for each in clients if not each.over]
        by_host = {site.hosts.get(each.endpoint.name, 0): each for each in running}
        shared = list(by_host.values()) if site.interface_is_own and alone else []
        self._counters = [LinkCounter(each, site.interface) for each in (clients if isolated else shared)]
        self._last_s = 0.0
        self._told = False
        self._shares = dict.fromkeys(("usr", "sys", "softirq"), 0.0)

    def __enter__(self) -> "Sampler":
        self._cpu = psutil.cpu_times()
        if may_open(len(self._counters)):
            for each in self._counters:
                each.open()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._counters:
            each.close()

    def look(self, elapsed_s: float, last: bool = False) -> None:
        """Tells a sample, at that time since the release, if enough has passed since the one before to say something.

        last: nothing comes after this, so that a measurement that is shorter than an interval has a sample, too.
        """
        passed_s = elapsed_s - self._last_s
        if passed_s <= 0 or (passed_s < EVERY_S / 2 and not (last and not self._told)):
            return
        self._last_s, self._told = elapsed_s, True
        client_bps, total_bps = self._rates(passed_s)
        self._watch(Sample(elapsed_s, self._total_s, client_bps, total_bps, **self._shares_since()))

    def _rates(self, passed_s: float) -> tuple[tuple[float | None, ...], float | None]:
        """Each pair's, and that of all."""
        rates = [each.sent_bps(passed_s) for each in self._counters]
        if not self._isolated:
            return (None,) * self._pairs, _sum(rates)
        return tuple(_sum(rates[pair :: self._pairs]) for pair in range(self._pairs)), _sum(rates)

    def _shares_since(self) -> dict[str, float]:
        before, self._cpu = self._cpu, psutil.cpu_times()
        found = shares_between(before, self._cpu)
        self._shares = {name: found.get(name, share) for name, share in self._shares.items()}
        return self._shares


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


def next_s(passed_s: float) -> float:
    """The next moment of the grid of samples, which does not drift with what each of them takes."""
    return (passed_s // EVERY_S + 1) * EVERY_S
