"""Known truth: over a link of known rate or known loss, every tool reads in every backend what arithmetic says.

The promise, and how it is worked out:

- A link of rate R (a token bucket filter, which counts the IP packet and 14 bytes of Ethernet header) carries R times
  the share of payload: of TCP with timestamps over an MTU of 1500 bytes 1448/1514; of UDP datagrams of 1448 bytes
  1448/1490. sockperf's messages have its own header within them, which it counts, so it reads as TCP.
- The filter's bucket is full at first: a flow without an end gets its burst besides, from the first byte on.
- A flow of known size over it takes (its bytes and headers) / R: on such a link not much more than a frame is at once.
- Segments retransmitted are the same by the tool, by the namespace's RetransSegs and by sock_diag.

A link that is not kept full tells nothing of who reads it. The filter's own counter says how full it was at least: on a
machine too busy to fill it, a test is skipped, and says so. Reading too much fails anywhere.

The first attempt counts. Another is made only where this machine, and not who reads, kept the one before from telling:
its link was not full, datagrams were lost at the server, or other processes took the CPU.
"""

import functools
import itertools
import json
import math
import time
from typing import NamedTuple

import pytest

from pairlab import Spec, measure
from pairlab.measurement import measure as measurement
from pairlab.testbed.host.live_sampler import EVERY_S
from pairlab.testbed.netns.shaping import PEAK, bucket
from tests.conftest import at_once, diagonal, need, need_all_of

BACKENDS = at_once()
RATES = (1e8, 1e9, 5e9)
MSS, TCP_HEADERS, UDP_HEADERS = 1448, 14 + 20 + 32, 14 + 20 + 8
RENO = {"congestion_control": "reno"}  # by default it may be bbr, which leaves gaps
WARM = {"warmup_s": 0.5, "duration_s": 1.5, **RENO}

#: What is asked of each tool, beside the link; of UDP and sockperf no warm-up can be left out. iperf3's server leaves
#: unread what has come while it waited for a CPU to end: 16 ms of that were seen, 1.1 % of 1.5 s, but 0.3 % of 5.5.
READERS = {
    "iperf": {"workload": "iperf", **WARM},
    "iperf3": {"workload": "iperf3", **WARM, "duration_s": 5.5},
    "flowgen-tcp": {"workload": "flowgen", **WARM},
    "flowgen-udp": {"workload": "flowgen", "duration_s": 2.0, "udp_share": 1.0},
    "sockperf": {"workload": "sockperf", "duration_s": 2.0, "message_bytes": 10 * MSS},
}
#: Of the links that a machine which is neither fast nor quiet fills, each is read by some of the tools, and each tool
#: reads one; `make soak` has all of them over all links.
FILLED = (("netns", 1e8), ("docker", 1e9), ("netns", 1e9))
ATTEMPTS = 3
#: netcat tells of no connection, so that its time has its loading in it, connecting, and TCP's slow start.
NETCAT_BEGINS_S = 0.03


class Look(NamedTuple):
    """What the filter had let through, at some moment between these two (CLOCK_MONOTONIC, in ns)."""

    begun_ns: int
    ended_ns: int
    sent_bytes: int


def fullness(looks, rate_bps, *, from_start=False):
    """How full at least a link was from the first look that found it sending to the last; 0: that is not known.

    A lower bound, as it is over the longest time that can have passed between the two counts. from_start: from the
    first look of all, for what is read from its client's start; what the bucket held then is no part of it.
    """
    sending = [now for before, now in itertools.pairwise(looks) if now.sent_bytes - before.sent_bytes > 1e5]
    if len(sending) < 2:
        return 0.0
    first, last = looks[0] if from_start else sending[0], sending[-1]
    sent_bytes = last.sent_bytes - first.sent_bytes - (bucket(rate_bps)["burst_bytes"] if from_start else 0)
    return sent_bytes * 8e9 / (last.ended_ns - first.begun_ns) / rate_bps


class Counter:
    """A `tc` in that endpoint that holds at a gate until it is to look, so that it does so at once."""

    def __init__(self, launcher, endpoint):
        self._launcher = launcher
        self._gate = launcher.gate()
        count = ("tc", "-statistics", "-json", "qdisc", "show", "dev", "eth0")
        (self._process,) = launcher.start([(endpoint, count)], gate=self._gate)
        launcher.wait_ready([self._process], 30.0)

    def look(self):
        self._gate.release()
        self._launcher.wait_ended([self._process], 30.0)
        (seen,) = self._launcher.results([self._process])
        return Look(seen.start_ns, seen.end_ns, next(each["bytes"] for each in json.loads(seen.stdout)))


