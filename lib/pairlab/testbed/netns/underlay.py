"""Hosts that are network namespaces of one sandbox: each has an uplink to one wire, a bridge of the sandbox.

They share the kernel, its CPUs and its clock, and each has the links, addresses, routes and filters of a network
namespace. An uplink is a veth pair. A host's packets are limited to the uplink's rate (tc-tbf(8)) and delayed
(tc-netem(8)) where they leave the host; packets to it are limited to that rate where they leave the wire.
"""

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.endpoints import UPLINK, HostPlan, Uplink, mac_of
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.namespaces import inside
from pairlab.testbed.netns import neighbours, shaping
from pairlab.testbed.requirements import MissingRequirement

WIRE = "wire0"
_WHAT = "hosts could not be connected"
#: netem's queue limit: 12 Gbit/s of packets of 1500 bytes for a second. It drops the rest.
_DELAYED_PACKETS = 1_000_000
#: Requests of tun(4), and IFF_TAP | IFF_NO_PI | IFF_VNET_HDR.
_TUNSETIFF, _TUNSETPERSIST, _TAP_FLAGS = 0x400454CA, 0x400454CB, 0x0002 | 0x1000 | 0x4000
#: The queueing discipline within netem (tc-netem(8)).
_WITHIN_NETEM = 0x10001

NO_NETEM = MissingRequirement(
    "this kernel cannot delay or lose packets", "sudo modprobe sch_netem, or leave out uplink_delay_s and uplink_loss"
)


def connect(hosts: Sequence[HostPlan], namespaces: Sequence[int]) -> dict[str, Any]:
    """Connects these hosts, each with the namespace of that descriptor, and returns the underlay's facts.

    Each has its uplink, addressed and up, with the others as static neighbours. Raises Unavailable where the kernel
    lacks a feature of the uplinks, and TestbedError where it refuses for another reason.
    """
    shaped: dict[str, Any] = {}
    with rtnetlink.refused(_WHAT):
        facts = make_wire(hosts, "veth", namespaces)
        for host, namespace in zip(hosts, namespaces, strict=True):
            with inside(namespace):
                shaped |= set_up_uplink(host, [each for each in hosts if each != host])
    return {**facts, **shaped, **limited(hosts)}


def device_of(host: HostPlan) -> str:
    """The sandbox's link that backs the uplink of a host with a kernel of its own."""
    return f"to-{host.name}"


def make_wire(hosts: Sequence[HostPlan], kind: str, namespaces: Sequence[int] = ()) -> dict[str, Any]:
    """Makes the wire between hosts; returns the wire's facts.

    kind: `veth`, to the uplinks in these namespaces; or for hosts with kernels of their own, which take over the links
    device_of, `tap` or `raw` (an end of a veth pair). Raises TestbedError where this kernel refuses.
    """
    mtu = {"mtu": hosts[0].uplink.mtu_bytes}
    with rtnetlink.refused(_WHAT):
        rtnetlink.ask(rtnetlink.link(WIRE, "bridge", up=True, **mtu))
        wire = socket.if_nametoindex(WIRE)
        for number, host in enumerate(hosts):
            port = device_of(host) if kind == "tap" else host.name
            if kind == "tap":
                _make_tap(port)
                rtnetlink.ask(rtnetlink.change(socket.if_nametoindex(port), up=True, master=wire, **mtu))
            else:
                peer: dict[str, Any] = {"ifname": device_of(host)}
                if kind == "veth":
                    peer = {"ifname": UPLINK, "net_ns_fd": namespaces[number], "address": mac_of(host.address)}
                rtnetlink.ask(rtnetlink.link(host.name, "veth", up=True, master=wire, peer=peer | mtu, **mtu))
            if kind == "raw":
                rtnetlink.ask(rtnetlink.up(socket.if_nametoindex(device_of(host))))
            rtnetlink.ask(rtnetlink.bridge_port(socket.if_nametoindex(port), mac_of(host.address)))
            if host.uplink.rate_bps:
                shaping.limit_rate(port, host.uplink.rate_bps, paced=host.uplink.paced)
    return {"wire": "bridge", "uplink": kind, **mtu}


def _make_tap(name: str) -> None:
    """Makes a persistent tap that carries GSO aggregates (tun(4), IFF_VNET_HDR)."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_FLAGS))
        fcntl.ioctl(device, _TUNSETPERSIST, 1)
    finally:
        os.close(device)


def limited(hosts: Sequence[HostPlan]) -> dict[str, Any]:
    """The names of the hosts with shaped uplinks; empty if all are shaped, or none."""
    names = [each.name for each in hosts if each.uplink.rate_bps or each.uplink.by_netem]
    return {"limited_hosts": names} if 0 < len(names) < len(hosts) else {}


def set_up_uplink(host: HostPlan, others: Sequence[HostPlan]) -> dict[str, Any]:
    """Sets up the uplink of the host whose network namespace is the present one; returns its shaping."""
    index = socket.if_nametoindex(UPLINK)
    requests = [rtnetlink.address(index, host.address, host.prefix), rtnetlink.up(index)]
    rtnetlink.ask(*requests, rtnetlink.up(rtnetlink.LOOPBACK))
    neighbours.set_static(UPLINK, {each.address: mac_of(each.address) for each in others})
    disturbed = _netem(host.uplink) if host.uplink.by_netem else {}
    if not host.uplink.rate_bps:
        return disturbed
    within = _WITHIN_NETEM if disturbed else None
    return {**disturbed, "tbf": shaping.limit_rate(UPLINK, host.uplink.rate_bps, within, paced=host.uplink.paced)}


def _netem(uplink: Uplink, name: str = UPLINK) -> dict[str, Any]:
    """Delays and loses packets that leave by that link of the present namespace."""
    options = {
        "loss": uplink.loss * 100,
        "delay": round(uplink.delay_s * 1e6),
        "jitter": round(uplink.jitter_s * 1e6),
        "limit": _DELAYED_PACKETS,
    }
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as ipr:
        try:
            ipr.tc("add", "netem", socket.if_nametoindex(name), handle=0x10000, **options)
        except NetlinkError as error:
            if error.code == errno.ENOENT:
                raise Unavailable(str(NO_NETEM)) from None
            raise TestbedError(f"link {name} could not be delayed: {error}") from error
    loss = {"loss": uplink.loss} if uplink.loss else {}
    return {
        "netem": {"delay_s": uplink.delay_s, "jitter_s": uplink.jitter_s, "limit_packets": _DELAYED_PACKETS, **loss}
    }


def missing(uplink: Uplink) -> list[MissingRequirement]:
    """The missing requirements of such uplinks: probed on the present namespace's loopback, which stays shaped."""
    requirements = []
    try:
        if uplink.by_netem:
            _netem(uplink, "lo")
    except Unavailable:
        requirements.append(NO_NETEM)
    try:
        if uplink.rate_bps:
            shaping.limit_rate("lo", uplink.rate_bps, _WITHIN_NETEM if uplink.by_netem and not requirements else None)
    except Unavailable:
        requirements.append(shaping.NO_FILTER)
    return requirements
