"""Networks without a switch: baselines for those with one."""

from pairlab.testbed.contracts import DockerNetwork, Lan, NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan


class Host(NetworkDriver):
    """Endpoints in one network namespace, distinguished by their ports."""

    name = "host"
    summary = "one shared network stack over loopback, distinct ports; the baseline"
    isolation = "none"
    cannot = "have two containers of a host listen at one port"
    isolated = False
    spans_hosts = True
    docker = DockerNetwork(mode="host")


class BareProcess(NetworkDriver):
    """Endpoints are processes in their host's own network namespace, distinguished by their ports.

    On one host they use its loopback, as with driver `host`; between hosts, the uplinks. In the backend docker, a
    daemon without containers runs on each host: its iptables rules make the kernel track connections.
    """

    name = "process"
    summary = "processes in their host's own network stack, without containers; between hosts, its uplink"
    isolation = "none"
    cannot = "have two processes of a host listen at one port"
    isolated = False
    spans_hosts = True
    docker = DockerNetwork(mode="process", own_daemon=True)


class Container(NetworkDriver):
    """Client and server of a pair share a network namespace, and communicate over its loopback."""

    name = "container"
    summary = "both ends of a pair in one network namespace, over its loopback"
    isolation = "pair"
    cannot = "reach a container of another pod, nor have two of a pod listen at one port"
    pair_shares_namespace = True
    only_own_partner = True
    docker = DockerNetwork(mode="container")


class PointToPoint(NetworkDriver):
    """One veth pair from each client to its server, with nothing in between."""

    name = "p2p"
    summary = "a veth pair from each client to its server, nothing in between; the limit of the others"
    isolation = "cable"
    cannot = "reach any container but the other end of the cable"
    links = ("veth",)
    only_own_partner = True

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        if endpoint.side == "client":
            self.client = endpoint
        else:
            lan.add_cable(self.client, endpoint)


class NoNetwork(NetworkDriver):
    """Endpoints with only a loopback each: they do not reach each other."""

    name = "none"
    summary = "a loopback each and no network; for launch times, carries no traffic"
    isolation = "closed"
    carries_traffic = False
    docker = DockerNetwork(mode="none")
