"""different-cores: the ends of a pair never share a core."""

from pairlab.testbed.contracts import Pinning


class DifferentCores(Pinning):
    """Client and server of a pair on different cores. Source: paper C, fig. 9.

    Clients are dealt to the cores in turn. Servers follow a number of cores behind, so that clients, servers and
    endpoints are all spread as evenly as can be: no core has two more of them than another.
    """

    name = "different-cores"
    summary = "client and server of a pair on different cores"
    least_cores = 2

    def place(self, pairs, cores):
        placed, count = {}, len(cores)
        for index in range(pairs):
            round_, turn = divmod(index, count)
            left = pairs - round_ * count
            # Each round has another distance, as cores at some distance may be siblings. A last round that does not go
            # round has its own: servers begin where the clients stopped.
            behind = 1 + round_ % (count - 1) if left >= count else left
            placed[f"client-{index}"] = cores[turn]
            placed[f"server-{index}"] = cores[(turn + behind) % count]
        return placed
