import numpy as np
import pandas as pd
import pytest

from pairlab.analysis import cell_estimates, published, repetitions
from pairlab.analysis.questions import throughput
from pairlab.analysis.selection import CELL
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import changes, intervals
from pairlab.store.dataset import Runs
from tests.support.synthetic import run


def rows(*runs):
    return repetitions.table(Runs(runs))


def means(value, *runs):
    return cell_estimates.means(rows(*runs), CELL, value)


@pytest.mark.parametrize(
    ("values", "confidence", "value", "half_width"),
    [
        # NIST/SEMATECH e-Handbook 1.3.5.2 has this formula; t(0.975, 4) = 2.776445, and s = sqrt(2.5).
        ([1, 2, 3, 4, 5], 0.95, 3, 2.776445 * (2.5**0.5) / 5**0.5),
        ([10.0, 12.0, 14.0], 0.99, 12, 9.924843 * 2 / 3**0.5),  # t(0.995, 2), deviation 2
        ([2.0, 2.0, 2.0], 0.95, 2, 0),
        ([7.5], 0.95, 7.5, np.nan),
        ([7.0, 8.0], 0.95, 7.5, np.nan),
    ],
)
def test_the_interval_of_a_mean_is_that_of_a_textbook(values, confidence, value, half_width):
    found = intervals.mean_interval(values, confidence)
    expected = (value, value - half_width, value + half_width, len(values))
    assert tuple(found) == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_intervals_hold_the_true_mean_as_often_as_they_say():
    random = np.random.default_rng(1)
    samples = random.normal(40.0, 3.0, size=(4000, 4))
    held = [found.low <= 40.0 <= found.high for found in map(intervals.mean_interval, samples)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.011)  # three standard errors of 4000 draws


def test_no_repetition_and_no_finite_value_are_errors():
    with pytest.raises(TooFewSamples, match="at least one repetition"):
        intervals.mean_interval([])
    with pytest.raises(AnalysisError, match="finite"):
        intervals.mean_interval([1.0, float("nan")])
    with pytest.raises(AnalysisError, match="between 0 and 1"):
        intervals.mean_interval([1.0, 2.0], confidence=95)


@pytest.mark.parametrize(("rates", "index"), [([3, 3, 3], 1.0), ([5, 0, 0, 0], 0.25), ([1, 2, 3], 36 / 42), ([4], 1.0)])
def test_jain_index_has_its_known_values(rates, index):
    assert intervals.jain_index(rates) == pytest.approx(index)


def test_jain_index_of_nothing_sent_is_unknown_and_of_nobody_an_error():
    assert np.isnan(intervals.jain_index([0, 0]))
    with pytest.raises(TooFewSamples):
        intervals.jain_index([])


def test_intervals_are_over_repetitions_and_not_over_flows():
    made = [run([1, 9], repetition=0), run([9, 3], repetition=1), run([6, 8], repetition=2)]
    cell = means("total_bps", *made).iloc[0]
    expected = intervals.mean_interval([10e9, 12e9, 14e9], scale=intervals.POSITIVE)
    assert cell["n"] == 3
    assert (cell["value"], cell["low"], cell["high"]) == pytest.approx(expected[:3])
    assert means("client_bps", *made)["value"].item() == pytest.approx(6e9)


def test_backends_and_workloads_are_not_pooled():
    found = means("total_bps", run([1]), run([3], backend="docker"), run([5], workload="iperf"))
    assert sorted(found["value"]) == [1e9, 3e9, 5e9]


def test_two_runs_for_one_repetition_are_refused():
    one, other = run([1]), run([2], seed=5)
    claim = r"2 runs claim to be repetition 0 of bridge with 1 pairs \(netns, flowgen\)"
    differ = rf"{one.key}, {other.key}, which differ in seed \(0, 5\)\. Name one sweep"
    with pytest.raises(AnalysisError, match=f"{claim}: {differ}"):
        rows(one, other)


def test_runs_of_different_lengths_are_refused():
    with pytest.raises(AnalysisError, match=r"differ in asked_duration_s \(2.0, 60.0\)"):
        rows(run([1]), run([2], repetition=1, duration_s=60.0))


def totals(*rows):
    frame = pd.DataFrame(rows, columns=["driver", "pairs", "repetition", "total_bps"])
    return frame.assign(backend="netns", workload="flowgen")


def test_the_shape_divides_each_repetition_by_the_reference_of_the_same_repetition():
    found = throughput.normalised_shape(
        totals(
            *(("bridge", 10, 0, 10.0), ("bridge", 10, 1, 20.0), ("bridge", 10, 2, 40.0)),
            *(("ovs", 10, 0, 12.0), ("ovs", 10, 1, 26.0), ("ovs", 10, 2, 50.0)),
        )
    )
    ovs = found.cells.set_index("driver").loc["ovs"]
    expected = changes.ratio([10, 20, 40], [12, 26, 50]).estimate()
    assert (ovs["value"], ovs["low"], ovs["high"]) == pytest.approx([1 + bound / 100 for bound in expected[:3]])
    bridge = found.cells.set_index("driver").loc["bridge"]
    assert (bridge["value"], bridge["low"], bridge["high"]) == (1, 1, 1)


def test_the_shape_leaves_out_a_repetition_without_its_reference_and_keeps_the_others():
    found = throughput.normalised_shape(
        totals(("bridge", 10, 1, 10.0), ("ovs", 2, 0, 99.0), ("ovs", 2, 1, 5.0))
    ).cells.set_index("driver")
    assert (found.loc["ovs", "value"], found.loc["ovs", "n"]) == (pytest.approx(0.5), 1)


def test_a_system_without_the_reference_is_left_out_with_the_reason():
    found = throughput.normalised_shape(totals(("bridge", 5, 0, 10.0), ("ovs", 10, 0, 10.0)))
    assert found.cells.empty
    assert found.left_out == ("netns, flowgen: no bridge at 10 pairs to be the reference",)


def test_the_reference_may_be_the_most_pairs_there_are():
    found = throughput.normalised_shape(totals(("bridge", 5, 0, 8.0), ("ovs", 5, 0, 10.0)), pairs=None).cells
    assert found.set_index("driver").loc["ovs", "value"] == pytest.approx(1.25)
    assert set(found["reference_pairs"]) == {5}


def test_published_totals_have_the_shape_that_the_table_shows():
    found = throughput.normalised_shape(published.load("throughput"), by=["paper"]).cells
    cell = found.set_index(["driver", "pairs"])["value"]
    assert cell["ovs", 10] == pytest.approx(71.4690 / 56.3890)
    assert cell["macvlan", 100] == pytest.approx(70.1300 / 56.3890)
