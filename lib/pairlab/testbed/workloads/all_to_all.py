"""Every container sends a message to every other one and receives as many, round after round: by flowgen, or by MPI."""

import json

from pairlab.errors import BadSpec
from pairlab.testbed import token
from pairlab.testbed.contracts import Measured, Workload, transaction_totals
from pairlab.testbed.mpi.ranks import (
    MPI4PY,
    RANK_METRICS,
    USUAL_MESSAGE_BYTES,
    join,
    of_all,
    program,
    require_messages,
    version_of_mpi4py,
)
from pairlab.testbed.requirements import PythonPackage

#: flowgen's own limit: mesh.h.
MOST_RANKS = 256


class AllToAll(Workload):
    """Rounds of MPI_Alltoall by TCP, between all containers: client and server of each pair are a rank each.

    All ranks are connected with all before the first round. In a round, a rank sends message_bytes to every other one,
    and its round is over when it has received as many from each. It is timed as osu_alltoall does it: each rank for
    itself, with a barrier between rounds that is not timed. warmup_s and duration_s take the place of its numbers of
    rounds.

    A round of a rank is a transaction: `transactions` has how many rounds of a pair's two ranks took how long, and
    since all ranks make equally many, their mean is the mean over ranks that osu_alltoall prints. Its least and most
    over ranks are the metrics rank_least_mean_s and rank_most_mean_s. flow_bytes are what the pair's ranks sent.
    """

    name = "all-to-all"
    summary = "flowgen all-to-all: rounds in which every container sends to every other one, and their latencies"
    can = frozenset({"time", "message", "warmup", "ranks"})
    metrics = RANK_METRICS
    all_connect = True
    one_port = False

    @classmethod
    def version_command(cls, flowgen):
        return (flowgen, "version")

    def check(self, spec):
        require_messages(spec)
        if 2 * spec.pairs > MOST_RANKS:
            raise BadSpec(f"pairs: all-to-all is between at most {MOST_RANKS} containers, two for each of {spec.pairs}")

    def prepare(self, spec, directory):
        token.write(directory)

    def server(self, pair, spec, site):
        if pair.server.name not in {rank.endpoint for rank in pair.ranks}:  # the last of an odd number: it has no rank
            return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]
        return [*self._rank(pair, pair.server, spec, site), "--wait"]

    def client(self, pair, spec, site):
        return self._rank(pair, pair.client, spec, site)

    def _rank(self, pair, endpoint, spec, site):
        (own,) = [number for number, rank in enumerate(pair.ranks) if rank.endpoint == endpoint.name]
        argv = [site.flowgen, "all-to-all", "--rank", str(own), *token.options(site)]
        argv += ["--ranks", ",".join(f"{rank.address}:{rank.port}" for rank in pair.ranks)]
        argv += ["--message-bytes", str(spec.message_bytes or USUAL_MESSAGE_BYTES)]
        argv += ["--duration", f"{spec.duration_s:g}", "--warmup", f"{spec.warmup_s:g}"]
        return argv

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


class MpiAllToAll(AllToAll):
    """MPI_Alltoall in rounds: all-to-all as programs of MPI have it, with the algorithms and the polling of MPICH."""

    name = "mpi-all-to-all"
    summary = "MPI_Alltoall by MPICH and mpi4py: rounds between all containers, and their latencies"
    programs = (PythonPackage("mpi4py", "", f"{MPI4PY}, or take workload 'all-to-all', which needs neither"),)
    serves_once = True

    @classmethod
    def version_command(cls, flowgen):
        return version_of_mpi4py()

    def prepare(self, spec, directory):
        """Needs no files."""

    def server(self, pair, spec, site):
        argv = super().server(pair, spec, site)
        return [each for each in argv if each != "--wait"]

    def _rank(self, pair, endpoint, spec, site):
        return join(site, endpoint, of_all(pair, endpoint), program("rounds.py", spec))


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
    """What server and client received, which MPI does not tell."""
    if "received_bytes" not in client:
        return {}
    received_bytes = sum(int(each["received_bytes"]) for each in others)
    return {"received_bytes": received_bytes, "answered_bytes": int(client["received_bytes"])}
