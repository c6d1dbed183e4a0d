"""The packets of endpoints, captured while real traffic flows."""

from pairlab import Spec, store
from pairlab.testbed.capture import SNAP_BYTES
from tests.conftest import need_all_of
from tests.support import pcap
from tests.support.attempts import sound_run

FLOW_BYTES = 1_000_000


def test_the_packets_of_a_flow_are_captured_at_both_of_its_ends_and_stored(runs_dir, clean_host):
    spec = Spec(workload="flowgen", pairs=2, flow_bytes=FLOW_BYTES, duration_s=10.0, max_skew_s=5, max_foreign_cpu=1)
    spec = spec.replace(capture="client-1,server-1", link_rate_bps=2e7)  # so slow that the flows overlap on any machine
    need_all_of(spec)
    run = store.read(sound_run(spec).path)
    assert sorted(name for name in run.raw if name.endswith(".pcap")) == ["client-1.pcap", "server-1.pcap"]
    for end in ("client-1", "server-1"):
        told, packets = run.facts["capture"][end], pcap.records(run.raw[f"{end}.pcap"])
        assert (told["packets"], told["missed"], told["full"]) == (len(packets), 0, False)
        assert max(len(kept) for kept, _ in packets) <= SNAP_BYTES
        assert len(pcap.by_tcp(packets)) == 1  # those of the other pair are not on this link
        assert FLOW_BYTES < pcap.most_sent_bytes(packets) < 1.1 * FLOW_BYTES
        assert told["cpus_used"] > 0
