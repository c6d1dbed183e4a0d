"""Completion times of flows of which some failed: what is known of all of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.model import fct
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table


def with_failed(times_s, failed):
    return np.append(np.asarray(times_s, dtype=float), np.full(failed, np.inf))


def test_a_failed_flow_took_longer_than_any_whatever_was_measured_of_it():
    flows = pd.DataFrame(
        {"status": ["ok", "failed", "failed"], "fct_s": [1.0, np.nan, 0.2], "other_s": [2.0, 3.0, 4.0]}
    )
    assert list(fct.of(flows)) == [1.0, np.inf, np.inf]
    assert list(fct.of(flows, "other_s")) == [2.0, np.inf, np.inf]


def test_the_median_is_that_of_all_flows_and_not_of_those_that_are_left():
    times_s = with_failed(np.arange(1.0, 31.0), 20)
    assert fct.median(times_s) == 25.5
    assert fct.quantile(times_s, 0.5) == 25.5
    assert fct.quantile(times_s, 0.1) == np.quantile(np.arange(1.0, 51.0), 0.1)


def test_what_hangs_on_how_long_failed_flows_would_have_taken_is_not_known():
    times_s = with_failed(np.linspace(5, 7, 20), 30)
    told = [of(times_s) for of in (fct.median, fct.mean, fct.longest)]
    assert np.isnan([*told, fct.quantile(times_s, 0.5)]).all()
    one = with_failed([1.0, 2.0, 3.0, 4.0], 1)
    assert fct.median(one) == 3.0
    assert np.isnan([fct.mean(one), fct.longest(one)]).all()


def test_a_percentile_that_a_completed_flow_has_by_itself_is_known_although_the_next_one_failed():
    assert fct.median(with_failed([1.0, 2.0], 1)) == 2.0
    assert fct.quantile(with_failed([1.0, 2.0], 1), 0.5) == 2.0
    assert np.isnan(fct.median(with_failed([1.0, 2.0], 2)))


def run_of(rows, **spec):
    return Run(Spec(workload="flowgen", **spec), "ok", flows=table("flows", rows))


def test_steady_arrivals_are_a_steady_course_which_agrees_with_littles_law():
    spec = {"workload": "traffic", "flow_sizes": "10:0.5,30:1", "offered_load_bps": 1e6}
    rows = [
        {"pair": 0, "flow": n, "status": "ok", "intended_start_s": n / 100, "start_s": n / 100 + 0.01}
        | {"completed_s": n / 100 + 0.05, "fct_s": 0.04, "intended_fct_s": 0.05}
        for n in range(400)
    ]
    course = fct.over_time(Run(Spec(**spec), "ok", flows=table("flows", rows)), 4)
    assert course["start_s"].iloc[0] == 0.0
    assert course["end_s"].iloc[-1] == pytest.approx(4.04)
    whole = course.iloc[1:3]
    assert list(whole["arrivals_per_s"]) == pytest.approx([100, 100], rel=0.01)
    assert list(whole["active_flows"]) == pytest.approx([5, 5], rel=0.01)  # Little: 100/s times 50 ms
    assert list(course["median_s"]) == list(course["longest_s"]) == pytest.approx(4 * [0.05])
    total_s = (course["active_flows"] * (course["end_s"] - course["start_s"])).sum()
    assert total_s == pytest.approx(400 * 0.05)


def test_a_course_shows_when_flows_took_longer_and_does_not_count_failed_ones_as_under_way():
    rows = [{"start_s": at, "completed_s": at + took, "fct_s": took} for at, took in ((0, 1), (1, 1), (5, 4), (6, 4))]
    rows = [{"pair": pair, "flow": 0, "status": "ok", **row} for pair, row in enumerate(rows)]
    rows.append({"pair": 4, "flow": 0, "status": "failed", "error": "refused", "start_s": 7})
    course = fct.over_time(run_of(rows, pairs=5, flow_bytes=1000), 2)
    assert list(course["arrivals_per_s"]) == [2 / 5, 3 / 5]
    assert list(course["active_flows"]) == [2 / 5, 8 / 5]
    assert list(course["median_s"]) == [1.0, 4.0]
    assert course["longest_s"].iloc[0] == 1.0
    assert np.isnan(course["longest_s"].iloc[1])


def test_without_a_complete_flow_there_is_no_course():
    row = {"pair": 0, "flow": 0, "status": "failed", "error": "refused", "start_s": 0.0}
    assert fct.over_time(run_of([row], flow_bytes=1000), 5).empty
    assert fct.over_time(run_of([], flow_bytes=1000), 5).empty


def test_of_no_flow_and_of_failed_flows_only_nothing_is_known():
    for times_s in ([], [np.inf], [np.inf, np.inf]):
        assert np.isnan([fct.median(times_s), fct.longest(times_s)]).all()


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40),
    st.integers(0, 40),
    st.floats(0.01, 0.99),
    st.sampled_from(["linear", "median_unbiased"]),
)
def test_a_quantile_is_known_where_it_is_the_same_however_long_the_failed_flows_took(times_s, failed, q, method):
    found = fct.quantile(with_failed(times_s, failed), q, method)
    longer = [np.quantile(np.append(times_s, np.full(failed, took)), q, method=method) for took in (2e3, 5e3, 1e9)]
    if np.isnan(found):
        assert longer[0] < longer[1] < longer[2]
    else:
        assert longer == pytest.approx([found] * 3, rel=1e-9)


def test_why_it_is_not_known_is_told_with_the_number_of_failed_flows():
    told = fct.unknown(2, 50, 0.99)
    assert told == "2 of 50 flows failed: p99 hangs on how long they would have taken, and is not known"
