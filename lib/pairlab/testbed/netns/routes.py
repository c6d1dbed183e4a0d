"""A congestion control on routes (ip-route(8), congctl): in force for all TCP connections over them, with any tool.

The kernel takes it from the route when a connection is made, at either end. It is locked, so that no program can
choose another. So a tool needs no option for it, nor the capability that the choice may require (tcp(7)).

This module imports nothing heavy, as the process inside a sandbox uses it.
"""

import socket
from collections.abc import Iterable, Sequence
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.links.namespaces import inside

#: Tables of routes (rtnetlink(7)): to other hosts, and to this one, where both ends are on one loopback.
MAIN, LOCAL = 254, 255
#: Kinds of route that can carry traffic: RTN_UNICAST and RTN_LOCAL.
CARRYING = (1, 2)
#: A route's attributes that a change must repeat.
KEPT = ("RTA_DST", "RTA_OIF", "RTA_GATEWAY", "RTA_PREFSRC", "RTA_PRIORITY")
#: In RTAX_LOCK, the bit of RTAX_CC_ALGO.
LOCK = 1 << 16


def tables_of(driver: type[NetworkDriver] | NetworkDriver) -> Sequence[int]:
    """The tables of the routes by which endpoints reach each other on that driver's network."""
    if driver.pair_shares_namespace:
        return [LOCAL]
    return [MAIN] if driver.isolated else [MAIN, LOCAL]


def set_in(namespaces: Iterable[int], name: str, tables: Sequence[int], ip_version: int = 4) -> str:
    """Sets the congestion control on routes of these network namespaces (descriptors); returns the one in force.

    Raises TestbedError where the kernel refuses. Must not run in an event loop.
    """
    for namespace in namespaces:
        with inside(namespace):
            for table in tables:
                set_here(name, table, ip_version)
    return name


def set_here(name: str, table: int = MAIN, ip_version: int = 4) -> str:
    """The same for one table of the present namespace, which must have routes."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as ipr:
        try:
            for route in _routes(ipr, table, ip_version):
                same = {field: route[field] for field in ("family", "dst_len", "tos", "proto", "scope", "type")}
                same |= {key.removeprefix("RTA_").lower(): route.get_attr(key) for key in KEPT if route.get_attr(key)}
                ipr.route("change", table=table, metrics={"cc_algo": name, "lock": LOCK}, **same)
        except NetlinkError as error:
            raise TestbedError(f"the kernel refuses the congestion control {name!r} for a route: {error}") from error
        in_force = {_congestion_control(route) for route in _routes(ipr, table, ip_version)}
    if in_force != {name}:
        raise TestbedError(f"the congestion control of routes is {sorted(in_force) or 'of none'}, not {name!r}")
    return name


def _routes(ipr: Any, table: int, ip_version: int) -> list[Any]:
    every = ipr.get_routes(family=socket.AF_INET6 if ip_version == 6 else socket.AF_INET)
    return [each for each in every if each.get_attr("RTA_TABLE") == table and each["type"] in CARRYING]


def _congestion_control(route: Any) -> str:
    metrics = route.get_attr("RTA_METRICS")
    return (metrics and metrics.get_attr("RTAX_CC_ALGO")) or ""
