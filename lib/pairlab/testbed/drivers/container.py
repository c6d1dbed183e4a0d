"""Container mode: both ends of a pair in one network namespace, as containers of one pod are."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class Container(NetworkDriver):
    """Client and server share a network namespace of their own, and reach each other by its loopback."""

    name = "container"
    summary = "both ends of a pair in one network namespace, over its loopback"
    isolation = "pair"
    pair_shares = True
    pairs_apart = True
    docker = DockerNetwork(mode="container")
