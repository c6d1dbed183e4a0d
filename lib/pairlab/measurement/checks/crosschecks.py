"""Cross-checks: the tools' results against the kernel's counters, and whether flows were active at the same time.

Pure functions; each returns the value of one of verdict.CHECKS, None where a source is missing.
"""

from collections.abc import Collection, Mapping, Sequence

from pairlab.measurement.reading import Reading
from pairlab.model.spec import Spec
from pairlab.testbed.launch.conductor import LinkCounts, Process

#: Headers of a packet: IPv4 and TCP, TCP timestamps (RFC 7323) where they are on, and Ethernet, which all links count
#: except the loopback (drivers/net/loopback.c removes it first).
HEADER_BYTES, TIMESTAMP_BYTES, ETHERNET_BYTES = 40, 12, 14
LOOPBACK = "lo"
#: Of a datagram's packet, IPv4 and UDP.
DATAGRAM_HEADER_BYTES = 28
#: What a tool sends besides its payload: iperf3's control connection, options, opening and closing packets.
OVERHEAD_BYTES = 64 * 1024
#: Segments that may be retransmitted outside the flows, and by each flow after the tool's last reading: those of one
#: 64 KiB packet, which the kernel passes on as a whole.
OVERHEAD_SEGMENTS, OVERHEAD_SEGMENTS_PER_FLOW = 10, 45


def header_bytes(network: Mapping[str, object]) -> int:
    """The bytes of each TCP packet that the link counts besides the payload, by the facts of that network."""
    timestamps = TIMESTAMP_BYTES if str(network.get("tcp_timestamps", "1")) != "0" else 0
    return HEADER_BYTES + timestamps + (0 if network.get("link") == LOOPBACK else ETHERNET_BYTES)


def sent_again_bytes(
    reading: Reading, network: Mapping[str, object], in_shared_namespace: Sequence[int | None] = ()
) -> float:
    """Payload of all retransmitted segments, at full size, of the pairs whose bytes are compared.

    The count is of the senders' namespaces, else the tool's. in_shared_namespace: if all endpoints share one, its
    count at each server's end, of which the largest includes everything.
    """
    if shared := [count for count in in_shared_namespace if count is not None]:
        return max(shared) * float(network.get("mtu_bytes") or 0)
    by_kernel: dict[int, float] = {}
    for row in reading.flows:
        if (count := row.get("netns_retransmits")) is not None:
            by_kernel[row["pair"]] = by_kernel.get(row["pair"], 0) + count
    counted = {**reading.retransmits, **by_kernel}
    segments = sum(counted.get(pair, 0) for pair in reading.received_bytes)
    return segments * float(network.get("mtu_bytes") or 0)


def overlap(reading: Reading) -> float | None:
    """The share of the time, from the first start to the last end, in which all successful flows were active."""
    spans = reading.spans
    if not spans:
        return None
    first, last = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    together_s = min(ended for _, ended in spans) - max(begun for begun, _ in spans)
    return max(0.0, together_s) / (last - first) if last > first else None


def connect_s(reading: Reading) -> float | None:
    """The longest time from when a flow was due until it was connected, of those that were."""
    dues_s = [flow.get("intended_start_s", 0.0) for flow in reading.flows if flow["status"] == "ok"]
    waits_s = (begun_s - due_s for (begun_s, _), due_s in zip(reading.spans, dues_s, strict=False))
    return max(waits_s, default=None)


def active_share(spec: Spec, reading: Reading, clients: Sequence[Process]) -> float | None:
    """The mean share of flows that were active in the time that was asked; of one that failed, until its client's end.

    None for flows of a fixed size, which end when they are complete.
    """
    if spec.flows_end:
        return None
    failed = [clients[row["pair"]] for row in reading.flows if row["status"] != "ok"]
    lasted_s = [ended_s - begun_s for begun_s, ended_s in reading.spans]
    lasted_s += [(each.end_ns - each.start_ns) / 1e9 for each in failed if each.end_ns and each.start_ns]
    return sum(min(each_s, spec.total_s) for each_s in lasted_s) / (len(reading.flows) * spec.total_s)


def over_early(reading: Reading, last_start_s: float) -> float | None:
    """The share of flows of a fixed size that completed before the last client started."""
    ended = [row["completed_s"] for row in reading.flows if row.get("completed_s") is not None]
    return sum(moment < last_start_s for moment in ended) / len(ended) if ended else None


