"""Tables of percentiles and CDFs by group: what failed, what is not told, and rows in any order."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pairlab import store
from pairlab.analysis import by_group, flow_changes
from pairlab.analysis.selection import CELL
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.store.dataset import Runs, load_runs
from tests.support.simulated import lognormal
from tests.support.synthetic import ending

QS = (0.5, 0.9, 0.99)
#: The columns that parts of many flows have.
FEW = [*CELL, "repetition", "block", "key", "host", "kernel", "status", "fct_s"]


def frame(values, repetition, **columns):
    return pd.DataFrame({"driver": "ovs", "repetition": repetition, "fct_s": values, "status": "ok"} | columns)


def test_what_others_took_of_the_runs_is_with_the_flows_whichever_of_these_failed(tmp_path):
    for repetition, (share, failed) in enumerate([(0.02, 0), (0.04, 2)]):
        made = ending([1.0, 2.0, 3.0, 4.0], failed=failed, repetition=repetition)
        store.write(replace(made, checks={"others_cpu": share}), tmp_path)
    runs = load_runs(tmp_path)
    for flows in (runs, runs.flows, runs.flows[runs.flows["fct_s"] > 0], runs.select("flows", FEW)):
        (group,) = by_group.grouped(flows, CELL, "fct_s")
        assert group.clusters.lost == pytest.approx(0.03)
    assert group.clusters.failed == 2
    assert by_group.grouped(runs.where(repetition=1).flows, CELL, "fct_s")[0].clusters.lost == 0.04
    assert flow_changes.clusters_of(runs.flows).lost == pytest.approx(0.03)


def test_a_change_of_completion_times_is_not_told_apart_by_what_others_took_of_one_sides_time(tmp_path):
    """Flows of ovs last 10 % longer. Where others had a tenth of its time, and none of bridge's, that may be why."""
    certain = {}
    for share in (0.0, 0.1):
        runs = []
        for repetition, (driver, factor) in itertools.product(range(8), [("bridge", 1.0), ("ovs", 1.1)]):
            times_s, _ = lognormal(np.random.default_rng(repetition), 1, 200)
            made = ending([*(factor * times_s)], driver=driver, repetition=repetition)
            runs.append(replace(made, checks={"others_cpu": share * (driver == "ovs")}))
        change = flow_changes.by_driver(Runs(tuple(runs))).set_index("q").loc[0.5]
        assert change["value"] == pytest.approx(10)
        certain[share] = change["low"] > 0
    assert certain == {0.0: True, 0.1: False}


# --- tables of percentiles


def test_the_table_has_for_each_group_what_percentile_gives():
    random = np.random.default_rng(4)
    parts = {driver: lognormal(random, 4, 60, level=level) for driver, level in (("ovs", 0.0), ("bridge", 1.0))}
    flows = pd.concat([frame(*part, driver=driver) for driver, part in parts.items()]).sample(frac=1, random_state=1)
    found = by_group.of(flows, ["driver"], "fct_s").percentiles(QS)
    assert list(found["driver"]) == ["bridge"] * 3 + ["ovs"] * 3
    for row in found.itertuples():
        expected = quantiles.percentile(Clusters.of(*parts[row.driver]), row.q).estimate()
        assert (row.value, row.low, row.high, row.n) == expected
        assert (row.flows, row.failed_flows, row.gap, row.confidence) == (240, 0, "", 0.95)


def test_categories_as_of_chosen_columns_give_the_same_table():
    flows = frame(*lognormal(np.random.default_rng(4), 4, 60), key="x").assign(
        pairs=np.tile([10, 50], 120), driver=np.repeat(["ovs", "bridge"], 120)
    )
    flows["key"] = flows["driver"] + flows["pairs"].astype(str) + flows["repetition"].astype(str)
    once = flows.astype(dict.fromkeys(["driver", "pairs", "repetition", "key", "status"], "category"))
    by = ["driver", "pairs"]
    plain = by_group.of(flows, by, "fct_s").percentiles(QS)
    pd.testing.assert_frame_equal(by_group.of(once, by, "fct_s").percentiles(QS), plain, check_dtype=False)
    assert len(plain) == 12


def test_rows_in_any_order_give_the_same_table(monkeypatch):
    flows = frame(*lognormal(np.random.default_rng(4), 4, 60), role=np.tile(["mouse", "mouse", "elephant"], 80))
    told = by_group.of(flows, ["driver", "role"], "fct_s").percentiles(QS)
    monkeypatch.setattr(by_group, "_SCATTERED", 10)
    pd.testing.assert_frame_equal(by_group.of(flows, ["driver", "role"], "fct_s").percentiles(QS), told)
    assert list(told["flows"]) == [80] * 3 + [160] * 3


def test_failed_flows_lie_beyond_all_others_and_a_percentile_that_hangs_on_them_is_a_gap():
    flows = frame(np.arange(1.0, 1001), np.repeat(range(5), 200))
    flows.loc[flows.index[-20:], ["status", "fct_s"]] = ["failed", np.nan]
    found = by_group.of(flows, ["driver"], "fct_s").percentiles((0.5, 0.975, 0.99))
    assert list(found["failed_flows"]) == [20] * 3
    assert list(found["flows"]) == [1000] * 3
    assert list(found["value"][:2]) == pytest.approx(
        list(np.quantile(np.arange(1.0, 1001), (0.5, 0.975), method="median_unbiased"))
    )
    assert list(found["gap"][:2]) == ["", ""]
    assert found["gap"][2] == "20 of 1000 flows failed: p99 hangs on how long they would have taken, and is not known"
    assert np.isnan(found.loc[2, ["value", "low", "high"]].astype(float)).all()


