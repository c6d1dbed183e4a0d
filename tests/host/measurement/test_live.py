"""What is seen of a measurement while it runs, held against what its flows and its links carried."""

import itertools
import json
import os
import resource
import statistics
import time
from dataclasses import asdict
from typing import ClassVar

import pytest

from pairlab import Spec, measure
from pairlab.measurement import measure as measurement
from pairlab.model.tables import carried_bytes
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.host import live_sampler
from pairlab.testbed.host.kernel_counters import sent_in
from pairlab.testbed.process_launcher import Process
from tests.conftest import any_backend, every_driver, need
from tests.support import CAPTURED

#: /proc/PID/net/dev of a client that has sent.
NET_DEV = (CAPTURED / "net-dev-linux-6.18.txt").read_text()

pytestmark = pytest.mark.usefixtures("runs_dir")


def spec(**values):
    asked = {"workload": "flowgen", "duration_s": 2.0, "max_skew_s": 5.0, "max_foreign_cpu": 1.0}
    return Spec(**{**asked, **values})


def watched(asked):
    """The run of that spec, and the samples seen meanwhile."""
    samples = []
    run = measure(asked, watch=samples.append)
    assert run.flows["status"].eq("ok").all(), list(run.flows["error"])
    return run, samples


def carried_bits(samples, pair=None):
    """What the samples say that this client's link sent, or all clients, from the release on."""
    moments = [0.0, *(each.elapsed_s for each in samples)]
    lasted_s = [later - earlier for earlier, later in itertools.pairwise(moments)]
    rates_bps = [each.total_bps if pair is None else each.client_bps[pair] for each in samples]
    return sum(rate_bps * s for rate_bps, s in zip(rates_bps, lasted_s, strict=True))


def sent_bits(flow):
    """What a flow's link sent of payload, what was lost and sent again included; headers add up to 5 %."""
    return (flow.flow_bytes + flow.netns_retransmits * 1448) * 8


def share_sent(run, pair, by_s):
    """The share of a flow's bytes that its tool had seen acknowledged by then."""
    steps = run.intervals[run.intervals["pair"] == pair]
    (carried,) = carried_bytes([0.0, by_s], steps["start_s"], steps["end_s"], steps["interval_bytes"])
    return carried / steps["interval_bytes"].sum()


def process(**values):
    return Process("client-0.1", Endpoint("client-0", "10.77.0.1", None), ("true",), **values)


class Site:
    """As much of a site as a sampler looks at."""

    hosts: ClassVar[dict[str, int]] = {}

    def __init__(self, interface="lo", interface_is_own=True):
        self.interface = interface
        self.interface_is_own = interface_is_own

    def facts(self):
        return {}


def test_bytes_and_packets_sent_are_read_by_link():
    assert sent_in(NET_DEV) == {"lo": (0, 0), "eth0": (3550077080, 59012)}


def test_moments_of_samples_stay_on_their_grid_however_late_one_was():
    assert [live_sampler.next_s(passed_s) for passed_s in (0.0, 0.003, 0.5, 0.51, 0.99, 1.7)] == [
        0.5,
        0.5,
        1.0,
        1.0,
        1.0,
        2.0,
    ]


@pytest.mark.whole
@pytest.mark.parametrize(("backend", "driver"), every_driver(isolated=True))
def test_samples_add_up_to_what_each_flow_carried(backend, driver, shared_run):
    seen = shared_run(backend, driver)
    run, samples = seen.run, seen.samples
    assert len(samples) > 1  # at which moments: above; of a late machine there are fewer
    assert all(each.total_s == 2.0 and len(each.client_bps) == 2 for each in samples)
    for flow in run.flows.itertuples():  # samples end a little before they do
        sent_by_then = sent_bits(flow) * share_sent(run, flow.pair, by_s=samples[-1].elapsed_s)
        assert 0.85 <= carried_bits(samples, flow.pair) / sent_by_then <= 1.1
    assert all(each.total_bps == pytest.approx(sum(each.client_bps)) for each in samples)
    assert all(0 < each.usr + each.sys + each.softirq <= 1 + 1e-9 for each in samples)  # a sum of rounded shares


@pytest.mark.whole
def test_a_link_of_a_known_rate_is_seen_to_carry_it_and_nothing_when_its_client_has_ended(clean_host):
    need("netns")
    rate_bps, mouse, elephant = 50e6, 500_000, 25_000_000  # 0.08 s, and 4 s
    asked = {"pairs": 2, "flow_bytes": mouse, "elephant_share": 0.5, "elephant_bytes": elephant}
    run, samples = watched(spec(duration_s=20.0, link_rate_bps=rate_bps, **asked))
    flows = {flow.role: flow for flow in run.flows.itertuples()}
    large, small = flows["elephant"].pair, flows["mouse"].pair
    assert carried_bits(samples, small) == pytest.approx(sent_bits(flows["mouse"]), rel=0.1)
    assert samples[0].client_bps[small] > 1e6
    for each in samples[2:]:
        assert each.client_bps[small] < 1e4  # an acknowledgement or two at most
    full_bps = [each.client_bps[large] for each in samples[1:7]]
    assert statistics.median(full_bps) == pytest.approx(rate_bps, rel=0.1)  # of one, the moments may be late


