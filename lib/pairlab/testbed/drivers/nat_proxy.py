"""NAT by Docker with its userland proxy: a process on the host for each published port."""

from pairlab.testbed.contracts import DockerNetwork
from pairlab.testbed.drivers.nat import DOCKER_OPTIONS, Nat


class NatProxy(Nat):
    """Published ports of a daemon with its userland proxy, which is Docker's default.

    A driver, and no setting of `nat`, as it is another data path: what a client beside its server sends goes to a
    docker-proxy, a process that ends its connection and makes one of its own to the server. What comes from other hosts
    is rewritten by iptables as without it.
    """

    name = "nat-proxy"
    summary = "as nat in Docker, with a docker-proxy for clients beside their server"
    absent_in = ("netns",)
    docker = DockerNetwork(driver="bridge", options=DOCKER_OPTIONS, own_daemon=True, userland_proxy=True)
