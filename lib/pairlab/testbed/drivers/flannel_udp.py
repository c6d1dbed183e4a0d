"""Flannel's backend udp: flanneld itself carries each packet, through user space."""

from pairlab.testbed.flannel import READY_S, Flannel
from pairlab.testbed.requirements import missing_tun


class FlannelUdp(Flannel):
    """A route to all subnets by a TUN link, whose packets flanneld sends to the right host in UDP."""

    name = "flannel-udp"
    summary = "Flannel: flanneld leases each host a subnet from etcd, and carries packets itself"
    isolation = "encapsulated"
    backend = "udp"
    overhead_bytes = 28  # IPv4, UDP

    @classmethod
    def lacks(cls):
        return missing_tun("flanneld's backend udp")

    def await_others(self, lan):
        for each in lan.others:  # the routes are in flanneld
            self.flanneld.await_output(f"Subnet added: {each.subnet}", READY_S)
