"""Metrics that workloads declare: which are refused, and what a run's value of one is."""

import math
from dataclasses import replace

import pytest

from pairlab import store
from pairlab.analysis.comparison.compute import compare
from pairlab.errors import BadSpec, UnknownName
from pairlab.measurement import own_columns
from pairlab.model.metrics import Metric, as_fact, of_facts
from pairlab.model.summaries import summaries
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from pairlab.testbed.contracts import FlowReport, Workload
from tests.support import synthetic

WAIT = Metric("wait_s", "s", "longest wait", less_is_better=True, of_run="max")
CALLS = Metric("calls_per_s", "1/s", "calls per second", of_run="sum")
QUEUE = Metric("queue_share", "share", "queue on arrival", table="transactions", less_is_better=True)


def declaring(*metrics):
    methods = dict.fromkeys(("server", "client", "parse"))
    return type("Declaring", (Workload,), {"name": "declaring", "metrics": metrics, **methods})


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        (Metric("Wait", "s", "wait"), "'Wait' is no name"),
        (Metric("wait_ms", "ms", "wait"), "'wait_ms' is in 'ms', which is no known unit: s, bit/s"),
        (Metric("wait", "s", "wait"), "'wait' must end with _s, as it is in s"),
        (Metric("wait_s", "B", "wait"), "'wait_s' must end with _bytes, as it is in B"),
        (Metric("wait_s", "", "wait"), "'wait_s' must not end with _s, as it is in no unit"),
        (Metric("calls_per_s", "s", "calls"), "'calls_per_s' must end with _s"),
        (Metric("wait_s", "s", ""), "'wait_s' needs a meaning"),
        (Metric("wait_s", "s", "a\nb"), "the meaning of 'wait_s' must be one line"),
        (Metric("wait_s", "s", "wait", table="cpu"), "'wait_s' has table 'cpu'; there are: flows, transactions"),
        (Metric("wait_s", "s", "wait", of_run="mode"), "'wait_s' has of_run 'mode'; there are: mean, sum"),
        (Metric("wait_s", "s", "wait", less_is_better=1), "'wait_s': less_is_better is True or False"),
        (Metric("wait_s", "s", "wait", resolution=-1), "'wait_s': resolution is a number in its unit, or 0, not -1"),
        (Metric("min_rtt_s", "s", "wait"), "'min_rtt_s' is a column of flows already"),
        (Metric("latency_s", "s", "wait"), "'latency_s' is a column of transactions already"),
        (Metric("duration_s", "s", "wait"), "'duration_s' is a parameter already"),
        (Metric("latency_p50_s", "s", "wait"), "'latency_p50_s' is what runs of all workloads are summarised to"),
        (Metric("host", "", "wait"), "'host' is a column of"),
        ("wait_s", "'wait_s' is no Metric"),
    ],
)
def test_a_metric_that_cannot_be_a_column_is_refused_with_the_reason(metric, why):
    with pytest.raises(BadSpec, match=f"workload 'declaring' declares a metric that cannot be measured: {why}"):
        own_columns.require(declaring(metric))


def test_a_metric_is_declared_once():
    own_columns.require(declaring(WAIT, CALLS, QUEUE))
    with pytest.raises(BadSpec, match="'wait_s' is declared twice"):
        own_columns.require(declaring(WAIT, WAIT))


def test_one_client_of_all_servers_reports_by_columns_and_can_declare_none():
    kind = declaring(WAIT)
    kind.one_client = True
    with pytest.raises(BadSpec, match="'declaring' has one client, which reports by columns"):
        own_columns.require(kind)


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (FlowReport({"wait_s": 1, "mood": 1}), "declaring reported 'mood', and flows has no such column"),
        (FlowReport({}, intervals=[{"wait_s": 1}]), "reported 'wait_s', and intervals has no such column"),
        (FlowReport({"queue_share": 1}), "reported 'queue_share', and flows has no such column"),
        (FlowReport({}, transactions=[{"queue_share": 1, "count": 1}]), "without latency_s, or without count"),
    ],
)
def test_what_is_not_declared_is_no_report(measured, why):
    with pytest.raises(ValueError, match=why):
        own_columns.require_declared(declaring(WAIT, QUEUE)(), [measured])


@pytest.mark.parametrize("value", ["fast", True, [1], {}, object()])
def test_what_is_no_number_is_told_by_its_column(value):
    with pytest.raises(ValueError, match=r"^wait_s is .*, which is no number$"):
        FlowReport({"wait_s": value})


