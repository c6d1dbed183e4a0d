"""Every container sends a message to every other one and receives as many, round after round, by flowgen."""

from pairlab.testbed import token
from pairlab.testbed.contracts import USUAL_MESSAGE_BYTES, AllToAllWorkload


class AllToAll(AllToAllWorkload):
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
    most_ranks = 256  # flowgen's own limit: mesh.h

    @classmethod
    def version_command(cls, flowgen):
        return (flowgen, "version")

    def prepare(self, spec, directory):
        token.write(directory)

    def rank(self, pair, endpoint, spec, site):
        (own,) = [number for number, rank in enumerate(pair.ranks) if rank.endpoint == endpoint.name]
        argv = [site.flowgen, "all-to-all", "--rank", str(own), *token.options(site)]
        argv += ["--ranks", ",".join(f"{rank.address}:{rank.port}" for rank in pair.ranks)]
        argv += ["--message-bytes", str(spec.message_bytes or USUAL_MESSAGE_BYTES)]
        argv += ["--duration", f"{spec.duration_s:g}", "--warmup", f"{spec.warmup_s:g}"]
        return [*argv, "--wait"] if endpoint == pair.server else argv
