"""Cross-checks: the tools' results against the kernel's counters, and whether flows were active at the same time.

Pure functions; each returns the value of one of checks.CHECKS, None where a source is missing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.model.spec import Spec
from pairlab.testbed.process_launcher import LinkCounts, Process

#: Headers of a packet: IP by version, TCP or UDP, TCP timestamps (RFC 7323) where they are on, and Ethernet, which all
#: links count except the loopback (drivers/net/loopback.c removes it first).
IP_BYTES: Mapping[int, int] = {4: 20, 6: 40}
TCP_BYTES, UDP_BYTES, TIMESTAMP_BYTES, ETHERNET_BYTES = 20, 8, 12, 14
LOOPBACK = "lo"
#: Bytes that a tool sends besides its payload: iperf3's control connection, options, opening and closing packets.
OVERHEAD_BYTES = 64 * 1024
#: Segments that may be retransmitted outside the flows, and by each flow after the tool's last count: one
#: 64 KiB packet of them, which the kernel passes on as a whole.
OVERHEAD_SEGMENTS, OVERHEAD_SEGMENTS_PER_FLOW = 10, 45


def header_bytes(network: Mapping[str, Any], ip_version: int = 4) -> int:
    """The bytes of each TCP packet that the link counts besides the payload, by the facts of that network."""
    timestamps = TIMESTAMP_BYTES if str(network.get("tcp_timestamps", "1")) != "0" else 0
    return IP_BYTES[ip_version] + TCP_BYTES + timestamps + _ethernet_bytes(network)


def _ethernet_bytes(network: Mapping[str, Any]) -> int:
    return 0 if network.get("link") == LOOPBACK else ETHERNET_BYTES


def sent_again_bytes(
    parsed: ParsedFlows, network: Mapping[str, Any], in_shared_namespace: Sequence[int | None] = ()
) -> float:
    """Payload of all retransmitted segments, at full size, of the pairs whose bytes are compared.

    The count is of the senders' namespaces, else the tool's. in_shared_namespace: if all endpoints share one, its
    count at each server's end, of which the largest includes everything.
    """
    if shared := [count for count in in_shared_namespace if count is not None]:
        return max(shared) * float(network.get("mtu_bytes") or 0)
    by_kernel: dict[int, float] = {}
    for row in parsed.flows:
        if (count := row.get("netns_retransmits")) is not None:
            by_kernel[row["pair"]] = by_kernel.get(row["pair"], 0) + count
    counted = {**parsed.retransmits, **by_kernel}
    segments = sum(counted.get(pair, 0) for pair in parsed.received_bytes)
    return segments * float(network.get("mtu_bytes") or 0)


def overlap(parsed: ParsedFlows) -> float | None:
    """The share of the time, from the first start to the last end, in which all successful flows were active."""
    spans = parsed.spans
    if not spans:
        return None
    first, last = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    together_s = min(ended for _, ended in spans) - max(begun for begun, _ in spans)
    return max(0.0, together_s) / (last - first) if last > first else None


def connect_s(parsed: ParsedFlows) -> float | None:
    """The longest time from the due time of a successful flow to its connection."""
    dues_s = [flow.get("intended_start_s", 0.0) for flow in parsed.flows if flow["status"] == "ok"]
    waits_s = (begun_s - due_s for (begun_s, _), due_s in zip(parsed.spans, dues_s, strict=False))
    return max(waits_s, default=None)


def active_share(spec: Spec, parsed: ParsedFlows, clients: Sequence[Process]) -> float | None:
    """The mean share of active flows in the requested time; failed flows count until their client's end.

    None for flows of a fixed size, which end when they are complete.
    """
    if spec.flows_end:
        return None
    failed = [clients[row["pair"]] for row in parsed.flows if row["status"] != "ok"]
    lasted_s = [ended_s - begun_s for begun_s, ended_s in parsed.spans]
    lasted_s += [each.lasted_s for each in failed if each.lasted_s is not None]
    return sum(min(each_s, spec.total_s) for each_s in lasted_s) / (len(parsed.flows) * spec.total_s)


def over_early(parsed: ParsedFlows, last_start_s: float) -> float | None:
    """The share of flows of a fixed size that completed before the last client started."""
    ended = [row["completed_s"] for row in parsed.flows if row.get("completed_s") is not None]
    return sum(moment < last_start_s for moment in ended) / len(ended) if ended else None


def interface_bytes(
    parsed: ParsedFlows,
    servers: Sequence[LinkCounts | None],
    header: int,
    shared: bool,
    again_bytes: float,
    hosts: Sequence[int] = (),
    answered: Collection[int] = (),
) -> float | None:
    """TCP payload received on the servers' links, relative to what the tool reports, minus 1.

    servers: the link counts of each pair's server; empty: not comparable. shared: all counts of a host are
    of one link, each read at that server's end, so that the last one includes all traffic. hosts: the host of each
    server; empty: all are on one. again_bytes: retransmitted payload, which may have arrived twice; tools do not count
    it. answered: the pairs whose clients receive on these links, too, so that the servers' answers count. Pairs
    with a failed flow are left out, as its bytes are unknown; on a shared link, all flows must have succeeded.
    """
    compared = servers if shared or not servers else [servers[pair] for pair in parsed.received_bytes]
    payloads = [_payload(link, header) for link in compared if link is not None]
    complete = len(payloads) == len(compared) and (not shared or len(parsed.received_bytes) >= len(servers))
    if not payloads or not complete:
        return None
    carried = sum_of_hosts(hosts or [0] * len(payloads), payloads) if shared else sum(payloads)
    return _beyond_reported(parsed, carried, answered, again_bytes)


def datagram_bytes(
    parsed: ParsedFlows, servers: Sequence[LinkCounts | None], network: Mapping[str, Any], ip_version: int = 4
) -> float | None:
    """UDP payload received on the servers' links, relative to what tool and kernel account for, minus 1.

    Accounted for are the datagrams that the tool received and those that the kernel dropped at its socket. None where
    datagrams are larger than a packet: a lost fragment makes the others of its datagram useless.
    """
    links = [link for pair in parsed.datagrams if servers and (link := servers[pair])]
    if not links or len(links) < len(parsed.datagrams):
        return None
    datagrams, payload_bytes = sum(parsed.datagrams.values()), sum(parsed.datagram_bytes.values())
    header = IP_BYTES[ip_version] + UDP_BYTES
    if datagrams and payload_bytes / datagrams + header > float(network.get("mtu_bytes") or 0):
        return None
    carried_bytes = sum(_payload(link, header + _ethernet_bytes(network)) for link in links)
    return _excess(carried_bytes, payload_bytes, OVERHEAD_BYTES * len(links))


def port_bytes(
    parsed: ParsedFlows,
    pairs: int,
    before: tuple[int, int] | None,
    after: tuple[int, int] | None,
    header: int,
    again_bytes: float,
) -> float | None:
    """TCP payload sent at the network's ports, relative to what the tool reports as received at both ends, minus 1.

    before, after: bytes and packets at these times (Site.port_counts). again_bytes: as for interface_bytes, plus bytes
    queued when the servers were stopped. None if a port vanished in between, or a flow failed.
    """
    if before is None or after is None or after < before or len(parsed.received_bytes) < pairs:
        return None
    carried = (after[0] - before[0]) - header * (after[1] - before[1])
    return _beyond_reported(parsed, carried, parsed.received_bytes, again_bytes)


def retransmits(parsed: ParsedFlows) -> float | None:
    """Retransmitted segments by the tools' count, relative to the kernel's, minus 1.

    Only pairs with both counts are compared. The kernel's count lies between its values just before and just
    after the tool's count: there is no difference if the tool's count is in between.
    """
    by_kernel = parsed.netns_retransmits
    both = [(by_tool, of) for pair, by_tool in parsed.retransmits.items() if (of := by_kernel.get(pair)) is not None]
    if not both:
        return None
    by_tool = sum(count for count, _ in both)
    least, most = sum(least for _, (least, _) in both), sum(most for _, (_, most) in both)
    kernel = min(max(by_tool, least), most)
    overhead = OVERHEAD_SEGMENTS + OVERHEAD_SEGMENTS_PER_FLOW * len(parsed.spans) + parsed.late_share * kernel
    return _excess(by_tool, kernel, overhead)


def _beyond_reported(parsed: ParsedFlows, carried_bytes: float, answered: Collection[int], again_bytes: float) -> float:
    """Carried payload relative to the tool's count at servers, and at clients of answered pairs, minus 1."""
    back = sum(each for pair, each in parsed.answered_bytes.items() if pair in answered)
    reported = sum(parsed.received_bytes.values()) + back
    most_more = again_bytes + parsed.late_share * reported
    return _excess(carried_bytes, reported, OVERHEAD_BYTES * len(parsed.received_bytes), most_more)


def sum_of_hosts(hosts: Iterable[int], counts: Iterable[int]) -> int:
    """Sum of shared counts over hosts: the largest count of each host includes the others."""
    by_host: dict[int, int] = {}
    for host, count in zip(hosts, counts, strict=True):
        by_host[host] = max(by_host.get(host, 0), count)
    return sum(by_host.values())


def _payload(link: LinkCounts, header: int) -> int:
    return link.rx_bytes - header * link.rx_packets


def _excess(one: float, other: float, overhead: float, more: float = 0.0) -> float:
    """one / other - 1; 0 where they differ by no more than the overhead, or `one` is larger by up to `more` besides.

    The divisor is at least 1, so that the result is a finite number.
    """
    if -overhead <= one - other <= overhead + more:
        return 0.0
    return one / max(other, 1.0) - 1
