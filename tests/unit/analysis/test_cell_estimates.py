import numpy as np
import pandas as pd
import pytest
from scipy import stats as tests

from pairlab.analysis import cell_estimates, selection
from pairlab.statistics import changes, intervals


def frame(*rows, **columns):
    made = pd.DataFrame(rows, columns=["driver", "setting", "repetition", "value"])
    return made.assign(backend="netns", workload="flowgen", pairs=4, **columns)


def change(made, **options):
    return cell_estimates.changes(made, selection.CELL, "value", setting="setting", against="none", **options)


def test_a_mean_has_its_interval_its_repetitions_and_what_failed_in_them():
    made = frame(*[("ovs", "none", number, value) for number, value in enumerate([1, 2, 3, 4, 5])])
    cell = cell_estimates.means(made.assign(flows=4, failed_flows=1), selection.CELL, "value", 0.9).iloc[0]
    assert tuple(cell[["value", "low", "high", "n"]]) == pytest.approx(
        tuple(intervals.mean_interval([1, 2, 3, 4, 5], 0.9, intervals.POSITIVE))
    )
    assert (cell["flows"], cell["failed_flows"], cell["confidence"], cell["gap"]) == (20, 5, 0.9, "")


def test_a_repetition_without_a_finite_value_makes_a_gap_and_no_number():
    made = frame(("ovs", "none", 0, 1.0), ("ovs", "none", 1, np.inf), ("ovs", "none", 2, np.nan))
    cell = cell_estimates.means(made, selection.CELL, "value").iloc[0]
    assert np.isnan(cell["value"])
    assert cell["gap"] == "value has no finite value in 2 of 3 repetitions"


def test_a_relative_change_is_the_ratio_within_repetitions_in_percent():
    rows = [("ovs", setting, number, value) for setting, values in SIDES.items() for number, value in enumerate(values)]
    found = change(frame(*rows)).iloc[0]
    change_of = changes.ratio(SIDES["none"], SIDES["pinned"]).estimate()
    assert tuple(found[["value", "low", "high"]]) == pytest.approx(change_of[:3])
    logarithms = np.log(np.array(SIDES["pinned"]) / np.array(SIDES["none"]))
    assert found["p"] == pytest.approx(tests.ttest_1samp(logarithms, 0).pvalue)
    assert (found["setting"], found["n"]) == ("pinned", 4)


SIDES = {"none": [10.0, 20.0, 40.0, 30.0], "pinned": [11.0, 21.0, 46.0, 33.0]}


def test_a_difference_is_in_the_unit_of_the_value():
    found = change(
        frame(*[("ovs", *row) for row in (("none", 0, 0.8), ("none", 1, 0.9), ("new", 0, 0.9))]), relative=False
    )
    assert tuple(found.iloc[0][["value", "n"]]) == pytest.approx((0.1, 1))
    assert np.isnan(found.iloc[0]["low"])


def test_a_repetition_without_its_reference_is_not_used_and_none_at_all_is_a_gap():
    made = frame(("ovs", "none", 0, 10.0), ("ovs", "new", 0, 20.0), ("ovs", "new", 1, 99.0), ("bridge", "new", 0, 5.0))
    found = change(made).set_index("driver")
    assert tuple(found.loc["ovs", ["value", "n"]]) == (pytest.approx(100), 1)
    assert found.loc["bridge", "gap"] == "nothing was measured with setting none"


def test_a_repetition_without_a_value_is_not_left_out_of_a_change():
    rows = [("none", number, 10.0) for number in range(3)] + [("new", 0, 20.0), ("new", 1, np.nan), ("new", 2, 21.0)]
    found = change(frame(*[("ovs", *row) for row in rows])).iloc[0]
    assert np.isnan(found["value"])
    assert found["gap"] == "the change has no finite value in 1 of 6 repetitions"


def test_a_total_of_zero_makes_the_relative_change_a_gap():
    made = frame(*[("ovs", *row) for row in (("none", 0, 10.0), ("new", 0, 0.0), ("none", 1, 10.0), ("new", 1, 5.0))])
    found = change(made).iloc[0]
    assert np.isnan(found["value"])
    assert found["gap"] == "the change has no finite value in 1 of 4 repetitions"


