"""What the kernel refused for want of room makes a run invalid, and says what to raise."""

from pathlib import Path

import pytest

from pairlab import Spec, measure
from pairlab.testbed.netns.backend import NetnsSite
from tests.conftest import need

#: How many connections a network namespace tracks at most; the first one's holds for all (nf_conntrack-sysctl).
MOST = Path("/proc/sys/net/netfilter/nf_conntrack_max")
ANY_MACHINE = {"max_skew_s": 5.0, "max_foreign_cpu": 1.0}


def test_what_was_refused_meanwhile_makes_a_run_invalid_and_what_was_before_does_not(runs_dir, monkeypatch):
    need("netns")
    counts = iter([1000, 1007, 1007, 1007])
    monkeypatch.setattr(NetnsSite, "refused_connections", lambda self: next(counts))
    spec = Spec(workload="flowgen", pairs=1, duration_s=0.5, **ANY_MACHINE)
    refused, fine = (measure(spec.replace(repetition=number)) for number in (0, 1))
    (told,) = [reason for reason in refused.reasons if "for want of room" in reason]
    assert told.startswith("the kernel refused 7 packets for want of room in its tables of connections or neighbours: ")
    assert (refused.status, refused.checks["refused"]) == ("invalid", 7)
    assert refused.facts["counters"]["refused_connections"] == 7
    assert fine.checks["refused"] == 0
    assert not any("for want of room" in reason for reason in fine.reasons)


@pytest.mark.whole
def test_connections_for_which_the_kernel_has_no_room_make_the_run_invalid(runs_dir, clean_host):
    """A connection for each request, through a host that translates their addresses."""
    need("netns", "nat")
    if not MOST.exists():
        pytest.skip("this kernel tracks no connections: sudo modprobe nf_conntrack")
    most = MOST.read_text()
    try:
        MOST.write_text("200")
    except OSError as error:
        pytest.skip(f"{MOST} can be set by root in the first network namespace only: {error.strerror}")
    try:
        asked = {"driver": "nat", "hosts": 2, "placement": "across", "pairs": 2, "connect_per_request": True}
        run = measure(Spec(workload="rr", duration_s=2.0, **asked, **ANY_MACHINE))
    finally:
        MOST.write_text(most)
    assert run.status == "invalid"
    assert run.checks["refused"] > 0
    assert any("raise net.netfilter.nf_conntrack_max" in reason for reason in run.reasons), run.reasons
