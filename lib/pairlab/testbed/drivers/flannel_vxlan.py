"""Flannel's backend vxlan: the kernel's VXLAN between hosts, with the entries that flanneld makes."""

from pairlab.testbed.flannel import READY_S, Flannel


class FlannelVxlan(Flannel):
    """A route to each other host's subnet by a VXLAN link, with a permanent neighbour and forwarding entry."""

    name = "flannel-vxlan"
    summary = "Flannel: flanneld leases each host a subnet from etcd; VXLAN between hosts"
    isolation = "encapsulated"
    aliases = ("flannel",)  # the backend that its documentation recommends
    links = (*Flannel.links, "vxlan")
    backend = "vxlan"
    overhead_bytes = 50  # Ethernet, IPv4, UDP, VXLAN

    def await_others(self, lan):
        lan.await_routes([each.subnet for each in lan.others], READY_S)  # the last that flanneld makes
