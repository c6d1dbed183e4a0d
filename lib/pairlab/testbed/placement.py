"""The hosts and addresses of endpoints."""

import ipaddress
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import OF_HOSTS, PREFIX_OF_HOST, WORKER, EndpointPlan, HostPlan, Limits, Link, Uplink
from pairlab.testbed.netns import shaping

#: The endpoints' network, if all hosts share one; and the network of the hosts' uplinks.
SUBNET, UNDERLAY = ipaddress.IPv4Network("10.77.0.0/16"), ipaddress.IPv4Network("10.76.0.0/24")

#: The address of endpoints that share the only host's network stack.
LOOPBACK = "127.0.0.1"

#: The default MTU of uplinks: Ethernet's.
USUAL_MTU_BYTES = 1500
#: The largest MTU of a spec: the longest IPv4 packet.
MOST_MTU_BYTES = 65535


def placement(spec: Spec) -> list[tuple[int, int]]:
    """The host indexes of each pair's client and server: of the spec's pairs, then of the background's, which are
    placed as if they were alone. Raises BadSpec if a host would have no endpoint.
    """
    hosts, half = spec.hosts, spec.hosts // 2
    place: dict[str, Callable[[int], tuple[int, int]]] = {
        "same-host": lambda pair: (pair % hosts, pair % hosts),
        "across": lambda pair: (pair % half, half + pair % (hosts - half)),
        "one-to-many": lambda pair: (0, 1 + pair % (hosts - 1)),
        "one-to-all": lambda pair: (0, pair % hosts),
        "spread": lambda pair: (2 * pair % hosts, (2 * pair + 1) % hosts),
        "packed-but-one": lambda pair: (min(pair, 1), 1),
    }
    numbers = (*range(spec.pairs + spec.idle_pairs), *range(spec.background_pairs))
    placed = [place[spec.placement](pair) for pair in numbers]
    if empty := hosts - len({host for each in placed for host in each}):
        pairs = f"with {spec.pairs} pair{'s' * (spec.pairs != 1)} placed {spec.placement!r}"
        raise BadSpec(f"hosts: {pairs}, {empty} of {hosts} hosts have no container: take more pairs, or fewer hosts")
    return placed


def most_on_a_host(spec: Spec) -> int:
    """The largest number of endpoints on a host. Raises BadSpec like `placement`."""
    return max(Counter(host for pair in placement(spec) for host in pair).values())


def hosts_of(spec: Spec, driver: type[NetworkDriver], *, paced: bool = False) -> tuple[HostPlan, ...]:
    """The hosts, with uplinks if there are several, and with subnets if the driver routes between them.

    paced: as in Uplink, for the shaped ones.
    """
    shaping.require_rate("uplink_rate_bps", spec.uplink_rate_bps)
    mtu_bytes = spec.uplink_mtu_bytes or USUAL_MTU_BYTES
    limited = Uplink(
        spec.uplink_rate_bps, spec.uplink_delay_s, spec.uplink_jitter_s, mtu_bytes, paced, spec.uplink_loss
    )
    first_limited = spec.hosts - (spec.limited_uplinks or spec.hosts)
    addresses = [str(each) for each in itertools.islice(UNDERLAY.hosts(), spec.hosts)] if spec.hosts > 1 else [""]
    subnets = OF_HOSTS.subnets(new_prefix=PREFIX_OF_HOST) if driver.routed else itertools.repeat("")
    return tuple(
        HostPlan(
            index,
            address,
            UNDERLAY.prefixlen,
            str(subnet),
            limited if index >= first_limited else Uplink(mtu_bytes=mtu_bytes),
        )
        for index, (address, subnet) in enumerate(zip(addresses, subnets, strict=False))
    )


