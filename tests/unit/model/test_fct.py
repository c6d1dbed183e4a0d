"""Completion times of flows of which some failed: what is known of all of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.model import fct


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