@pytest.mark.parametrize(("n", "few"), [(2, 0), (3, 1), (4, 1), (5, 0)])
def test_means_over_few_repetitions_are_counted_and_changes_are_not(n, few):
    rows = [("ovs", setting, number, 1.0 + number) for setting in ("none", "new") for number in range(n)]
    mean = cell_estimates.means(frame(*rows[:n]), selection.CELL, "value")
    told = cell_estimates.few_repetitions([mean, change(frame(*rows))])
    assert told.partition(" intervals")[0] == (str(few) if few else "")


def beginning(*minutes):
    """Labels of blocks that begin at these minutes."""
    return [f"2024-05-01T{12 + minute // 60:02}:{minute % 60:02}:00.000000Z made up" for minute in minutes]


@pytest.mark.parametrize(
    ("before", "after", "pairing"),
    [
        ((0, 60, 120), (0, 60, 120), "by block"),  # though the blocks are hours apart
        ((0, 61, 122), (1, 60, 121), "unpaired"),  # hours apart, and in turn
        ((0, 1, 2), (3, 4, 5), "unpaired"),  # within ten minutes
        ((0, 60, 120), (180, 240, 300), "measured apart"),
        ((0, 1, 2), (60, 61, 62), "measured apart"),
    ],
)
def test_what_was_measured_side_by_side_is_paired_and_what_was_measured_apart_has_no_interval(before, after, pairing):
    made = frame(*[("ovs", *row) for row in (("none", 0, 10.0), ("none", 1, 20.0), ("none", 2, 40.0))])
    other = made.assign(setting="new", value=1.1 * made["value"])
    blocks = [*beginning(*before), *beginning(*after)]
    found = change(pd.concat([made, other], ignore_index=True).assign(block=blocks)).iloc[0]
    assert found["pairing"] == pairing
    assert found["value"] == pytest.approx(10)
    width = found["high"] - found["low"]
    assert (
        np.isnan(width)
        if pairing == "measured apart"
        else width == pytest.approx(0)
        if pairing == "by block"
        else width > 100
    )


def test_p_is_corrected_over_all_changes_of_a_system():
    rows = [(driver, "none", number, 10.0 + number) for driver in ("ovs", "bridge") for number in range(4)]
    rows += [(driver, "new", number, 10.0 + 1.1 * number + 0.3) for driver in ("ovs", "bridge") for number in range(4)]
    found = change(frame(*rows))
    assert list(found["p_holm"]) == pytest.approx([2 * p for p in found["p"]])


@pytest.mark.whole
def test_changes_without_a_difference_are_found_as_often_as_alpha_says():
    random = np.random.default_rng(5)
    drift = random.normal(10, 2, (1500, 4))
    noisy = drift * random.lognormal(0, 0.05, drift.shape)
    rows = [
        (trial, setting, number, values[trial, number])
        for setting, values in (("none", drift), ("new", noisy))
        for trial in range(len(drift))
        for number in range(4)
    ]
    assert np.mean(change(frame(*rows))["p"] < 0.05) == pytest.approx(
        0.05, abs=0.017
    )  # three standard errors of 1500 draws


def test_equal_latencies_in_whole_microseconds_are_known_within_half_of_one():
    rows = [("ovs", setting, at, value) for at in range(5) for setting, value in (("none", 4e-6), ("core", 5e-6))]
    made = frame(*rows).rename(columns={"value": "latency_p99_s"})
    core, none = cell_estimates.means(made, [*selection.CELL, "setting"], "latency_p99_s").itertuples()
    assert (none.low, none.high) == pytest.approx((3.5e-6, 4.5e-6))
    assert (core.low, core.high) == pytest.approx((4.5e-6, 5.5e-6))
    (found,) = cell_estimates.changes(
        made, selection.CELL, "latency_p99_s", setting="setting", against="none"
    ).itertuples()
    assert (found.low, found.high, found.p) == pytest.approx((0, 57.14, 1), abs=0.01)
