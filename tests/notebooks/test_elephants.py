import numpy as np
import pandas as pd
import pytest

from pairlab.analysis.questions import elephants
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.store.dataset import Runs
from tests.support import synthetic_flows
from tests.support.synthetic_flows import SLOWNESS


@pytest.fixture(scope="module")
def flows():
    return Runs(tuple(synthetic_flows.elephants())).flows


@pytest.fixture(scope="module")
def plain():
    return Runs(tuple(synthetic_flows.fct(workloads=("flowgen",), failed=False))).flows


@pytest.mark.whole
def test_mice_that_take_twice_as_long_are_found_to(plain, flows):
    found = elephants.mice_beside_plain(flows, plain).query("q == 0.5 and driver == 'bridge'")
    assert len(found) == 4
    assert found["value"].mean() == pytest.approx(100, abs=12)
    assert (found["low"] < 100).all()
    assert (found["high"] > 100).all()


def test_mice_of_another_size_than_the_plain_flows_are_not_compared(plain, flows):
    found = elephants.mice_beside_plain(flows, plain.assign(asked_flow_bytes=1_000_000))
    assert set(found["gap"]) == {"flows differ in size"}
    assert found["value"].isna().all()


def test_the_drivers_spread_is_that_of_their_medians_and_the_host_is_left_out(flows):
    found = elephants.spread(flows).query("backend == 'netns' and pairs == 50").set_index("role")
    true = {"elephant": 1 / SLOWNESS["ovs"], "mouse": SLOWNESS["ovs"] ** -0.25}
    for role, spread in true.items():
        assert found.loc[role, "low"] < spread < found.loc[role, "high"]
    assert found.loc["ratio", "low"] > 1
    slow = flows.assign(driver="host", fct_s=flows["fct_s"] * 100)
    with_host = elephants.spread(pd.concat([flows, slow])).query("backend == 'netns' and pairs == 50")
    assert list(with_host["value"]) == pytest.approx(list(found["value"]))


def test_a_driver_whose_slow_flows_failed_makes_the_spread_a_gap_and_does_not_narrow_it(flows, tmp_path):
    cell = flows[(flows["backend"] == "netns") & (flows["pairs"] == 50)].copy()
    mine = (cell["driver"] == "bridge") & (cell["role"] == "mouse")
    limit_s = cell.loc[mine, "fct_s"].quantile(0.4)
    cell.loc[mine & (cell["fct_s"] > limit_s), ["status", "fct_s"]] = ["failed", np.nan]
    found = elephants.spread(cell).set_index("role")
    whole = elephants.spread(flows).query("backend == 'netns' and pairs == 50").set_index("role")
    assert found.loc["elephant", "value"] == whole.loc["elephant", "value"]
    assert found.loc[["mouse", "ratio"], "value"].isna().all()
    assert found.loc[["mouse", "ratio"], "gap"].str.contains("flows failed: p50").all()
    assert set(elephants._SPREAD.texts(found.loc[["mouse", "ratio"]], "pairs").values()) == {"–"}


def test_the_interval_of_a_spread_holds_the_true_one_about_as_often_as_it_says():
    random, true = np.random.default_rng(3), {"bridge": 0.3, "macvlan": 0.1, "ovs": 0.0}
    repetition = np.repeat(range(6), 50)
    held = 0
    for _ in range(200):
        drift = random.normal(0, 0.1, 6)[repetition]
        sides = [
            Clusters.of(
                np.exp(level + drift + random.normal(0, 0.03, 6)[repetition] + random.normal(0, 0.2, 300)), repetition
            )
            for level in true.values()
        ]
        found = quantiles.most_over_least(sides, 0.5, resamples=200).estimate()
        held += found.low <= np.exp(0.3) <= found.high
    assert 0.9 <= held / 200 <= 0.995