@pytest.fixture
def filled(monkeypatch):
    """How full at least the first client's link was while the last run sent, by the filter's own count."""
    looks = []
    real = measurement._watch

    def watch(bed, clients, release_ns, progress, *others):
        looks[:] = [Look(release_ns, release_ns, 0)]
        ready = []

        def look(passed_s):
            looks.extend(counter.look() for counter in ready)
            ready[:] = [Counter(bed.launcher, bed.pairs[0].client)]
            progress(passed_s)

        real(bed, clients, release_ns, look, *others)
        if time.monotonic_ns() - looks[-1].begun_ns > EVERY_S / 2 * 1e9:  # it ended just before it was looked at
            looks.append(ready.pop().look())

    monkeypatch.setattr(measurement, "_watch", watch)
    return functools.partial(fullness, looks)


def measured(root, backend, **values):
    """A run on this machine, whatever else it does meanwhile; skips where it cannot be."""
    need(backend, "bridge", values["workload"])
    spec = Spec(backend=backend, max_skew_s=1.0, max_foreign_cpu=1.0, **values)
    need_all_of(spec)
    run = measure(spec, fresh=True, root=root)
    assert list(run.flows["status"]) == ["ok"], list(run.flows["error"])
    return run


def measured_without_excuse(take, excuse, record):
    """What the first attempt read that has no excuse; skips where all have one.

    take: returns the reading, and whatever else is known of that attempt; so does this. excuse: why these tell nothing
    of who reads, or "". record: hears how many attempts it took.
    """
    for attempt in range(1, ATTEMPTS + 1):
        found = take()
        record("attempts", attempt)
        if not (why := excuse(*found)):
            return found
    pytest.skip(f"this machine is too slow or too busy, in each of {ATTEMPTS} attempts: {why}")


def not_full(of_truth, full, lost=0.0, *, least=0.99):
    """Why less than `least` was read, where no more than that can be said to have come."""
    if of_truth >= least or full * (1 - lost) >= least:
        return ""
    lost_too = f", {lost:.1%} of the datagrams were lost at the server" if lost else ""
    return f"the link was {full:.1%} full at least{lost_too}, and {of_truth:.1%} was read"


def looks_at(share, rate_bps, *, late_s=0.001):
    """Looks at a link so full that sends for 2 s; the first that finds it sending hears of its count that late."""
    return [
        Look(round(s * 1e9), round((s + (late_s if s == 0.5 else 0.001)) * 1e9), round(share * rate_bps / 8 * s))
        for s in (0.0, 0.5, 1.0, 1.5, 2.0)
    ]


@pytest.mark.parametrize("late_s", [0.001, 0.03])
@pytest.mark.parametrize("share", [0.97, 0.985, 0.989])
def test_a_link_that_was_not_full_is_never_held_against_who_reads_it(share, late_s):
    full = fullness(looks_at(share, 1e9, late_s=late_s), 1e9)
    assert 0.99 * share < full <= share
    assert not_full(share, full)


def test_a_link_that_was_full_excuses_nobody():
    full = fullness(looks_at(1.0, 1e9), 1e9)
    assert not not_full(0.98, full)
    assert not not_full(0.98, full, lost=0.002)
    assert not_full(0.98, full, lost=0.02)


def test_what_is_read_from_its_clients_start_has_a_late_beginning_counted():
    first, *more = looks_at(1.0, 1e9)
    late_s = 0.1
    looks = [first, *(each._replace(sent_bytes=each.sent_bytes - round(late_s * 1e9 / 8)) for each in more)]
    assert fullness(looks, 1e9) > 0.99
    assert 1 - late_s / 2 - 0.01 < fullness(looks, 1e9, from_start=True) <= 1 - late_s / 2


def wire_bytes(payload_bytes):
    return payload_bytes + math.ceil(payload_bytes / MSS) * TCP_HEADERS


def over_links(reader, *kept):
    """(reader, backend, rate) as parameters: over every link, of which all but those kept are for `make soak`."""
    every = itertools.product(BACKENDS, RATES)
    return [pytest.param(reader, *link, marks=() if link in kept else pytest.mark.long) for link in every]


@pytest.mark.parametrize(
    ("reader", "backend", "rate_bps"),
    [each for at, reader in enumerate(READERS) for each in over_links(reader, FILLED[at % len(FILLED)])],
    ids=str,
)
def test_every_tool_reads_the_payload_that_headers_leave_of_a_links_rate(
    backend, reader, rate_bps, tmp_path, filled, record_property
):
    share = MSS / (MSS + (UDP_HEADERS if reader == "flowgen-udp" else TCP_HEADERS))

    def read():
        run = measured(tmp_path, backend, link_rate_bps=rate_bps, **READERS[reader])
        lost = (run.flows["datagrams_lost"] / run.flows["datagrams_sent"]).fillna(0)[0]
        full = filled(rate_bps, from_start=not run.spec.warmup_s and reader != "sockperf")
        return run.total_throughput_bps / (rate_bps * share), full, lost

    of_truth, *_ = measured_without_excuse(read, not_full, record_property)
    record_property(f"measured_over_true/{backend}/{reader}/{rate_bps:.0e}", f"{of_truth:.4f}")
    assert of_truth == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("reader", "backend", "rate_bps"), over_links("netcat", *FILLED[1:]), ids=str)
