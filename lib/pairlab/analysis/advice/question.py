"""The question: what a network is needed for; the criteria, and the properties of networks without measuring."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pairlab.analysis.advice import FIRST, MARGIN_PERCENT, TRAFFIC
from pairlab.errors import BadInput
from pairlab.model.spec import value_of

#: Fields with a parameter of their own, which are no filters.
_SAID_ELSEWHERE = ("pairs", "hosts", "backend")


class Criterion(NamedTuple):
    """One column of the answer.

    unit: as of units.with_prefix, or "%" of one CPU. of: the kind of runs: bulk, requests or launch. experiment:
    measures it if nothing else did. column, scale: one of repetitions.QUANTITIES, and the factor to `unit`.
    """

    title: str
    unit: str
    of: str
    experiment: str
    column: str
    scale: float = 1.0
    less_is_better: bool = True


CRITERIA: Mapping[str, Criterion] = {
    "throughput": Criterion("Throughput", "bit/s", "bulk", "networks", "total_bps", less_is_better=False),
    "p99": Criterion("p99 latency", "s", "requests", "latency", "latency_p99_s"),
    # A second of CPU time per 10^9 bytes is an eighth of a CPU at a rate of 10^9 bit/s.
    "cpu-bulk": Criterion("CPU per Gbit/s", "%", "bulk", "networks", "host_s_per_gb", 100 / 8),
    "cpu-requests": Criterion("CPU per transaction", "s", "requests", "latency", "service_demand_s"),
    "launch": Criterion("Launch time", "s", "launch", "launch-time", "launch_p50_s"),
}


@dataclass(frozen=True)
class Question:
    """What a network is needed for.

    pairs: of client and server, all active at once. hosts: the number of hosts; with several, clients and servers are
    on different ones. traffic: requests (with their responses), or bulk. first: the one of FIRST that decides; empty:
    p99 of requests, else throughput. matter: those of FIRST in which a dominated network is worse, besides the first;
    empty: p99 and cpu of requests, else throughput and cpu. isolation: only networks that give each endpoint a network
    namespace of its own. exactly: no stand-ins for cells that were not measured as asked. margin_percent: smaller
    differences are ties. where: values that runs must have, as of Runs.where, several as a list, such as other load
    (background_pairs), or a congestion control, which is the one in force. Raises BadInput.
    """

    pairs: int = 20
    hosts: int = 1
    traffic: str = "requests"
    first: str = ""
    matter: tuple[str, ...] = ()
    isolation: bool = False
    exactly: bool = False
    margin_percent: float = MARGIN_PERCENT
    where: Mapping[str, Any] = field(default_factory=dict)

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
        if not 0 <= self.margin_percent < math.inf:
            raise BadInput(f"margin: must be a number of percent from 0, not {self.margin_percent!r}")
        if taken := [name for name in self.where if name in _SAID_ELSEWHERE]:
            raise BadInput(f"{taken[0]}: is no filter here, but an option of its own: --{taken[0]}")
        several = {name: value if isinstance(value, list | tuple) else [value] for name, value in self.where.items()}
        where = {name: tuple(value_of(name, each) for each in values) for name, values in several.items()}
        object.__setattr__(self, "where", where)

    @property
    def placement(self) -> str:
        return "same-host" if self.hosts == 1 else "across"

    @property
    def decisive(self) -> str:
        """The one of CRITERIA that decides."""
        return self._meant(self.first or ("p99" if self.traffic == "requests" else "throughput"))

    @property
    def that_matter(self) -> tuple[str, ...]:
        """The CRITERIA in which a network must be worse to be dominated."""
        by_traffic = ("p99", "cpu") if self.traffic == "requests" else ("throughput", "cpu")
        return tuple(dict.fromkeys([self.decisive, *map(self._meant, self.matter or by_traffic)]))

    def pairs_of(self, quantity: str) -> int:
        """The number of pairs for a quantity: a launch is of one pair, beside nothing else."""
        return 1 if CRITERIA[quantity].of == "launch" else self.pairs

    def _meant(self, name: str) -> str:
        return f"cpu-{self.traffic}" if name == "cpu" else name

    def __str__(self) -> str:
        what = "request/response" if self.traffic == "requests" else "bulk"
        where = "one host" if self.hosts == 1 else f"{self.hosts} hosts"
        isolated = ", a network namespace each" if self.isolation else ""
        title = CRITERIA[self.decisive].title
        also = "".join(f", {text}" for text in filters(self.where))
        return f"{self.pairs} {what} pair{'s' * (self.pairs != 1)} on {where}{also}, {title} first{isolated}"


def filters(values: Mapping[str, Sequence[Any]]) -> list[str]:
    """Values by name, in the form of a filter: "background_pairs=4"."""
    return [
        f"{name}={f'{value:g}' if isinstance(value, float) else value}"
        for name, several in values.items()
        for value in several
    ]


class Network(NamedTuple):
    """The properties of a driver in a backend without measuring (apps/advice.py takes them from the driver).

    cannot: what it cannot do, unlike others, whatever its speed. isolation: the word for it, and its meaning.
    separates: whether each endpoint has a network namespace of its own. spans_hosts: whether it reaches other hosts;
    needs_hosts: whether it makes sense between hosts only. needs: root, Docker and programs, as one text.
    """

    name: str
    backend: str
    isolation: tuple[str, str]
    separates: bool
    spans_hosts: bool
    needs_hosts: bool
    needs: str
    cannot: str = ""

    def why_not(self, question: Question) -> str:
        """Why the question rules out the network, as a clause; empty if it does not."""
        if question.hosts > 1 and not self.spans_hosts:
            return "within one host only"
        if question.hosts == 1 and self.needs_hosts:
            return "for several hosts only"
        return "no network stack of its own" if question.isolation and not self.separates else ""