def measured_run(waits_s, *, failed=0, lost=0, queue=((0.5, 1), (0.1, 3)), **spec):
    made = synthetic.run([1.0] * len(waits_s), failed=failed, **spec)
    rows = [
        {**row, "wait_s": wait_s, "calls_per_s": 10.0, "transactions_lost": lost} if row["status"] == "ok" else row
        for row, wait_s in zip(made.flows.to_dict("records"), waits_s, strict=True)
    ]
    timed = [{"pair": 0, "flow": 0, "latency_s": 1e-3, "count": n, "queue_share": share} for share, n in queue]
    own = (WAIT, CALLS, QUEUE)
    tables = {"flows": table("flows", rows, own), "transactions": table("transactions", timed, own)}
    return replace(made, facts={**made.facts, **as_fact(own)}, **tables)


def test_a_runs_value_is_made_of_its_rows_as_declared():
    found = summaries(measured_run([0.2, 0.7, 0.4]))
    assert {name: found[name] for name in ("wait_s", "calls_per_s", "queue_share")} == {
        "wait_s": 0.7,
        "calls_per_s": 30.0,
        "queue_share": pytest.approx(0.2),  # one at 0.5, three at 0.1
    }


@pytest.mark.parametrize(
    ("of_run", "value"), [("mean", 0.2), ("sum", 0.8), ("median", 0.1), ("min", 0.1), ("max", 0.5)]
)
def test_rows_of_transactions_count_as_often_as_they_say(of_run, value):
    made = measured_run([0.2])
    made = replace(made, facts=as_fact((replace(QUEUE, of_run=of_run),)))
    assert made.metric_values["queue_share"] == pytest.approx(value)


def test_a_failed_flow_is_no_better_than_any_other():
    values = measured_run([0.2, 0.7], failed=1).metric_values
    assert (values["calls_per_s"], math.isnan(values["wait_s"])) == (10.0, True)
    assert math.isnan(measured_run([0.2, math.nan]).metric_values["wait_s"])
    assert math.isnan(measured_run([0.2], lost=1).metric_values["queue_share"])


def test_a_stored_run_tells_of_its_metrics_where_no_such_workload_is(tmp_path):
    for repetition, wait_s in enumerate((0.2, 0.21, 0.19)):
        store.write(measured_run([wait_s], repetition=repetition), tmp_path)
        store.write(measured_run([2 * wait_s], repetition=repetition, driver="macvlan"), tmp_path)
    store.write(synthetic.run([1.0], driver="ovs"), tmp_path)
    runs = load_runs(tmp_path)
    assert runs[0].metrics == (WAIT, CALLS, QUEUE)
    assert runs.flows["wait_s"].isna().sum() == 1
    assert runs.select("transactions", ["driver", "queue_share"])["queue_share"].max() == 0.5
    (found,) = compare(runs.where(driver=["bridge", "macvlan"]), measure="wait_s")
    assert (found.verdict, found.measured.unit) == ("worse", "s")
    assert found.change == pytest.approx(100)
    assert "longest wait" in str(found)
    with pytest.raises(UnknownName, match=r"no measure 'waits'; there are: total_bps.*, wait_s, calls_per_s"):
        compare(runs, measure="waits")


@pytest.mark.parametrize(
    "told",
    [
        {"metrics": [{"name": "pair", "unit": "", "meaning": "x"}]},
        {"metrics": [{"name": "wait_s", "unit": ["s"], "meaning": "x"}]},
        {"metrics": [{"name": "wait_s", "unit": "s", "meaning": "<\n>"}]},
        {"metrics": [{"name": "wait_s"}]},
        {"metrics": "wait_s"},
        {"metrics": [7]},
        {"metrics": {"name": "wait_s"}},
    ],
)
def test_what_no_workload_declares_is_left_out_of_anybodys_run(told):
    made = replace(synthetic.run([1.0]), facts=told)
    assert made.metrics == ()
    assert summaries(made) == {"total_bps": 1e9}


def test_a_metric_is_known_within_the_step_in_which_it_is_printed():
    printed = Metric("wait_s", "s", "wait", less_is_better=True, resolution=1e-6)
    assert of_facts(as_fact((printed,))) == (printed,)
    assert of_facts({"metrics": [{"name": "wait_s", "unit": "s", "meaning": "wait"}]})[0].resolution == 0

    def waiting(driver, wait_s, metric):
        made = [measured_run([wait_s * (1 - at / 1000)], driver=driver, repetition=at) for at in range(5)]
        return [replace(run, facts=run.facts | as_fact((metric,))) for run in made]

    for metric, verdict in ((printed, "undecided"), (replace(printed, resolution=0.0), "worse")):
        runs = [*waiting("bridge", 4e-6, metric), *waiting("macvlan", 5e-6, metric)]
        (found,) = compare(runs, measure="wait_s")
        assert found.verdict == verdict