def test_netcats_goodput_is_the_links_payload_rate(reader, backend, rate_bps, tmp_path, filled, record_property):
    # So many seconds, and 4 % for headers: it ends long enough after the last of the looks for one more.
    flow_bytes = round(rate_bps / 8 * (2.25 if rate_bps < 5e9 else 1.25))
    expected_s = wire_bytes(flow_bytes) * 8 / rate_bps

    def read():
        asked = {"workload": reader, "flow_bytes": flow_bytes, "duration_s": 60.0, **RENO}
        run = measured(tmp_path, backend, link_rate_bps=rate_bps, **asked)
        return run.flows["throughput_bps"][0] * expected_s / (flow_bytes * 8), filled(rate_bps, from_start=True)

    least = 0.99 - NETCAT_BEGINS_S / expected_s
    of_truth, _ = measured_without_excuse(read, functools.partial(not_full, least=least), record_property)
    record_property(f"measured_over_true/{backend}/{reader}/{rate_bps:.0e}", f"{of_truth:.4f}")
    assert least < of_truth < 1.01


@pytest.mark.parametrize(
    ("flow", "backend"), diagonal((("flowgen", 1e8), ("netcat", 1e8), ("flowgen", 1e9)), BACKENDS), ids=str
)
def test_a_flow_takes_the_time_that_arithmetic_says(flow, backend, tmp_path, filled, record_property):
    """From its client's start: 20 MB at 100 Mbit/s, and 200 MB at 1 Gbit/s, long enough for several looks at the link.

    None is faster than its link; one is later where its link was not kept full, as its own filter then says.
    """
    workload, rate_bps = flow
    flow_bytes = round(rate_bps / 5)
    expected_s = wire_bytes(flow_bytes) * 8 / rate_bps
    ahead_s = (bucket(rate_bps, MSS + TCP_HEADERS)["at_once_bytes"]) * 8 / rate_bps

    def take():
        asked = {"workload": workload, "flow_bytes": flow_bytes, "duration_s": 20.0, **RENO}
        run = measured(tmp_path, backend, link_rate_bps=rate_bps, **asked)
        return expected_s / run.flows["fct_s"][0], filled(rate_bps, from_start=True)

    of_truth, _ = measured_without_excuse(take, functools.partial(not_full, least=0.98), record_property)
    record_property(f"expected_over_measured/{backend}/fct-{workload}/{rate_bps:.0e}", f"{of_truth:.4f}")
    assert 0.98 <= of_truth <= expected_s / (expected_s / PEAK - ahead_s)


@pytest.fixture
def lasted_s(monkeypatch):
    """How long after the release the last run's first client ended."""
    found = []
    real = measurement._watch

    def watch(bed, clients, release_ns, *others):
        real(bed, clients, release_ns, *others)
        found.append((clients[0], release_ns))

    monkeypatch.setattr(measurement, "_watch", watch)
    return lambda: (found[-1][0].end_ns - found[-1][1]) / 1e9


@pytest.mark.parametrize(("workload", "backend"), diagonal(("iperf", "iperf3", "flowgen", "sockperf"), BACKENDS))
def test_planted_retransmissions_are_counted_by_every_source_alike(
    backend, workload, tmp_path, lasted_s, record_property
):
    """sockperf tells of none itself. iperf3 sends on after its last look at its sockets, until it has a CPU to stop.

    60 ms of that were seen, in which only the kernel counts: 3 % of 2 s, but 0.6 % of 10. 0.6 s were seen on a machine
    that did something else: then neither is held against the other.
    """
    asked = {"message_bytes": 10 * MSS} if workload == "sockperf" else RENO
    asked = asked | {"duration_s": 10.0 if workload == "iperf3" else 2.0}
    columns = {"tool": "retransmits", "namespace": "netns_retransmits", "sock_diag": "diag_retransmits"}

    def count():
        run = measured(tmp_path, backend, workload=workload, link_rate_bps=5e8, link_loss=0.01, **asked)
        counts = {source: run.flows[column][0] for source, column in columns.items()}
        if workload == "sockperf":
            assert math.isnan(counts.pop("tool"))
        return counts, lasted_s() - run.spec.duration_s

    def sent_on(counts, after_s):
        alike = max(counts.values()) <= 1.01 * min(counts.values())
        return "" if alike or after_s < 0.2 else f"its client ended {after_s:.2f} s after its time: {counts}"

    counts, _ = measured_without_excuse(count, sent_on, record_property)
    record_property(
        f"measured_over_true/{backend}/retransmits-{workload}", f"{max(counts.values()) / min(counts.values()):.4f}"
    )
    assert min(counts.values()) >= 100  # or 1 % would be less than a segment
    assert max(counts.values()) <= 1.01 * min(counts.values()), counts
