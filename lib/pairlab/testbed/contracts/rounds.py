"""Base class of all-to-all workloads: in every round, each container sends a message to every other one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pairlab.errors import BadSpec
from pairlab.model.metrics import Metric
from pairlab.testbed.contracts import reports
from pairlab.testbed.contracts.backends import Site
from pairlab.testbed.contracts.workloads import FlowReport, Workload
from pairlab.testbed.endpoints import Endpoint, Pair

if TYPE_CHECKING:
    from pairlab.model.spec import Spec

#: A rank's total as it printed it, and the histogram of its rounds' times: (time in s, number of rounds).
_RankReport = tuple[dict[str, Any], list[tuple[float, int]]]

#: The default message size: as in Suo et al. 2018.
USUAL_MESSAGE_BYTES = 1024

#: Metrics of each pair's ranks; the mean over all ranks is the transactions' mean latency.
RANK_METRICS = (
    Metric("rank_least_mean_s", "s", "mean round of the rank with the shortest", less_is_better=True, of_run="min"),
    Metric("rank_most_mean_s", "s", "mean round of the rank with the longest", less_is_better=True, of_run="max"),
)


class AllToAllWorkload(Workload):
    """Rounds between all containers: client and server of each pair are one rank each.

    A rank prints JSON objects, one per line: `latencies`, whose buckets are pairs of a round's time in ns and the
    number of rounds with it, and then `rank`, with the numbers of ranks and rounds, message_bytes, connected_ns,
    duration_s, lasted_s, mean_s, and received_bytes if known. A round of a rank is a transaction.
    """

    features = frozenset({"time", "message", "ranks", "ipv6"})
    takes: ClassVar[Mapping[str, tuple[int, int]]] = {"message_bytes": (1, 1 << 20)}  # alltoall.c has this limit, too
    metrics: ClassVar[tuple[Metric, ...]] = RANK_METRICS
    all_connect = True
    one_port = False

    most_ranks: ClassVar[int | None] = None
    """The largest number of ranks; None: no limit."""

    @abstractmethod
    def rank(self, pair: Pair, endpoint: Endpoint, spec: Spec, site: Site) -> list[str]:
        """The command of the rank (pair.ranks) at that endpoint, client or server of the pair."""

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.most_ranks and 2 * spec.pairs > self.most_ranks:
            raise BadSpec(
                f"pairs: all-to-all is between at most {self.most_ranks} containers, two for each of {spec.pairs}"
            )

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        if pair.server.name not in {rank.endpoint for rank in pair.ranks}:  # the last of an odd number: it has no rank
            return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]
        return self.rank(pair, pair.server, spec, site)

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return self.rank(pair, pair.client, spec, site)

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        client, server = (reports.json_lines(self.name, text) for text in (stdout, served))
        with reports.read(self.name):
            ranks = [_rank_report(self.name, lines) for lines in (client, server)]
            if ranks[0] is None:
                raise ValueError(f"{self.name}'s client printed no report of its rounds")
            return [_measured(self.name, [each for each in ranks if each])]


def _rank_report(name: str, lines: list[Any]) -> _RankReport | None:
    """One program's output: the rank's total and the latencies of its rounds; None without a total.

    The server without a rank, the last of an odd number, prints none.
    """
    buckets = [bucket for line in lines if line["event"] == "latencies" for bucket in line["buckets"]]
    totals = [line for line in lines if line["event"] == "rank"]
    if not totals:
        if buckets:
            raise ValueError(f"{name} printed latencies and no total: the report is cut off")
        return None
    if len(totals) > 1:
        raise ValueError(f"{name} printed {len(totals)} totals for one rank: a damaged report")
    if totals[0].get("error"):
        return totals[0], []
    return totals[0], reports.latencies_s(name, buckets, int(totals[0]["rounds"]))


def _measured(name: str, of_ranks: list[_RankReport]) -> FlowReport:
    """A pair's report, from those of its client's rank and, if there is one, its server's rank."""
    client, *others = ranks = [total for total, _ in of_ranks]
    if errors := [f"{name}: {each['error']}" for each in ranks if each.get("error")]:
        return FlowReport({}, error=errors[0])
    rounds = sum(int(each["rounds"]) for each in ranks)
    if not rounds:
        return FlowReport({}, error=f"{name}: no round was complete in this time: give more duration_s")
    duration_s = float(client["duration_s"])
    flow_bytes = sum(int(each["rounds"]) * (int(each["ranks"]) - 1) * int(each["message_bytes"]) for each in ranks)
    means_s = [float(each["mean_s"]) for each in ranks]
    return FlowReport(
        reports.transaction_totals(duration_s, rounds, flow_bytes // rounds)
        | {"rank_least_mean_s": min(means_s), "rank_most_mean_s": max(means_s)},
        connected_ns=int(client["connected_ns"]),
        lasted_s=float(client["lasted_s"]),
        **_received(client, others),
        latencies=[latency for _, latencies in of_ranks for latency in latencies],
        windowed=True,
    )


def _received(client: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    """Bytes that server and client received, if reported."""
    if "received_bytes" not in client:
        return {}
    received_bytes = sum(int(each["received_bytes"]) for each in others)
    return {"received_bytes": received_bytes, "answered_bytes": int(client["received_bytes"])}
