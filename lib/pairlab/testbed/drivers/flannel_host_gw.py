"""Flannel's backend host-gw: plain routes, with the other hosts as gateways."""

from pairlab.testbed.flannel import READY_S, Flannel


class FlannelHostGw(Flannel):
    """A route to each other host's subnet by that host, without a tunnel: all hosts are on one Ethernet."""

    name = "flannel-host-gw"
    summary = "Flannel: flanneld leases each host a subnet from etcd; routes between hosts"
    isolation = "routed"
    backend = "host-gw"

    def await_others(self, lan):
        lan.await_routes([each.subnet for each in lan.others], READY_S)
