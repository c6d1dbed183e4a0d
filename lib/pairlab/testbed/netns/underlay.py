"""Hosts that are network namespaces of one sandbox: each has an uplink to one wire, a bridge of the sandbox.

They share the kernel, its CPUs and its clock, and differ in everything that a network namespace has: links, addresses,
routes, filters. An uplink is a veth pair. What a host sends is held to the uplink's rate (tc-tbf(8)) and delayed
(tc-netem(8)) where it leaves the host, and what it receives is held to the rate where it leaves the wire.
"""

import errno
import socket
from collections.abc import Sequence
from typing import Any

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.endpoints import UPLINK, HostPlan, Uplink, mac_of
from pairlab.testbed.netns import neighbours, rtnetlink, shaping
from pairlab.testbed.netns.namespaces import inside
from pairlab.testbed.requirements import Lack

WIRE = "wire0"
#: Packets that netem holds at most: 12 Gbit/s of packets of 1500 bytes for a second. It drops the rest.
_DELAYED_PACKETS = 1_000_000
#: The queueing discipline within netem (tc-netem(8)).
_WITHIN_NETEM = 0x10001

NO_DELAY = Lack("this kernel cannot delay packets", "sudo modprobe sch_netem, or leave out uplink_delay_s")


def connect(hosts: Sequence[HostPlan], namespaces: Sequence[int]) -> dict[str, Any]:
    """Connects these hosts, each the network namespace of that descriptor, and returns what a record should say.

    Each has its uplink, addressed and up, and knows the others' hardware addresses. Raises Unavailable where the
    kernel lacks what the uplinks ask for, and TestbedError where it refuses for another reason.
    """
    mtu = {"mtu": hosts[0].uplink.mtu_bytes}
    try:
        rtnetlink.ask(rtnetlink.link(WIRE, "bridge", up=True, **mtu))
        wire = socket.if_nametoindex(WIRE)
        for host, namespace in zip(hosts, namespaces, strict=True):
            peer = {"ifname": UPLINK, "net_ns_fd": namespace, "address": mac_of(host.address), **mtu}
            rtnetlink.ask(rtnetlink.link(host.name, "veth", up=True, master=wire, peer=peer, **mtu))
            rtnetlink.ask(rtnetlink.bridge_port(socket.if_nametoindex(host.name), mac_of(host.address)))
        set_up: dict[str, Any] = {}
        for host, namespace in zip(hosts, namespaces, strict=True):
            with inside(namespace):
                set_up |= _set_up(host, [each for each in hosts if each != host])
            if host.uplink.rate_bps:
                shaping.limit_rate(host.name, host.uplink.rate_bps, paced=host.uplink.paced)
    except OSError as error:
        raise TestbedError(f"hosts could not be connected: {error}") from error
    return {"wire": "bridge", "uplink": "veth", **mtu, **set_up, **limited(hosts)}


def limited(hosts: Sequence[HostPlan]) -> dict[str, Any]:
    """The names of the hosts whose uplinks alone are shaped; nothing where all are, or none is."""
    names = [each.name for each in hosts if each.uplink.rate_bps or each.uplink.delay_s]
    return {"limited_hosts": names} if 0 < len(names) < len(hosts) else {}


def _set_up(host: HostPlan, others: Sequence[HostPlan]) -> dict[str, Any]:
    """Sets up the uplink of the host whose network namespace is the present one; returns how it is shaped."""
    index = socket.if_nametoindex(UPLINK)
    wanted = [rtnetlink.address(index, host.address, host.prefix), rtnetlink.up(index)]
    rtnetlink.ask(*wanted, rtnetlink.up(rtnetlink.LOOPBACK))
    neighbours.know(UPLINK, {each.address: mac_of(each.address) for each in others})
    delayed = _delay(host.uplink) if host.uplink.delay_s else {}
    if not host.uplink.rate_bps:
        return delayed
    within = _WITHIN_NETEM if delayed else None
    return {**delayed, "tbf": shaping.limit_rate(UPLINK, host.uplink.rate_bps, within, paced=host.uplink.paced)}


def _delay(uplink: Uplink, name: str = UPLINK) -> dict[str, Any]:
    """Delays what that link of the present namespace sends."""
    asked = {"delay": round(uplink.delay_s * 1e6), "jitter": round(uplink.jitter_s * 1e6), "limit": _DELAYED_PACKETS}
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as ipr:
        try:
            ipr.tc("add", "netem", socket.if_nametoindex(name), handle=0x10000, **asked)
        except NetlinkError as error:
            if error.code == errno.ENOENT:
                raise Unavailable(str(NO_DELAY)) from None
            raise TestbedError(f"link {name} could not be delayed: {error}") from error
    return {"netem": {"delay_s": uplink.delay_s, "jitter_s": uplink.jitter_s, "limit_packets": _DELAYED_PACKETS}}


def lacks(uplink: Uplink) -> list[Lack]:
    """What this host misses to shape uplinks so: tried on the loopback of the present namespace, and left there."""
    found = []
    try:
        if uplink.delay_s:
            _delay(uplink, "lo")
    except Unavailable:
        found.append(NO_DELAY)
    try:
        if uplink.rate_bps:
            shaping.limit_rate("lo", uplink.rate_bps, _WITHIN_NETEM if uplink.delay_s and not found else None)
    except Unavailable:
        found.append(shaping.NO_FILTER)
    return found
