"""What a network is wanted for, what is told of networks, and what is known of them without measuring."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pairlab.errors import BadInput
from pairlab.model import cpu_use
from pairlab.model.records import Run
from pairlab.model.spec import value_of
from pairlab.model.summaries import summaries

TRAFFIC = ("requests", "bulk")
#: What can decide. Which of the two quantities `cpu` is, the traffic says.
FIRST = ("p99", "throughput", "cpu", "launch")


def _summary(name: str) -> Callable[[Run], float]:
    return lambda run: summaries(run).get(name, math.nan)


class Quantity(NamedTuple):
    """One column of the answer.

    unit: as units.with_prefix has it, or "%" of one CPU. of: which runs have it: bulk, requests or launch. experiment:
    measures it where nothing else did. value: of one run; NaN where it has none.
    """

    title: str
    unit: str
    of: str
    experiment: str
    value: Callable[[Run], float]
    less_is_better: bool = True


QUANTITIES: Mapping[str, Quantity] = {
    "throughput": Quantity("Throughput", "bit/s", "bulk", "networks", _summary("total_bps"), less_is_better=False),
    "p99": Quantity("p99 latency", "s", "requests", "latency", _summary("latency_p99_s")),
    "cpu-bulk": Quantity(
        "CPU per Gbit/s",
        "%",  # a second of CPU time per 10^9 bytes is an eighth of a CPU at a rate of 10^9 bit/s
        "bulk",
        "networks",
        lambda run: cpu_use.host_s_per_gb(run) / 8 * 100,
    ),
    "cpu-requests": Quantity("CPU per transaction", "s", "requests", "latency", _summary("service_demand_s")),
    "launch": Quantity("Launch time", "s", "launch", "launch-time", _summary("launch_p50_s")),
}


@dataclass(frozen=True)
class Question:
    """What a network is wanted for.

    pairs: of client and server, all active at once. hosts: that they are on; with several, clients and servers are on
    different ones. traffic: requests (with their responses), or bulk. first: which of FIRST decides; empty: p99 of
    requests, else throughput. matter: which of FIRST a dominated network is worse in, besides the first; none
    named: p99 and cpu of requests, else throughput and cpu. isolation: only networks that give each endpoint a network
    namespace of its own. exactly: nothing stands in for what was not measured as asked. Raises BadInput.
    """

    pairs: int = 20
    hosts: int = 1
    traffic: str = "requests"
    first: str = ""
    matter: tuple[str, ...] = ()
    isolation: bool = False
    exactly: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "matter", tuple(self.matter))
        named = [("traffic", self.traffic, TRAFFIC), *(("matter", each, FIRST) for each in self.matter)]
        for name, value, known in [*named, ("first", self.first, ("", *FIRST))]:
            if value not in known:
                raise BadInput(f"{name}: {value!r} is none of {', '.join(filter(None, known))}")
        for name, most in (("pairs", 5000), ("hosts", 64)):
            value = value_of(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise BadInput(f"{name}: must be a whole number from 1 to {most}, not {value!r}")

    @property
    def placement(self) -> str:
        return "same-host" if self.hosts == 1 else "across"

    @property
    def decisive(self) -> str:
        """The one of QUANTITIES that is first."""
        return self._meant(self.first or ("p99" if self.traffic == "requests" else "throughput"))

    @property
    def that_matter(self) -> tuple[str, ...]:
        """Those of QUANTITIES in which a network must be worse to be dominated."""
        by_traffic = ("p99", "cpu") if self.traffic == "requests" else ("throughput", "cpu")
        return tuple(dict.fromkeys([self.decisive, *map(self._meant, self.matter or by_traffic)]))

    def pairs_of(self, quantity: str) -> int:
        """How many pairs a quantity is asked of: a launch is that of one pair, beside nothing else."""
        return 1 if QUANTITIES[quantity].of == "launch" else self.pairs

    def _meant(self, name: str) -> str:
        return f"cpu-{self.traffic}" if name == "cpu" else name

    def __str__(self) -> str:
        what = "request/response" if self.traffic == "requests" else "bulk"
        where = "one host" if self.hosts == 1 else f"{self.hosts} hosts"
        isolated = ", a network namespace each" if self.isolation else ""
        title = QUANTITIES[self.decisive].title
        return f"{self.pairs} {what} pair{'s' * (self.pairs != 1)} on {where}, {title} first{isolated}"


class Network(NamedTuple):
    """What is known of a driver in a backend without measuring (apps/advice.py takes it from the driver).

    isolation: the word for it, and its meaning. separates: whether each endpoint has a network namespace of its own.
    spans_hosts: whether it reaches other hosts; needs_hosts: whether it is nothing of its own within one. needs: root,
    Docker and programs, as one text.
    """

    name: str
    backend: str
    isolation: tuple[str, str]
    separates: bool
    spans_hosts: bool
    needs_hosts: bool
    needs: str

    def why_not(self, question: Question) -> str:
        """Why the question rules it out, as a clause; empty where it does not."""
        if question.hosts > 1 and not self.spans_hosts:
            return "within one host only"
        if question.hosts == 1 and self.needs_hosts:
            return "for several hosts only"
        return "no network stack of its own" if question.isolation and not self.separates else ""
