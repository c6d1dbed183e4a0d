from dataclasses import replace

import numpy as np
import pytest

from pairlab.model import others
from pairlab.model.summaries import MEASURES, main_value, summaries
from pairlab.model.tables import table
from tests.support import claimed
from tests.support.synthetic import bulk, ending, run, transacting


def test_a_run_has_the_total_or_completion_times_and_each_by_the_name_of_a_measure():
    assert summaries(run([1, 2], failed=1)) == {"total_bps": 1e9}
    times_s = np.arange(1.0, 51.0)
    assert summaries(ending(times_s)) == {
        "fct_median_s": 25.5,
        "fct_mean_s": 25.5,
        "fct_p99_s": pytest.approx(49.51),
        "fct_max_s": 50.0,
    }
    answered = transacting({20e-6: 900, 50e-6: 99, 3e-3: 1}, duration_s=2.0)
    with_tail = transacting({20e-6: 9000, 50e-6: 999, 3e-3: 1}, duration_s=20.0)
    assert summaries(answered) == {
        "total_bps": 2e9,
        "transactions_per_s": 500.0,
        "latency_p50_s": 20e-6,
        "latency_p90_s": 20e-6,
        "latency_p99_s": 50e-6,
        "latency_p99_9_s": 50e-6,
        "latency_p99_99_s": pytest.approx(np.nan, nan_ok=True),  # of a thousand, a tenth is beyond
        "latency_max_s": 3e-3,
    }
    assert summaries(with_tail)["latency_p99_99_s"] == 50e-6
    of_launches = {name for name, each in MEASURES.items() if each.of == "launches"}
    assert {*summaries(ending(times_s)), *summaries(answered)} == set(MEASURES) - of_launches - {
        "service_demand_s"
    }  # without samples of the CPUs


def test_what_depends_on_transactions_without_a_response_is_not_known():
    found = summaries(transacting({20e-6: 989}, lost=11))
    assert (found["transactions_per_s"], found["latency_p50_s"]) == (989, 20e-6)
    assert np.isnan(found["latency_p99_s"])


def test_the_outcome_of_transactions_is_their_rate_and_latency():
    assert transacting({20e-6: 900, 50e-6: 100}).outcome == "1,000 transactions/s, latency p50 20 µs, p99 50 µs"
    assert transacting({20e-6: 900, 50e-6: 100}).latency_quantiles_s["p90"] == 20e-6
    assert run([1, 2]).latency_quantiles_s == {}


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ({"others_cpu": 0.025, "pairlab_cpu": 0.01}, "p99 at most 50 µs (others had 1.5 % of the time)"),
        ({"others_cpu": 0.015, "pairlab_cpu": 0.01}, "p99 50 µs"),
        (
            {"others_cpu": 0.01, "pairlab_cpu": 0.01, "stopped": 0.015},
            "p99 at most 50 µs (others had 1.5 % of the time)",
        ),
        ({"foreign_cpu": 0.09}, "p99 50 µs"),
    ],
)
def test_a_percentile_is_an_upper_bound_where_others_had_as_much_time_as_there_are_requests_beyond_it(checks, said):
    """Of which they may have held up all; the median is the system's own in each case."""
    made = replace(transacting({20e-6: 900, 50e-6: 100}), checks=checks)
    assert made.outcome == f"1,000 transactions/s, latency p50 20 µs, {said}"
    assert ("p99" in others.upper_bounds(made)) == ("at most" in said)
    assert "p50" not in others.upper_bounds(made)


def test_completion_times_are_of_all_flows_and_nan_where_they_hang_on_those_that_failed():
    found = summaries(ending(np.arange(1.0, 51.0), failed=20))
    assert found["fct_median_s"] == 25.5
    assert np.isnan([found[name] for name in ("fct_mean_s", "fct_p99_s", "fct_max_s")]).all()
    assert np.isnan(list(summaries(ending([6.0] * 50, failed=30)).values())).all()


def test_the_total_while_all_sent_is_of_the_time_that_all_flows_have_in_common():
    """One of 8 Gbit/s from 0 to 4 s, the other from 3 to 7 s and slower from 4 s on; half a second is warm-up."""
    rows = [(0, 0, 0.5, True), (0, 0.5, 2, False), (0, 2, 4, False), (1, 3, 4, False), (1, 4, 7, False)]
    rates = {(1, 4): 1e9}
    intervals = [
        {
            "pair": pair,
            "flow": 0,
            "start_s": begin_s,
            "end_s": end_s,
            "interval_bytes": rates.get((pair, begin_s), 8e9) * (end_s - begin_s) / 8,
            "warmup": warmup,
        }
        for pair, begin_s, end_s, warmup in rows
    ]
    found = replace(run([8, 8]), intervals=table("intervals", intervals))
    assert found.common_throughput_bps == pytest.approx(16e9)
    assert np.isnan(run([8, 8]).common_throughput_bps)
    one_silent = replace(found, intervals=table("intervals", intervals[:3]))
    assert np.isnan(one_silent.common_throughput_bps)


def test_a_run_that_is_too_short_says_that_its_steadiness_is_unknown():
    made = run([1, 1])
    assert made.outcome == "2.00 Gbit/s in total"
    assert replace(made, checks={"shift": 0.01}).outcome == "2.00 Gbit/s in total"
    assert replace(made, checks={"shift": None}).outcome == "2.00 Gbit/s in total, steadiness unknown"
    assert not replace(ending([1.0]), checks={"shift": None}).steadiness_unknown


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ({"shift": 0.1, "silent": 0.02, "silence_s": 0.4}, ""),
        ({"shift": -0.2}, "its level changed by −20 %"),
        ({"silent": 0.05, "silence_s": 0.6}, "all flows were silent for 5 % of the time, a flow was silent for 0.6 s"),
        ({"shift": None, "silent": None}, ""),
        ({}, ""),
    ],
)
def test_a_run_says_how_it_was_not_steady(checks, told):
    made = replace(run([1, 1]), checks=checks)
    assert made.unsteady == told
    assert ("unsteady" in made.outcome) == bool(told)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (bulk([1.0, 2.0]), "3 Gbit/s"),
        (ending([1.0, 2.0, 3.0]), "median FCT 2 s"),
        (ending([1.0, 2.0], failed=2), "median FCT not known"),
        (transacting({1e-5: 1000}), "median latency 10 µs"),
        (claimed.launching(1.0), "median launch time 200 ms"),
    ],
)
def test_one_value_stands_for_a_run_whatever_it_measured(made, told):
    assert main_value(made).text() == told
