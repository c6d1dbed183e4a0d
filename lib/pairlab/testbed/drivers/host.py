"""No network of their own: all endpoints share one stack and use loopback. The baseline."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class Host(NetworkDriver):
    """Endpoints in one network namespace, distinguished by their ports."""

    name = "host"
    summary = "one shared network stack over loopback, distinct ports; the baseline"
    isolation = "none"
    isolated = False
    spans_hosts = True
    docker = DockerNetwork(mode="host")