def endpoints_of(
    spec: Spec,
    driver: type[NetworkDriver],
    hosts: Sequence[HostPlan],
    limits: Mapping[str, Limits],
    links: Mapping[str, Link],
    one_client: bool = False,
) -> Iterator[EndpointPlan]:
    """Client and server of each pair, in turn. limits: by endpoint; links: the shaped ones, by side.

    one_client: only the first pair has a client. Raises BadSpec if a host would have no endpoint, if links would have a
    larger MTU than uplinks carry, or if the one client would be on several hosts.
    """
    placed_pairs = placement(spec)
    if one_client and len({client for client, _ in placed_pairs}) > 1:
        raise BadSpec(
            f"placement: {spec.placement!r} puts clients on several hosts, and workload {spec.workload!r} has one: take"
            " 'one-to-all' or 'one-to-many'"
        )
    mtu_bytes = _mtu_bytes(spec, driver)
    free = [_free_addresses(host) for host in hosts] if driver.routed else [SUBNET.hosts()] * len(hosts)
    prefix = PREFIX_OF_HOST if driver.routed else SUBNET.prefixlen
    for pair, placed in enumerate(placed_pairs):
        for side, index in zip(("client", "server"), placed, strict=True):
            if one_client and pair and side == "client":
                continue
            host, limit = hosts[index], limits[f"{side}-{pair}"]
            if pair >= spec.pairs and spec.background_driver:
                address = (host.address, host.prefix)
                yield EndpointPlan(pair, side, *address, limit, host=index, uses_host_network=True)
                continue
            yield EndpointPlan(
                pair,
                side,
                str(next(free[index])) if driver.has_links() else _shared_address(host, driver),
                prefix,
                limit,
                links.get(side, Link()),
                mtu_bytes,
                index,
                host.gateway,
                (host.address or host.gateway) if driver.publishes and side == "server" else "",
                ip_version=spec.ip_version,
            )


def workers_of(spec: Spec, limits: Limits) -> Iterator[EndpointPlan]:
    """The endpoints for CPU load beside the pairs: equally many on each host chosen by the spec."""
    ends = {"client": (0,), "server": (1,), "both": (0, 1)}[spec.interference_where]
    hosts = {placed[end] for placed in placement(spec)[: spec.pairs] for end in ends}
    hosts_of_workers = [host for host in sorted(hosts) for _ in range(spec.interference_workers)]
    return (EndpointPlan(number, WORKER, "", limits=limits, host=host) for number, host in enumerate(hosts_of_workers))


def _shared_address(host: HostPlan, driver: type[NetworkDriver]) -> str:
    """The address of endpoints without links of their own: their host's, or the loopback's."""
    return LOOPBACK if driver.isolated else host.address or LOOPBACK


def _free_addresses(host: HostPlan) -> Iterator[ipaddress.IPv4Address]:
    """The addresses of the host's subnet, except its own."""
    addresses = ipaddress.IPv4Network(host.subnet).hosts()
    next(addresses)
    return iter(addresses)


def _mtu_bytes(spec: Spec, driver: type[NetworkDriver]) -> int:
    """The MTU of endpoints' links: between hosts, the uplinks' less a tunnel's headers; 0: the driver's default."""
    if spec.hosts == 1 or not driver.spans_hosts:
        return spec.mtu_bytes
    uplink_bytes = spec.uplink_mtu_bytes or USUAL_MTU_BYTES
    most = uplink_bytes - driver.overhead_bytes
    if spec.mtu_bytes > most:
        tunnel = f", of which {driver.overhead_bytes} are the tunnel's" if driver.overhead_bytes else ""
        larger = spec.mtu_bytes + driver.overhead_bytes
        more = f"uplink_mtu_bytes {larger}, or " if larger <= MOST_MTU_BYTES else ""
        raise BadSpec(
            f"mtu_bytes: {spec.mtu_bytes} is more than uplinks of {uplink_bytes} B carry{tunnel}: give {more}mtu_bytes"
            f" {most}"
        )
    return spec.mtu_bytes or most
