"""The packets of endpoints, captured while real traffic flows."""

import struct

from pairlab import Spec, store
from pairlab.testbed.capture import SNAP_BYTES
from tests.conftest import need_all_of
from tests.support.attempts import sound_run

FLOW_BYTES = 1_000_000


def records(content):
    """Of each packet in a pcap file, what was kept of it and how long it was (pcap-savefile(5))."""
    assert content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
    found, at = [], 24
    while at < len(content):
        kept, length = struct.unpack_from("<II", content, at + 8)
        found.append((content[at + 16 : at + 16 + kept], length))
        at += 16 + kept
    return found


def is_tcp(frame):
    return frame[12:14] == b"\x08\x00" and frame[23] == 6


def test_the_packets_of_a_flow_are_captured_at_both_of_its_ends_and_stored(runs_dir, clean_host):
    spec = Spec(workload="flowgen", pairs=2, flow_bytes=FLOW_BYTES, duration_s=10.0, max_skew_s=5, max_foreign_cpu=1)
    spec = spec.replace(capture="client-1,server-1", link_rate_bps=2e7)  # so slow that the flows overlap on any machine
    need_all_of(spec)
    run = store.read(sound_run(spec).path)
    assert sorted(name for name in run.raw if name.endswith(".pcap")) == ["client-1.pcap", "server-1.pcap"]
    for end in ("client-1", "server-1"):
        told, packets = run.facts["capture"][end], records(run.raw[f"{end}.pcap"])
        assert (told["packets"], told["missed"], told["full"]) == (len(packets), 0, False)
        assert max(len(kept) for kept, _ in packets) <= SNAP_BYTES
        by_tcp = [(kept[26:30], kept[30:34], length) for kept, length in packets if is_tcp(kept)]
        assert len({frozenset(ends) for *ends, _ in by_tcp}) == 1  # those of the other pair are not on this link
        sent_bytes = max(sum(length for source, _, length in by_tcp if source == each) for each, *_ in by_tcp)
        assert FLOW_BYTES < sent_bytes < 1.1 * FLOW_BYTES
        assert told["cpus_used"] > 0
