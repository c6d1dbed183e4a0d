"""No network at all: what isolates, and what a container without one costs to launch."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class NoNetwork(NetworkDriver):
    """Endpoints with a loopback each, and nothing else: they do not reach each other."""

    name = "none"
    summary = "a loopback each and no network; for launch times, carries no traffic"
    isolation = "closed"
    carries_traffic = False
    docker = DockerNetwork(mode="none")
