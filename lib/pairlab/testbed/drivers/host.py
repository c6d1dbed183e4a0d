"""No network of one's own: all endpoints share one stack and meet on loopback. The baseline."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class Host(NetworkDriver):
    """Endpoints in one network namespace, told apart by their ports."""

    name = "host"
    summary = "one shared network stack over loopback, distinct ports; the baseline"
    isolated = False
    docker = DockerNetwork(mode="host")