def test_what_a_failed_flow_measured_before_it_failed_is_not_used():
    flows = frame([1.0, 2.0, 3.0, 900.0] * 10, np.repeat(range(4), 10))
    flows.loc[flows["fct_s"] == 900, "status"] = "failed"
    found = by_group.of(flows, ["driver"], "fct_s").percentiles((0.5,))
    assert (found["value"][0], found["failed_flows"][0]) == (pytest.approx(2.5), 10)


def test_too_few_flows_and_a_tool_that_does_not_tell_are_gaps_in_words():
    flows = pd.concat(
        [
            frame(np.arange(1.0, 51), np.repeat(range(5), 10)),
            frame([np.nan] * 10, range(10), driver="none"),
            frame([np.nan, 2.0], [0, 1], driver="some", status=["ok", "ok"]),
            frame([np.nan] * 3, range(3), driver="all failed", status="failed"),
        ]
    )
    found = by_group.of(flows, ["driver"], "fct_s").percentiles((0.5, 0.99)).set_index(["driver", "q"])["gap"]
    assert found["ovs", 0.5] == ""
    assert found["ovs", 0.99] == "p99 needs at least 100 flows, and there are 50: measure more repetitions or pairs"
    assert found["none", 0.5] == "10 of 10 flows are ok and have no fct_s: their tool does not report it"
    assert found["some", 0.5] == "1 of 2 flows are ok and have no fct_s: their tool does not report it"
    assert found["all failed", 0.5].startswith("3 of 3 flows failed")


def test_runs_that_claim_the_same_repetition_are_not_pooled():
    flows = frame(np.arange(1.0, 21), np.repeat(range(2), 10), key=np.tile(["a", "b"], 10), pairs=np.tile([1, 2], 10))
    with pytest.raises(AnalysisError, match=r"repetition 0 of ovs: a, b, which differ in pairs \(1, 2\)\. Name what"):
        by_group.of(flows, ["driver"], "fct_s")
    assert len(by_group.of(flows, ["driver", "pairs"], "fct_s").percentiles((0.5,))) == 2


def test_a_column_that_there_is_not_is_named():
    with pytest.raises(AnalysisError, match="there is no column pairs; there are: driver, repetition"):
        by_group.of(frame([1.0], [0]), ["driver", "pairs"], "fct_s")


# --- tables of CDFs


def test_the_cdf_of_each_group_tells_what_failed_in_it():
    flows = pd.concat(
        [
            frame([1.0, 2.0, 3.0, np.nan], [0, 0, 1, 1], status=["ok", "ok", "ok", "failed"]),
            frame([5.0, 6.0], [0, 1], driver="bridge"),
            frame([np.nan], [0], driver="none", status="failed"),
        ]
    )
    found = by_group.of(flows, ["driver"], "fct_s").cdf()
    assert list(found["driver"]) == ["bridge"] * 4 + ["ovs"] * 6
    assert list(found["value"]) == [5, 5, 6, 6, 1, 1, 2, 2, 3, 3]
    assert list(found["share"]) == [0, 1 / 2, 1 / 2, 1, 0, 1 / 4, 1 / 4, 1 / 2, 1 / 2, 3 / 4]
    assert list(found["flows"]) == [2] * 4 + [4] * 6
    assert list(found["failed_flows"]) == [0] * 4 + [1] * 6
    assert list(found["repetitions"]) == [2] * 10


def test_a_line_that_ends_below_one_gives_the_quantiles_of_all_flows():
    random = np.random.default_rng(4)
    flows = frame(*lognormal(random, 4, 2000)).sort_values("fct_s", ignore_index=True)
    whole = flows["fct_s"].copy()
    flows.loc[6000:, ["status", "fct_s"]] = ["failed", np.nan]
    line = by_group.of(flows, ["driver"], "fct_s").cdf(points=100)
    assert line["share"].iloc[-1] == pytest.approx(0.75, abs=1e-3)
    for q in (0.1, 0.5, 0.74):
        assert np.interp(q, line["share"], line["value"]) == pytest.approx(np.quantile(whole, q), rel=2e-3)
    alone = frame([3.0, np.nan], [0, 1], status=["ok", "failed"])
    assert by_group.of(alone, ["driver"], "fct_s").cdf()[["value", "share"]].to_numpy().tolist() == [[3, 0], [3, 0.5]]


def test_both_tables_of_flows_grouped_once_are_those_of_flows_grouped_for_each():
    random = np.random.default_rng(4)
    flows = pd.concat([frame(*lognormal(random, 4, 60), driver=driver) for driver in ("ovs", "bridge")])
    flows.iloc[:9, flows.columns.get_indexer(["status", "fct_s"])] = ["failed", np.nan]
    once = by_group.of(flows, ["driver"], "fct_s")
    lines, table = once.cdf(points=50), once.percentiles(QS, confidence=0.9)
    pd.testing.assert_frame_equal(table, by_group.of(flows, ["driver"], "fct_s").percentiles(QS, confidence=0.9))
    pd.testing.assert_frame_equal(lines, by_group.of(flows, ["driver"], "fct_s").cdf(points=50))
    assert set(table["confidence"]) == {0.9}
    assert set(lines["failed_flows"]) == {0, 9}


def test_a_flow_that_is_ok_and_took_for_ever_is_an_error():
    flows = frame([1.0, np.inf, 2.0, np.nan], [0, 0, 1, 1], status=["ok", "ok", "ok", "failed"])
    with pytest.raises(AnalysisError, match="a flow that did not fail has no finite value"):
        by_group.of(flows, ["driver"], "fct_s")


def test_where_no_flow_has_a_value_there_is_no_cdf():
    with pytest.raises(TooFewSamples, match="no flow has a fct_s"):
        by_group.of(frame([np.nan], [0], status="failed"), ["driver"], "fct_s").cdf()
