"""flowgen all-to-all: in every round, each container exchanges messages with every other one."""

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import USUAL_MESSAGE_BYTES, AllToAllWorkload, FlowgenWorkload, Site, token_options
from pairlab.testbed.endpoints import Endpoint, Pair, with_port


class AllToAll(AllToAllWorkload, FlowgenWorkload):
    """Rounds of MPI_Alltoall by TCP, between all containers: client and server of each pair are one rank each.

    All ranks are connected with each other before the first round. In a round, a rank sends message_bytes to every
    other one, and the round ends once it has received as many from each. Timing is as in osu_alltoall: each rank times
    its own rounds, without the barrier between them. warmup_s and duration_s replace osu_alltoall's numbers of rounds.

    A round of a rank is a transaction: `transactions` is the histogram of the times of rounds of a pair's two ranks. As
    all ranks make equally many, the mean is the mean over ranks that osu_alltoall prints. Its minimum and maximum over
    ranks are the metrics rank_least_mean_s and rank_most_mean_s. flow_bytes are the bytes sent by the pair's ranks.
    """

    name = "all-to-all"
    summary = "flowgen all-to-all: rounds in which every container sends to every other one, and their latencies"
    features = frozenset({"time", "message", "warmup", "ranks", "ipv6"})
    most_ranks = 256  # flowgen's own limit: mesh.h

    def rank(self, pair: Pair, endpoint: Endpoint, spec: Spec, site: Site) -> list[str]:
        (index,) = [number for number, rank in enumerate(pair.ranks) if rank.endpoint == endpoint.name]
        argv = [site.flowgen, "all-to-all", "--rank", str(index), *token_options(site)]
        argv += ["--ranks", ",".join(with_port(rank.address, rank.port) for rank in pair.ranks)]
        argv += ["--message-bytes", str(spec.message_bytes or USUAL_MESSAGE_BYTES)]
        argv += ["--duration", f"{spec.duration_s:g}", "--warmup", f"{spec.warmup_s:g}"]
        return [*argv, "--wait"] if endpoint == pair.server else argv
