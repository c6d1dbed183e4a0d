"""Processes without containers: what a network of containers is compared with."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class BareProcess(NetworkDriver):
    """Endpoints are processes in their host's own network namespace, distinguished by their ports.

    On one host they use its loopback, as those of driver `host` do; between hosts, the hosts' uplinks. In the backend
    docker, a daemon without any container runs on each host: by its iptables rules, the kernel tracks connections.
    """

    name = "process"
    summary = "processes in their host's own network stack, without containers; between hosts, its uplink"
    isolation = "none"
    isolated = False
    spans_hosts = True
    docker = DockerNetwork(mode="process", own_daemon=True)
