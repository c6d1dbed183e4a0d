from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis import repetitions
from pairlab.analysis.claims import run_table
from pairlab.model import cpu_use
from pairlab.model.summaries import summaries
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from tests.support.synthetic import FACTS, run, transacting


def seen(*samples, checks=(), waits_s=None, connected_s=np.nan, start_s=0.0, **spec):
    """A run of two pairs for 2 s, with samples of its two CPUs: begin, end, and what share was busy meanwhile."""
    made = run([1, 1], **spec)
    made.flows["start_s"], made.flows["connected_s"] = start_s, connected_s
    rows = [
        {"cpu": number, "start_s": begin, "end_s": end, "sys": busy, "idle": 1 - busy, "iowait": 0.0}
        for begin, end, busy in samples
        for number in (0, 1)
    ]
    facts = FACTS if waits_s is None else FACTS | {"waits_s": waits_s}
    return replace(made, cpu=table("cpu", rows), facts=facts, checks=dict(checks))


def busy(made):
    """What the ledger says, which is what the notebook says."""
    rows = repetitions.table(Runs((made,)), quantities=["busy"])
    (ledger,), (notebook,) = run_table.reduce([made])["busy"], rows["busy"]
    assert ledger == pytest.approx(notebook, nan_ok=True)
    return ledger


def test_a_sample_counts_by_how_long_it_lies_in_the_window():
    # As telemetry has them: the first begins before the release, and the last is over when the last client is.
    made = seen((-0.001, 0.999, 1.0), (0.999, 1.999, 0.5), (1.999, 2.031, 0.0))
    assert busy(made) == pytest.approx((0.999 * 1.0 + 1.0 * 0.5) / 2)


def test_the_window_begins_after_the_warmup_that_was_asked_for_and_the_one_that_was_found():
    samples = (-0.001, 0.999, 0.2), (0.999, 1.999, 0.6), (1.999, 2.999, 1.0), (2.999, 3.02, 0.0)
    assert busy(seen(*samples, warmup_s=1.0)) == pytest.approx((0.999 * 0.6 + 1.0 * 1.0) / 2, abs=1e-3)
    assert busy(seen(*samples, warmup_s=1.0, checks={"warmup_s": 1.0})) == pytest.approx(1.0, abs=2e-3)
    assert cpu_use.window_s(seen(warmup_s=1.0, checks={"warmup_s": 0.5})) == (1.5, 3.0)


def test_the_window_of_a_tool_that_waits_is_when_it_sends():
    samples = (0.0, 1.0, 0.0), (1.0, 2.1, 0.0), (2.1, 3.1, 0.8), (3.1, 4.1, 0.6), (4.1, 4.3, 0.0)
    assert busy(seen(*samples, waits_s=2.1)) == pytest.approx(0.7)
    assert busy(seen(*samples, waits_s=0.0)) == 0
    assert busy(seen(*samples)) == 0  # an older run tells of no wait


def test_the_window_begins_where_the_flow_in_the_middle_was_connected():
    assert cpu_use.window_s(seen(start_s=0.25)) == (0.25, 2.25)
    assert cpu_use.window_s(seen(start_s=0.25, connected_s=0.5)) == (0.5, 2.5)
    assert cpu_use.window_s(seen(start_s=0.0, connected_s=[0.5, np.nan])) == (0.25, 2.25)


def test_without_a_flow_or_a_sample_nothing_is_known():
    assert np.isnan(busy(seen()))
    assert np.isnan(busy(seen((2.5, 3.5, 1.0))))
    assert np.isnan(busy(seen((0.0, 2.0, 1.0), failed=2)))


def costing(client=0.3, server=0.5, per_s=1000, **spec):
    """A run of so many transactions a second for 2 s, whose two CPUs work for these shares of the time."""
    asked = {"pinning": "different-cores", "pairs": 1} | spec
    made = transacting({20e-6: 2 * per_s}, duration_s=2.0)
    made.flows["start_s"] = 0.0
    rows = [
        {"cpu": cpu, "start_s": begin, "end_s": begin + 1, "usr": work / 4, "softirq": work / 2, "irq": work / 4}
        | {"sys": 0.0, "steal": 0.1, "iowait": 0.0, "idle": 0.9 - work}
        for begin in (0.0, 1.0)
        for cpu, work in enumerate((client, server))
    ]
    cpus = table("cpu", rows).assign(host="machine")
    facts = FACTS | {"pinning": {"cpus": {"0": 1, "1": 1}}}
    return replace(made, spec=made.spec.replace(**asked), cpu=cpus, facts=facts)


def test_the_service_demand_is_what_all_cpus_worked_over_the_transactions():
    """What a hypervisor took is no work."""
    assert cpu_use.service_demand_s(costing()) == pytest.approx(0.8 / 1000)
    assert cpu_use.service_demand_s(costing(per_s=4000)) == pytest.approx(0.8 / 4000)
    assert summaries(costing())["service_demand_s"] == pytest.approx(0.8 / 1000)


def test_what_other_programs_had_is_in_no_cost():
    """A tenth of the two CPUs' time, of 2 s."""
    alone, beside = costing(), costing()
    beside = replace(beside, checks=beside.checks | {"foreign_cpu": 0.07, "hidden_cpu": 0.03})
    assert cpu_use.service_demand_s(beside) == pytest.approx((0.8 - 0.2) / 1000)
    assert cpu_use.used_s(beside) == pytest.approx(cpu_use.used_s(alone) - 0.1 * 2 * 2)
    assert cpu_use.shares(beside)["busy"] == pytest.approx(cpu_use.shares(alone)["busy"])


def test_what_the_kernel_did_not_count_of_a_sample_is_no_work():
    half = costing()
    half = replace(half, cpu=half.cpu.assign(counted=0.5))
    assert cpu_use.service_demand_s(half) == pytest.approx(0.4 / 1000)
    assert cpu_use.used_s(half) == pytest.approx(cpu_use.used_s(costing()) / 2)
    assert cpu_use.shares(half)["busy"] == pytest.approx(cpu_use.shares(costing())["busy"])


def test_the_service_demand_is_not_known_beside_other_work_without_samples_or_without_transactions():
    beside = costing(interference_workers=2), costing(background_pairs=1)
    without = replace(costing(), cpu=table("cpu")), seen((0, 2, 0.5))
    assert all(np.isnan(cpu_use.service_demand_s(each)) for each in (*beside, *without))


def test_the_sides_are_told_apart_where_either_end_had_a_cpu_of_its_own():
    sides = cpu_use.by_side(costing())
    assert sides["utilisation"].to_dict() == pytest.approx({"client": 0.3, "server": 0.5})
    assert sides["service_demand_s"].to_dict() == pytest.approx({"client": 0.3 / 1000, "server": 0.5 / 1000})
    assert cpu_use.by_side(costing(pinning="none")).empty
    assert cpu_use.by_side(costing(pairs=2)).empty
