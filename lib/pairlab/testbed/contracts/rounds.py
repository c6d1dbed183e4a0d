"""What workloads share in which every container sends a message to every other one, round after round."""

import json
from abc import abstractmethod
from typing import ClassVar

from pairlab.errors import BadSpec
from pairlab.model.metrics.declared import Metric
from pairlab.testbed.contracts.workloads import Measured, Workload, transaction_totals

#: The largest message that is exchanged in rounds, by flowgen too: alltoall.c.
MOST_MESSAGE_BYTES = 1 << 20

#: What a message has where the spec does not say: as in paper S.
USUAL_MESSAGE_BYTES = 1024

#: Of each pair's ranks; the mean over all ranks is the mean latency of the transactions.
RANK_METRICS = (
    Metric("rank_least_mean_s", "s", "mean round of the rank with the shortest", less_is_better=True, of_run="min"),
    Metric("rank_most_mean_s", "s", "mean round of the rank with the longest", less_is_better=True, of_run="max"),
)


class AllToAllWorkload(Workload):
    """Rounds between all containers: client and server of each pair are a rank each.

    A rank prints objects in JSON, one a line: `latencies`, whose buckets are pairs of a round's time in ns and how many
    rounds took it, and then `rank`, with how many ranks and rounds there were, message_bytes, connected_ns, duration_s,
    lasted_s, mean_s, and received_bytes where it knows them. A round of a rank is a transaction.
    """

    can = frozenset({"time", "message", "ranks"})
    metrics: ClassVar[tuple[Metric, ...]] = RANK_METRICS
    all_connect = True
    one_port = False

    most_ranks: ClassVar[int | None] = None
    """How many there can be, where there is a limit."""

    @abstractmethod
    def rank(self, pair, endpoint, spec, site):
        """The command of that endpoint, client or server of the pair, as a rank (pair.ranks)."""

    def check(self, spec):
        if spec.message_bytes > MOST_MESSAGE_BYTES:
            raise BadSpec(f"message_bytes: all-to-all sends at most {MOST_MESSAGE_BYTES}, not {spec.message_bytes}")
        if self.most_ranks and 2 * spec.pairs > self.most_ranks:
            raise BadSpec(
                f"pairs: all-to-all is between at most {self.most_ranks} containers, two for each of {spec.pairs}"
            )

    def server(self, pair, spec, site):
        if pair.server.name not in {rank.endpoint for rank in pair.ranks}:  # the last of an odd number: it has no rank
            return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]
        return self.rank(pair, pair.server, spec, site)

    def client(self, pair, spec, site):
        return self.rank(pair, pair.client, spec, site)

    def parse(self, stdout, served=""):
        try:
            client, server = ([json.loads(line) for line in text.splitlines()] for text in (stdout, served))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.name} printed no complete report: {error}") from None
        try:
            reports = [_rank_report(self.name, lines) for lines in (client, server)]
            if reports[0] is None:
                raise ValueError(f"{self.name}'s client printed no report of its rounds")
            return [_measured(self.name, [report for report in reports if report])]
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{self.name}'s report is incomplete: {error!r}") from None


def _rank_report(name, lines):
    """What one program printed: its rank's total and the buckets of its histogram, or None where it printed no total.

    The server that has no rank, the last of an odd number, prints none.
    """
    buckets = [bucket for line in lines if line["event"] == "latencies" for bucket in line["buckets"]]
    totals = [line for line in lines if line["event"] == "rank"]
    if not totals:
        if buckets:
            raise ValueError(f"{name} printed latencies and no total: the report is cut off")
        return None
    if len(totals) > 1:
        raise ValueError(f"{name} printed {len(totals)} totals for one rank: a damaged report")
    return totals[0], [(int(value_ns) / 1e9, int(count)) for value_ns, count in buckets]


def _measured(name, reports):
    """A pair, from the reports of its client's rank and, if that has one, of its server's."""
    client, *others = ranks = [total for total, _ in reports]
    if errors := [f"{name}: {each['error']}" for each in ranks if each.get("error")]:
        return Measured({}, error=errors[0])
    for total, latencies in reports:
        if sum(count for _, count in latencies) != int(total["rounds"]):
            raise ValueError(f"{name}'s histogram has not as many latencies as there were rounds: a damaged report")
    rounds = sum(int(each["rounds"]) for each in ranks)
    if not rounds:
        return Measured({}, error=f"{name}: no round was complete in this time: give more duration_s")
    duration_s = float(client["duration_s"])
    flow_bytes = sum(int(each["rounds"]) * (int(each["ranks"]) - 1) * int(each["message_bytes"]) for each in ranks)
    means_s = [float(each["mean_s"]) for each in ranks]
    return Measured(
        transaction_totals(duration_s, rounds, flow_bytes // rounds)
        | {"rank_least_mean_s": min(means_s), "rank_most_mean_s": max(means_s)},
        connected_ns=int(client["connected_ns"]),
        lasted_s=float(client["lasted_s"]),
        **_received(client, others),
        latencies=[latency for _, latencies in reports for latency in latencies],
        windowed=True,
    )


def _received(client, others):
    """What server and client received, where it tells that."""
    if "received_bytes" not in client:
        return {}
    received_bytes = sum(int(each["received_bytes"]) for each in others)
    return {"received_bytes": received_bytes, "answered_bytes": int(client["received_bytes"])}
