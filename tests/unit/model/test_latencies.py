"""Latencies of transactions: merged over clients, and their quantiles, held against what was planted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.model import latencies, others
from tests.support import synthetic


def of(counts, flow=0):
    """Rows of `transactions`: counts by latency."""
    return pd.DataFrame([{"pair": 0, "flow": flow, "latency_s": each, "count": n} for each, n in counts.items()])


def flows(*rows):
    names = ("status", "duration_s", "transactions", "transactions_lost", "transactions_failed")
    return pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])


def quantiles(transactions, lost=0):
    return {name: latencies.quantile(transactions, share, lost) for name, share in latencies.SHARES.items()}


def test_clients_are_merged_by_adding_up_their_counts():
    both = pd.concat([of({1e-3: 2, 2e-3: 1}), of({2e-3: 4, 5e-4: 1}, flow=1)])
    assert latencies.merged(both).to_dict() == {5e-4: 1, 1e-3: 2, 2e-3: 5}


def test_planted_quantiles_are_found_exactly():
    """9,000 of 1 ms, 990 of 2 ms, 9 of 3 ms and one of a second: each quantile is where it was planted."""
    planted = of({1e-3: 9000, 1.0: 1, 2e-3: 990, 3e-3: 9})
    assert quantiles(planted) == {
        "p50": 1e-3,
        "p90": 1e-3,
        "p99": 2e-3,
        "p99.9": 2e-3,
        "p99.99": 3e-3,
        "max": 1.0,
    }


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 50)), min_size=1, max_size=30),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_a_quantile_is_that_of_all_transactions_one_by_one(buckets, share):
    frame = pd.DataFrame(
        [{"pair": 0, "flow": 0, "latency_s": latency / 1e6, "count": count} for latency, count in buckets]
    )
    every = np.repeat(frame["latency_s"], frame["count"])
    found = latencies.quantile(frame, share)
    if len(every) * (1 - share) < 1 - 1e-9:
        assert np.isnan(found)
    else:
        assert found == np.quantile(every, share, method="inverted_cdf")
    assert latencies.quantile(frame, 1) == every.max()


def test_lost_transactions_took_longer_than_any_other():
    answered = of({1e-3: 90, 2e-3: 5})
    found = quantiles(answered, lost=5)
    assert (found["p50"], found["p90"]) == (1e-3, 1e-3)
    assert latencies.quantile(answered, 0.95, lost=5) == 2e-3
    assert np.isnan([found["p99"], found["max"]]).all()


def test_too_few_transactions_have_no_high_quantile():
    found = quantiles(of({1e-3: 999}))
    assert (found["p99"], found["max"]) == (1e-3, 1e-3)
    assert np.isnan([found["p99.9"], found["p99.99"]]).all()
    assert latencies.quantile(of({1e-3: 1000}), 0.999) == 1e-3
    assert np.isnan(list(quantiles(of({1e-3: 0})).values())).all()


def test_where_a_flow_failed_no_quantile_is_known_as_nobody_knows_of_how_many():
    tables = of({1e-3: 1000}), flows(("ok", 1.0, 1000, 0, 0), ("failed", np.nan, np.nan, np.nan, np.nan))
    assert np.isnan(list(latencies.of_flows(*tables).values())).all()
    assert latencies.describe(*tables) == "1,000 transactions/s, latency p50 not known, p99 not known"


def test_a_run_of_transactions_says_how_many_there_were_and_how_long_they_took():
    tables = of({21.3e-6: 3000, 80e-6: 1000}), flows(("ok", 2.0, 3000, 0, 0), ("ok", 2.0, 1000, 2, 1))
    assert latencies.lost(tables[1]) == 3
    assert latencies.rate_per_s(tables[1]) == 2000
    assert latencies.describe(*tables) == "2,000 transactions/s, latency p50 21.3 µs, p99 80 µs"


def test_a_quantile_is_as_sensitive_to_others_time_as_the_requests_beyond_it_are_slow():
    """One in ten takes twice as long: without twice 6 % of the slowest requests, p99 is that of the others."""
    tables = of({1e-3: 900, 2e-3: 100}), flows(("ok", 2.0, 1000, 0, 0))
    quantile_of = latencies.quantile_of_flows(*tables)
    assert others.sensitivity(quantile_of, 0.99, 0.06) == pytest.approx(np.log(2) / 0.06)
    assert {others.sensitivity(quantile_of, share, 0.0) for share in (0.5, 0.99)} == {1.0}
    assert {others.sensitivity(quantile_of, share, np.nan) for share in (0.5, 0.99)} == {1.0}
    assert others.sensitivity(quantile_of, 0.5, 0.06) == others.sensitivity(quantile_of, 0.9999, 0.06) == 1.0
    failed = latencies.quantile_of_flows(tables[0], flows(("failed", np.nan, np.nan, np.nan, np.nan)))
    assert others.sensitivity(failed, 0.99, 0.06) == 1.0


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match="a share above 0"):
        latencies.quantile(of({1e-3: 1}), share)


def test_the_mean_is_moved_by_few_that_take_long_and_is_not_known_where_some_were_lost():
    """As beside a background pair: the median stays."""
    even, tail = (synthetic.transacting(each) for each in ({20e-6: 100}, {20e-6: 98, 2e-3: 2}))
    assert latencies.mean_of_flows(even.transactions, even.flows) == pytest.approx(20e-6)
    assert latencies.mean_of_flows(tail.transactions, tail.flows) == pytest.approx(0.98 * 20e-6 + 0.02 * 2e-3)
    assert tail.latency_quantiles_s["p50"] == even.latency_quantiles_s["p50"]
    for broken in (synthetic.transacting({20e-6: 100}, lost=1), synthetic.transacting({20e-6: 100}, failed=1)):
        assert np.isnan(latencies.mean_of_flows(broken.transactions, broken.flows))
    bulk = synthetic.run([1.0])
    assert np.isnan(latencies.mean_of_flows(bulk.transactions, bulk.flows))


@pytest.mark.parametrize(
    ("times_s", "step_s"),
    [
        ([4e-6] * 3, 1e-6),
        ([4e-6, 17e-6, 1.000123], 1e-6),
        ([0.004, 0.005, 2.0], 1e-3),
        ([4e-6, 17.001e-6], 0.0),
        ([4.2e-6], 0.0),
        ([1 / 3], 0.0),
        ([], 0.0),
        ([0.0], 0.0),
        ([float("nan")], 0.0),
    ],
)
def test_the_step_in_which_times_were_printed_is_seen_by_their_values(times_s, step_s):
    assert latencies.step_s(times_s) == step_s