def interface_bytes(
    reading: Reading,
    servers: Sequence[LinkCounts | None],
    header: int,
    shared: bool,
    again_bytes: float,
    hosts: Sequence[int] = (),
    answered: Collection[int] = (),
) -> float | None:
    """TCP payload received on the servers' links, relative to what the tool reports, minus 1.

    servers: the link counts of each pair's server; empty where they cannot be compared. shared: all of a host are
    counts of one link, each read at that server's end, so that the last one includes all traffic. hosts: that of each
    server; empty: all are on one. again_bytes: retransmitted payload, which may have arrived twice; tools do not count
    it. answered: the pairs whose clients receive on these links too, so that they carry what servers send back. Pairs
    with a failed flow are left out, as its bytes are unknown; on a shared link, all flows must have succeeded.
    """
    by_pair = reading.received_bytes
    if not servers:
        return None
    if shared:
        if None in servers or len(by_pair) < len(servers):
            return None
        by_host: dict[int, int] = {}
        for host, link in zip(hosts or [0] * len(servers), servers, strict=True):
            by_host[host] = max(by_host.get(host, 0), _payload(link, header))
        carried = sum(by_host.values())
        return _beyond_reported(reading, carried, _reported(reading, answered), again_bytes)
    links = [servers[pair] for pair in by_pair]
    if not links or None in links:
        return None
    carried = sum(_payload(link, header) for link in links)
    return _beyond_reported(reading, carried, _reported(reading, answered), again_bytes)


def datagram_bytes(
    reading: Reading, servers: Sequence[LinkCounts | None], network: Mapping[str, object]
) -> float | None:
    """UDP payload received on the servers' links, relative to what tool and kernel account for, minus 1.

    Accounted for are the datagrams that the tool received and those that the kernel dropped at its socket. None where
    datagrams are larger than a packet: then fragments can be lost, and the rest of their datagram arrives for nothing.
    """
    links = [servers[pair] for pair in reading.datagrams if servers]
    if not links or None in links:
        return None
    datagrams, payload_bytes = sum(reading.datagrams.values()), sum(reading.datagram_bytes.values())
    if datagrams and payload_bytes / datagrams + DATAGRAM_HEADER_BYTES > float(network.get("mtu_bytes") or 0):
        return None
    header = DATAGRAM_HEADER_BYTES + (0 if network.get("link") == LOOPBACK else ETHERNET_BYTES)
    carried_bytes = sum(_payload(link, header) for link in links)
    return _excess(carried_bytes, payload_bytes, OVERHEAD_BYTES * len(links))


def port_bytes(
    reading: Reading,
    pairs: int,
    before: tuple[int, int] | None,
    after: tuple[int, int] | None,
    header: int,
    again_bytes: float,
) -> float | None:
    """TCP payload sent at the network's ports, relative to what the tool reports as received at both ends, minus 1.

    before, after: bytes and packets at these times (Site.port_counts). again_bytes: as for interface_bytes, plus what
    was queued when the servers were stopped. None if a port vanished in between, or a flow failed.
    """
    by_pair = reading.received_bytes
    if before is None or after is None or after < before or len(by_pair) < pairs:
        return None
    carried = (after[0] - before[0]) - header * (after[1] - before[1])
    return _beyond_reported(reading, carried, _reported(reading, by_pair), again_bytes)


def retransmits(reading: Reading) -> float | None:
    """Retransmitted segments by the tools' count, relative to the kernel's, minus 1.

    Only pairs that have both counts are compared. The kernel's is known within what it counted just before and just
    after the tool's: there is no difference if the tool's is in between.
    """
    counted = reading.netns_retransmits
    both = [(by_tool, counted[pair]) for pair, by_tool in reading.retransmits.items() if counted.get(pair) is not None]
    if not both:
        return None
    by_tool = sum(count for count, _ in both)
    least, most = sum(least for _, (least, _) in both), sum(most for _, (_, most) in both)
    kernel = min(max(by_tool, least), most)
    overhead = OVERHEAD_SEGMENTS + OVERHEAD_SEGMENTS_PER_FLOW * len(reading.spans) + reading.late_share * kernel
    return _excess(by_tool, kernel, overhead)


def _reported(reading: Reading, answered: Collection[int]) -> list[float]:
    """What the tool reports of each pair: received by its server, and of those answered by its client too."""
    back = {pair: each for pair, each in reading.answered_bytes.items() if pair in answered}
    return [received + back.get(pair, 0.0) for pair, received in reading.received_bytes.items()]


def _beyond_reported(reading: Reading, carried_bytes: float, by_pair: Collection[float], again_bytes: float) -> float:
    """Carried payload relative to what the tool reports of these pairs, minus 1."""
    reported = sum(by_pair)
    most_more = again_bytes + reading.late_share * reported
    return _excess(carried_bytes, reported, OVERHEAD_BYTES * len(by_pair), most_more)


def _payload(link: LinkCounts, header: int) -> int:
    return link.rx_bytes - header * link.rx_packets


def _excess(one: float, other: float, overhead: float, more: float = 0.0) -> float:
    """one / other - 1; 0 where they differ by no more than the overhead, or `one` is larger by up to `more` besides.

    The divisor is at least 1, so that the result is a finite number.
    """
    if -overhead <= one - other <= overhead + more:
        return 0.0
    return one / max(other, 1.0) - 1
