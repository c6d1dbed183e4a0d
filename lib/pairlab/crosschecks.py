"""The same thing by two sources: what the tools report against what the kernel's counters say, and who met whom.

Pure functions; each gives one of verdict.CHECKS, None where a source is missing.
"""

from collections.abc import Collection, Mapping, Sequence

from pairlab.flows import Reading
from pairlab.testbed.barrier import LinkCounts

#: Of a packet: headers of IPv4 and TCP, 12 bytes of TCP's timestamps (RFC 7323) where on, and Ethernet's header, which
#: all links count but the loopback (drivers/net/loopback.c takes it off first).
HEADER_BYTES, TIMESTAMP_BYTES, ETHERNET_BYTES = 40, 12, 14
LOOPBACK = "lo"
#: What a tool sends beside its payload: an iperf3 control connection, options, the packets of opening and closing.
ASIDE_BYTES = 64 * 1024
#: Segments that may be sent again beside the flows; and by each of them after the tool's last look at it, those of one
#: packet of 64 KiB, which the kernel hands over at once.
ASIDE_SEGMENTS, ASIDE_SEGMENTS_PER_FLOW = 10, 45


def header_bytes(network: Mapping[str, object]) -> int:
    """What the link counts of each TCP packet beside its payload, by the facts of that network."""
    timestamps = TIMESTAMP_BYTES if str(network.get("tcp_timestamps", "1")) != "0" else 0
    return HEADER_BYTES + timestamps + (0 if network.get("link") == LOOPBACK else ETHERNET_BYTES)


def sent_again_bytes(
    reading: Reading, network: Mapping[str, object], in_shared_namespace: Sequence[int | None] = ()
) -> float:
    """Payload of all segments that were retransmitted, at full size, of the pairs whose bytes are compared.

    Of a pair, its namespace's count, which is of all its flows; where there is none, the tool's. in_shared_namespace:
    where all endpoints are in one, what was counted in it until each server's end, of which the last has seen all.
    """
    if shared := [count for count in in_shared_namespace if count is not None]:
        return max(shared) * float(network.get("mtu_bytes") or 0)
    by_kernel = [(row["pair"], row.get("netns_retransmits")) for row in reading.flows]
    counted = {**reading.retransmits, **{pair: count for pair, count in by_kernel if count is not None}}
    segments = sum(counted.get(pair, 0) for pair in reading.received_bytes)
    return segments * float(network.get("mtu_bytes") or 0)


def overlap(reading: Reading) -> float | None:
    """The share of the time from the first begin to the last end in which all flows that did their work were active."""
    spans = reading.spans
    if not spans:
        return None
    first, last = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    together_s = min(ended for _, ended in spans) - max(begun for begun, _ in spans)
    return max(0.0, together_s) / (last - first) if last > first else None


def over_early(reading: Reading, last_start_s: float) -> float | None:
    """The share of flows with an end that were over before the last client had started."""
    ended = [row["completed_s"] for row in reading.flows if row.get("completed_s") is not None]
    return sum(moment < last_start_s for moment in ended) / len(ended) if ended else None


def interface_bytes(
    reading: Reading, servers: Sequence[LinkCounts | None], header: int, shared: bool, again_bytes: float
) -> float | None:
    """Payload that the servers' links received over what the tool says was received, less 1; of TCP.

    servers: the counts of each pair's server; empty where they prove nothing. shared: they are all of one link, and
    each counted until that server's end, so that only the one which ended last has seen everybody's traffic.
    again_bytes: payload that was sent again, and may have arrived twice, which no tool counts. Pairs with a flow that
    failed are left out, as nobody knows how far it came; where all share one link, all must have done their work.
    """
    by_pair = reading.received_bytes
    if not servers:
        return None
    if shared:
        if None in servers or len(by_pair) < len(servers):
            return None
        carried = max(_payload(link, header) for link in servers)
        return _beyond_told(reading, carried, by_pair.values(), again_bytes)
    counted = [(servers[pair], told) for pair, told in by_pair.items()]
    if not counted or any(link is None for link, _ in counted):
        return None
    carried = sum(_payload(link, header) for link, _ in counted)
    return _beyond_told(reading, carried, by_pair.values(), again_bytes)


def port_bytes(
    reading: Reading,
    pairs: int,
    before: tuple[int, int] | None,
    after: tuple[int, int] | None,
    header: int,
    again_bytes: float,
) -> float | None:
    """Payload that went out at the network's ports over what the tool says was received, less 1; of TCP alone.

    before, after: bytes and packets by then (Site.port_counts). again_bytes: as for interface_bytes, and what was still
    queued when the servers were ended. A port that was gone at the second look makes no sense of it, and a flow that
    failed neither.
    """
    by_pair = reading.received_bytes
    if before is None or after is None or after < before or len(by_pair) < pairs:
        return None
    carried = (after[0] - before[0]) - header * (after[1] - before[1])
    return _beyond_told(reading, carried, by_pair.values(), again_bytes)


def retransmits(reading: Reading, counted: Mapping[int, int | None]) -> float | None:
    """Segments retransmitted by the tools' count over the kernel's, less 1.

    counted: by pair, what the client's namespace counted. Only pairs of which both tell are compared.
    """
    both = [(told, counted[pair]) for pair, told in reading.retransmits.items() if counted.get(pair) is not None]
    if not both:
        return None
    kernel = sum(kernel for _, kernel in both)
    aside = ASIDE_SEGMENTS + ASIDE_SEGMENTS_PER_FLOW * len(reading.spans) + reading.late_share * kernel
    return _excess(sum(told for told, _ in both), kernel, aside)


def _beyond_told(reading: Reading, carried_bytes: float, by_pair: Collection[float], again_bytes: float) -> float:
    """Payload that was carried over what was told of these pairs, less 1."""
    told = sum(by_pair)
    return _excess(carried_bytes, told, ASIDE_BYTES * len(by_pair), again_bytes + reading.late_share * told)


def _payload(link: LinkCounts, header: int) -> int:
    return link.rx_bytes - header * link.rx_packets


def _excess(one: float, other: float, aside: float, more: float = 0.0) -> float:
    """one / other - 1; 0 where they are no further apart than what may go beside them, or one has more of, besides.

    To be more than nothing is to be more than a byte or a segment: a number, which a record can hold.
    """
    if -aside <= one - other <= aside + more:
        return 0.0
    return one / max(other, 1.0) - 1
