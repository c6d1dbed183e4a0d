"""Processes without containers: what a network of containers is compared with."""

from pairlab.testbed.contracts import NetworkDriver


class BareProcess(NetworkDriver):
    """Endpoints are processes in their host's own network namespace, distinguished by their ports.

    On one host they use its loopback, as those of driver `host` do; between hosts, the hosts' uplinks.
    """

    name = "process"
    summary = "processes in their host's own network stack, without containers; between hosts, its uplink"
    isolated = False
    spans_hosts = True
    absent_in = ("docker",)
