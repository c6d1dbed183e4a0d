"""What runs beside the pairs: when it is under way, what is made of its reports, and that no result counts it."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pairlab import store
from pairlab.measurement import background as background_pairs
from pairlab.measurement.background import await_steady_rate, is_steady, read_background
from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.measurement.window import of_background_s
from pairlab.model import cpu_use
from pairlab.model.rates import client_bps
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import summaries
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.process_launcher import Process
from pairlab.testbed.workloads.flowgen import Flowgen
from tests.support.runs import WHEN

RELEASE_NS = 10 * 10**9


# --- at a steady rate


def seen(*mbytes):
    """Samples of two links each 0.25 s, of which the second carries nothing more at last where that is asked."""
    return [(0.25 * number, [int(first * 1e6), int(second * 1e6)]) for number, (first, second) in enumerate(mbytes)]


@pytest.mark.parametrize(
    ("samples", "steady"),
    [
        (seen((0, 0), (10, 10), (20, 20), (30, 30), (40, 40)), True),
        (seen((0, 0), (10, 10), (20, 20), (25, 25), (30, 30)), True),  # it falls
        (seen((0, 0), (10, 10), (20, 20), (30.9, 30.9), (41.9, 41.9)), True),  # 9.5 % more
        (seen((0, 0), (10, 10), (20, 20), (31, 31), (42.5, 42.5)), False),  # 12.5 % more
        (seen((0, 0), (10, 10), (20, 20), (40, 20), (60, 20)), False),  # one stands still
        (seen((0, 0), (0, 0), (0, 0), (0, 0), (0, 0)), False),
    ],
)
def test_links_are_at_their_rate_when_each_carries_something_and_all_together_hardly_more_than_before(samples, steady):
    assert is_steady(samples) is steady


class Counter:
    """A link that carries so much at each look; None: it is not to be seen."""

    def __init__(self, each_bytes):
        self.sent, self.left = 0, iter(each_bytes)

    def open(self):
        pass

    def close(self):
        pass

    def sent_bytes(self):
        more = next(self.left)
        self.sent += more or 0
        return None if more is None else self.sent


def test_it_is_awaited_until_the_rate_no_longer_rises(monkeypatch):
    looks = []
    monkeypatch.setattr(background_pairs, "time", SimpleNamespace(monotonic=lambda: sum(looks)))
    rising = [*(1000 * 1.5**number for number in range(8)), *[20_000] * 50]
    assert await_steady_rate([Counter(map(int, rising))], 60.0, looks.append)
    assert 12 <= len(looks) <= 20


def test_a_rate_that_never_comes_is_awaited_for_so_long_and_one_that_is_not_to_be_seen_not_at_all():
    assert not await_steady_rate([Counter(iter(int, 1))], 0.05, lambda seconds: None)
    assert not await_steady_rate([Counter([1000, None])], 60.0, lambda seconds: None)


# --- what is made of its reports


def process(name, stdout="", start_s=-1.0, **values):
    endpoint = Endpoint(name, "10.77.0.9", None)
    start_ns = None if start_s is None else RELEASE_NS + round(1e9 * start_s)
    return Process(name, endpoint, (), stdout=stdout, start_ns=start_ns, ready=True, **values)


def report(rates_bps, step_s=0.5, port=4000):
    """What a client of flowgen prints that was connected 0.9 s before the release, with these rates over time."""
    common = {"retransmits": 1, "rtt_s": 1e-4, "cwnd_bytes": 1e5}
    lines = [
        {"event": "interval", "start_s": step_s * number, "end_s": step_s * (number + 1), "bytes": bps * step_s / 8}
        | common
        for number, bps in enumerate(rates_bps)
    ]
    total = {"event": "total", "protocol": "tcp", "local": f"10.77.0.9:{port}", "flow_bytes": 1e9, "duration_s": 4.0}
    total |= {"throughput_bps": 2e9, "congestion_control": "cubic", "connected_ns": RELEASE_NS - 900_000_000} | common
    return "\n".join(json.dumps(line) for line in [*lines, total | {"retransmits": len(rates_bps)}])


def served(port=4000):
    return json.dumps({"event": "received", "peer": f"10.77.0.9:{port}", "flow_bytes": 1_000_000, "first_ns": 1})


def read(client, server, ended=()):
    return read_background(2, Flowgen(), [client], [server], ended, RELEASE_NS, (0.0, 2.0), [("host-0", "host-1")])


def test_its_totals_are_of_the_time_in_which_the_others_count_by_its_intervals():
    """1 Gbit/s until 0.1 s after the release, then 4; the others count from 0 to 2 s."""
    found = read(process("client-2", report([1e9, 1e9, *[4e9] * 5])), process("server-2", served()))
    (row,) = found.flows
    assert (row["pair"], row["role"], row["status"], row["client_host"]) == (2, "background", "ok", "host-0")
    assert (row["start_s"], row["connected_s"], row["duration_s"]) == (-1.0, -0.9, 2.0)
    assert row["flow_bytes"] == pytest.approx((0.1 * 1e9 + 1.9 * 4e9) / 8)
    assert row["throughput_bps"] == pytest.approx(row["flow_bytes"] * 4)
    assert [each["warmup"] for each in found.intervals] == [True, False, False, False, False, False, True]
    assert [each["start_s"] for each in found.intervals][:2] == pytest.approx([-0.9, -0.4])
    assert found.received_bytes == {2: 1_000_000}
    assert found.retransmits == {2: 7}
    table("flows", found.flows)
    table("intervals", found.intervals)


def test_one_that_ended_before_the_others_or_has_no_report_failed_with_the_reason():
    whole = process("client-2", report([1e9] * 6)), process("server-2", served())
    cut = process("client-2", report([1e9] * 6), exit_code=1, ended=True, stderr="the connection broke")
    assert read(cut, whole[1], [cut]).flows[0]["error"] == (
        "its client ended before the pairs that are measured: ended with 1: the connection broke"
    )
    ended = process("server-2", served(), exit_code=0, ended=True)
    assert "its server ended before" in read(whole[0], ended, [ended]).flows[0]["error"]
    silent = read(process("client-2", start_s=None), whole[1])
    assert silent.flows[0]["status"] == "failed"
    assert "flowgen reported 0 totals" in silent.flows[0]["error"] or "did not end" in silent.flows[0]["error"]
    assert "reported no intervals" in read(process("client-2", report([])), whole[1]).flows[0]["error"]


@pytest.mark.parametrize(
    ("asked", "ended_s", "window_s"),
    [
        ({"duration_s": 2.0}, 2.1, (0.0, 2.0)),
        ({"duration_s": 2.0, "warmup_s": 1.0}, 3.1, (1.0, 3.0)),
        ({"duration_s": 9.0, "flow_bytes": 1000}, 1.5, (0.0, 1.5)),
        ({"duration_s": 2.0, "warmup_s": 1.0}, 0.4, (0.0, 0.4)),  # the others failed at once
    ],
)
def test_the_time_in_which_the_others_count(asked, ended_s, window_s):
    assert of_background_s(Spec(**asked), ended_s) == window_s


def test_counters_of_all_pairs_are_held_against_the_reports_of_all():
    own = ParsedFlows(received_bytes={0: 5.0, 1: 6.0}, retransmits={0: 1.0}, flows=[{"pair": 0}], spans=[(0, 1)])
    every = own.and_background(ParsedFlows(received_bytes={2: 7.0}, flows=[{"pair": 2}], late_share=0.1))
    assert every.received_bytes == {0: 5.0, 1: 6.0, 2: 7.0}
    assert [row["pair"] for row in every.flows] == [0, 2]
    assert (every.late_share, every.spans) == (0.1, [(0, 1)])


# --- no result counts it


def of_pair(pair, bps, role=""):
    flow = {"pair": pair, "flow": 0, "status": "ok", "role": role, "protocol": "tcp", "start_s": 0.0}
    rows = [
        {"pair": pair, "flow": 0, "start_s": start_s, "end_s": start_s + 1, "interval_bytes": bps / 8, "warmup": False}
        for start_s in (0.0, 1.0)
    ]
    return {**flow, "throughput_bps": bps, "flow_bytes": bps / 4, "retransmits": 3.0}, rows


def planted(background):
    """A run of two pairs that carry 1 and 2 Gbit/s; with the background, another carries 100."""
    flows, intervals = zip(of_pair(0, 1e9), of_pair(1, 2e9), strict=True)
    beside, beside_intervals = of_pair(2, 1e11, "background")
    spec = Spec(pairs=2, duration_s=2.0, workload="flowgen", background_pairs=int(background))
    cpu = [{"cpu": 0, "start_s": 0.0, "end_s": 2.0, "usr": 0.5, "sys": 0.0, "softirq": 0.0, "irq": 0.0, "idle": 0.5}]
    return Run(
        spec,
        "ok",
        measured_at=WHEN,
        facts={"host": {"fingerprint": "a machine"}},
        flows=table("flows", flows),
        intervals=table("intervals", [row for each in intervals for row in each]),
        background_flows=table("flows", [beside] * background),
        background_intervals=table("intervals", beside_intervals * background),
        cpu=table("cpu", cpu),
    )


def test_rows_of_the_background_are_stored_with_the_others_and_change_no_result(tmp_path):
    alone, beside = (store.write(planted(background), tmp_path / str(background)) for background in (False, True))
    stored = pd.read_parquet(beside.path / "flows.parquet")
    assert list(zip(stored["pair"], stored["role"], strict=True)) == [(0, ""), (1, ""), (2, "background")]
    assert len(pd.read_parquet(beside.path / "intervals.parquet")) == 6
    for name in ("flows", "intervals", "transactions"):
        pd.testing.assert_frame_equal(getattr(beside, name), getattr(alone, name))
    assert beside.background_flows["throughput_bps"].to_list() == [1e11]
    assert beside.background_intervals["pair"].to_list() == [2, 2]
    assert len(alone.background_flows) == len(alone.background_intervals) == 0
    assert summaries(beside) == summaries(alone) == {"total_bps": 3e9}
    assert client_bps(beside.flows).to_list() == [1e9, 2e9]
    assert (beside.outcome, beside.common_throughput_bps) == (alone.outcome, 3e9)
    for name in ("flows", "intervals"):
        assert store.length(beside, name) == store.length(alone, name)
        assert store.columns(beside, name, ["pair"]).equals(store.columns(alone, name, ["pair"]))
        both = [load_runs(tmp_path / str(each)) for each in (False, True)]
        pd.testing.assert_frame_equal(*(getattr(each, name)[list(getattr(alone, name))] for each in both))
    again = store.write(beside, tmp_path / "again")
    pd.testing.assert_frame_equal(again.background_flows, beside.background_flows)


def test_what_a_byte_costs_is_not_known_where_others_used_the_cpus_too():
    assert cpu_use.host_s_per_gb(planted(False)) == pytest.approx(1.0 / 0.75)
    assert np.isnan(cpu_use.host_s_per_gb(planted(True)))