def test_without_namespaces_of_their_own_clients_are_unseen_and_the_loopback_is_theirs(shared_run):
    seen = shared_run("netns", "host")
    run, samples = seen.run, seen.samples
    assert {each.client_bps for each in samples} == {(None, None)}
    assert carried_bits(samples) == pytest.approx(run.flows["flow_bytes"].sum() * 8, rel=0.25)


def test_a_measurement_shorter_than_an_interval_has_one_sample(clean_host, monkeypatch):
    need("netns")
    monkeypatch.setattr(
        live_sampler, "EVERY_S", 20.0
    )  # as long as these flows may take, so shorter it is on any machine
    run, (sample,) = watched(spec(pairs=2, flow_bytes=2_000_000, duration_s=20.0))
    assert run.flows["completed_s"].max() < sample.elapsed_s
    for flow in run.flows.itertuples():
        assert carried_bits([sample], flow.pair) == pytest.approx(sent_bits(flow), rel=0.1)


@pytest.mark.whole
def test_one_who_watches_slowly_gets_fewer_samples_and_disturbs_nothing(clean_host):
    need("netns")
    moments = []

    def slow(sample):
        moments.append(sample.elapsed_s)
        time.sleep(0.7)

    run = measure(spec(pairs=2), watch=slow)
    assert run.flows["status"].eq("ok").all()
    assert run.checks["hung"] == 0
    assert run.flows["duration_s"].tolist() == pytest.approx([2.0, 2.0], abs=0.2)
    assert len(moments) <= 3


def test_nothing_is_sampled_where_nobody_watches(monkeypatch):
    need("netns")
    monkeypatch.delattr(measurement, "Sampler")
    assert measure(spec(duration_s=0.5)).flows["status"].eq("ok").all()


def test_a_sample_can_be_told_in_json():
    sample = live_sampler.Sample(0.5, 10.0, (1e9, None), None, 0.25, 0.5, 0.125)
    told = json.loads(json.dumps(asdict(sample)))
    assert live_sampler.Sample(**{**told, "client_bps": tuple(told["client_bps"])}) == sample


@pytest.mark.parametrize("pid", [0, 2**22 + 1], ids=["in another PID namespace", "gone"])
def test_a_client_that_cannot_be_seen_has_no_rate_and_is_no_error(pid):
    seen = []
    with live_sampler.Sampler([process(pid=pid)], Site(), True, 10.0, seen.append) as sampler:
        sampler.look(0.5)
    assert (seen[0].client_bps, seen[0].total_bps) == ((None,), None)


def test_a_client_that_never_started_counts_nothing_and_hides_not_what_others_send():
    seen = []
    clients = [process(ended=True), process(pid=os.getpid())]
    with live_sampler.Sampler(clients, Site(), True, 10.0, seen.append) as sampler:
        sampler.look(0.5)
    assert seen[0].client_bps[0] == 0
    assert seen[0].total_bps == seen[0].client_bps[1]


@pytest.mark.parametrize(("own", "alone"), [(False, True), (True, False)])
def test_a_loopback_that_others_use_too_is_not_taken_for_ours(own, alone):
    seen = []
    shared = Site(interface_is_own=own)
    with live_sampler.Sampler([process(pid=os.getpid())], shared, False, 10.0, seen.append, alone) as sampler:
        sampler.look(0.5)
    assert (seen[0].client_bps, seen[0].total_bps) == ((None,), None)


def test_samples_too_close_to_say_something_are_left_out_but_for_an_only_one():
    seen = []
    with live_sampler.Sampler([process(pid=os.getpid())], Site(), True, 1.0, seen.append) as sampler:
        for elapsed_s in (0.0, 0.001, 0.5, 0.6, 1.0):
            sampler.look(elapsed_s)
        sampler.look(1.01, last=True)
    assert [each.elapsed_s for each in seen] == [0.5, 1.0]
    with live_sampler.Sampler([process(pid=os.getpid())], Site(), True, 1.0, seen.append) as sampler:
        sampler.look(0.0)
        sampler.look(0.01, last=True)
    assert seen[-1].elapsed_s == 0.01


def test_where_files_are_short_clients_stay_unseen_and_the_measurement_has_them():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, limits[1]))
    try:
        with live_sampler.Sampler([process(pid=os.getpid())] * 100, Site(), True, 1.0, seen.append) as sampler:
            sampler.look(0.5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert seen[0].client_bps == (None,) * 100


def test_no_file_stays_open():
    before = len(os.listdir("/proc/self/fd"))
    with live_sampler.Sampler([process(pid=os.getpid())] * 3, Site(), True, 1.0, print):
        assert len(os.listdir("/proc/self/fd")) == before + 3
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("workload", ["rr", "all-to-all"])
@pytest.mark.parametrize("backend", any_backend())
def test_latencies_are_seen_while_they_are_counted(backend, workload):
    need(backend, workload=workload)
    run, samples = watched(spec(backend=backend, workload=workload, pairs=2))
    known = [each for each in samples if each.latency_p50_s is not None]
    assert known
    assert all(0 < each.latency_p50_s <= each.latency_p99_s for each in known)
    transactions = run.flows["transactions"].sum()
    moments = [0.0, *(each.elapsed_s for each in samples)]
    seen = sum(
        (each.transactions_per_s or 0) * (later - earlier)
        for each, (earlier, later) in zip(samples, itertools.pairwise(moments), strict=True)
    )
    assert transactions / 2 < seen <= transactions + 1e-3  # some are after the last sample
    slowest = max(each.latency_p99_s for each in known)
    assert run.latency_quantiles_s["p50"] <= slowest
