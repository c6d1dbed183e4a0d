"""Verdicts on cells of which flows failed: what these would have taken is not known, and no verdict depends on it."""

import numpy as np
import pandas as pd
import pytest

from pairlab.analysis.claims import report, verdicts
from pairlab.store.dataset import Runs
from tests.support.claimed import claim_of, verdict_on
from tests.support.synthetic import ending

OVER_BRIDGE = {
    "quantity": "fct_median_s",
    "of": {"experiment": "fct", "driver": "ovs", "pairs": 50},
    "over": {"driver": "bridge"},
}
GROWTH = {"of": {"experiment": "fct", "driver": "bridge", "pairs": 50}, "over": {"pairs": 20}}


def timed_out(driver, times_s, failed, repetition, pairs=50):
    """Flows over two drivers or numbers of pairs, of which the last `failed` are not complete in time."""
    fcts = times_s * np.linspace(0.95, 1.05, pairs) * (1 + 0.001 * repetition)
    return ending(fcts, failed=failed, driver=driver, repetition=repetition)


def test_a_driver_whose_slow_flows_failed_is_not_called_the_faster_one():
    cells = [timed_out("bridge", 8.0, 0, at) for at in range(5)] + [timed_out("ovs", 6.0, 30, at) for at in range(5)]
    asked = {"effect": OVER_BRIDGE, "claimed": "less"}
    row = verdict_on("drivers_change", cells, **asked)
    assert (row["verdict"], row["repetitions"], row["value"]) == ("undecided", 0, pytest.approx(np.nan, nan_ok=True))
    assert row["missing"].startswith("ovs with 50 pairs: 150 of 250 flows failed: p50 ")
    assert row["missing"].endswith("on how long they would have taken, and is not known")
    assert "to decide: n = not known" in report.display(pd.DataFrame([row]))["Of"].iloc[0]
    whole = [timed_out("bridge", 8.0, 0, at) for at in range(5)] + [timed_out("ovs", 6.0, 20, at) for at in range(5)]
    row = verdict_on("drivers_change", whole, **asked)
    assert (row["verdict"], row["notes"]) == ("holds", "100 of 500 flows failed")
    assert row["value"] == pytest.approx(-25)


def test_one_repetition_whose_flows_failed_counts_them_as_longer_than_all_others():
    cells = [timed_out("bridge", 8.0, 0, at) for at in range(5)]
    cells += [timed_out("ovs", 6.0, 30 if at == 2 else 0, at) for at in range(5)]
    row = verdict_on("drivers_change", cells, effect=OVER_BRIDGE, claimed="less")
    assert (row["repetitions"], row["notes"]) == (5, "30 of 500 flows failed")
    assert -25 < row["value"] < -24


def test_a_system_whose_flows_failed_keeps_its_row_beside_one_that_decides():
    sides = [("bridge", 8.0, 0), ("ovs", 6.0, 30)]
    cells = [timed_out(*side, at) for side in sides for at in range(3)]
    netcat = [
        ending([time_s] * 3, workload="netcat", driver=driver, pairs=3, repetition=at)
        for driver, time_s, _ in sides
        for at in range(3)
    ]
    effect = OVER_BRIDGE | {"of": OVER_BRIDGE["of"] | {"pairs": "most"}}
    claim = claim_of("drivers_change", effect=effect, claimed="less")
    found = verdicts.evaluate(Runs((*cells, *netcat)), claims=[claim])
    assert found.set_index("workload")["verdict"].to_dict() == {"flowgen": "undecided", "netcat": "holds"}


def test_a_percentile_beyond_which_more_flows_failed_than_lie_is_not_told():
    cells = [timed_out("bridge", time_s, failed, at, pairs) for at in range(5) for pairs, time_s, failed in SIDES]
    row = verdict_on("percentile_change", cells, effect=GROWTH | {"quantity": "fct_p99_s"})
    assert (row["verdict"], row["repetitions"]) == ("undecided", 0)
    assert row["missing"] == (
        "bridge with 50 pairs: 10 of 250 flows failed: p99 hangs on how long they would have taken, and is not known"
    )
    row = verdict_on("percentile_change", cells, effect=GROWTH | {"quantity": "fct_median_s"})
    assert (row["verdict"], row["value"]) == ("holds", pytest.approx(50, abs=0.1))  # of all flows, as none had failed


#: Pairs, their median time in s, and how many of them fail.
SIDES = ((20, 0.2, 0), (50, 0.3, 2))


def test_a_percentile_that_failed_flows_hide_in_some_draws_has_no_interval_and_says_so():
    cells = [timed_out("bridge", 0.2, 0, at, 20) for at in range(5)]
    cells += [timed_out("bridge", 0.3, 2 if at == 0 else 0, at, 50) for at in range(5)]
    row = verdict_on("percentile_change", cells, effect=GROWTH | {"quantity": "fct_p98_s"}, id="fct-end-10-50")
    assert row["verdict"] == "undecided"
    assert row["value"] > 40
    assert np.isnan(row["low"])
    assert "no interval: drawn anew, repetitions can hold too many failed flows" in row["notes"]
    told = report.values(pd.DataFrame([row]), Runs(tuple(cells)))
    assert told["fct-end-10-50/netns-flowgen/interval"] == "no interval"
