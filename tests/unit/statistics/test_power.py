"""The noise of equals: no difference is found more often than said, planted ones as often as promised; plans by it."""

import numpy as np
import pytest
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import changes, power
from pairlab.statistics.intervals import ALPHA
from tests.support.simulated import likely

#: What hosts show between repetitions of a cell: of shaped links, of a quiet host, of a busy one.
NOISES = (0.003, 0.03, 0.1)


def measured(random, repetitions, *, spread, change=0.0, drift=0.05):
    """Two measurements in each repetition; what drifts is common to both."""
    common = random.normal(20, drift, repetitions)
    first, second = (np.exp(common + random.normal(0, spread, repetitions)) for _ in range(2))
    return first, second * (1 + change)


@pytest.mark.parametrize("spread", NOISES)
@pytest.mark.parametrize("repetitions", [3, 5, 20])
def test_equals_are_called_different_no_more_often_than_the_level(repetitions, spread, record_property):
    random, n = np.random.default_rng([repetitions, round(1000 * spread)]), 400
    found = [changes.change(*measured(random, repetitions, spread=spread)) for _ in range(n)]
    within, ranks = sum(each.differs() for each in found), sum(each.p_ranks <= ALPHA for each in found)
    record_property("false_positives_t", within / n)
    record_property("false_positives_ranks", ranks / n)
    assert 0.005 * n < within <= power.most_rejections(n)
    assert ranks <= power.most_rejections(n)


@pytest.mark.parametrize("spread", NOISES)
@pytest.mark.parametrize("cost", [0.05, 0.10, 0.20])
def test_a_planted_cost_is_found_at_the_promised_power_and_its_size_is_in_the_interval(cost, spread, record_property):
    effect, contrast = -np.log1p(-cost), spread * np.sqrt(2)
    repetitions = next(n for n in range(3, 200) if power.smallest_detectable(contrast, n, paired=True) <= effect)
    random, n = np.random.default_rng([round(100 * cost), round(1000 * spread)]), 400
    found = [changes.change(*measured(random, repetitions, spread=spread, change=-cost)) for _ in range(n)]
    detected = sum(each.differs() and each.change_percent < 0 for each in found)
    covered = sum(each.low_percent <= -100 * cost <= each.high_percent for each in found)
    record_property(f"power at n = {repetitions}", detected / n)
    record_property("coverage", covered / n)
    assert detected >= stats.binom.ppf(0.001, n, power.POWER)
    assert likely(covered, n, 1 - ALPHA)


@pytest.mark.parametrize("spread", NOISES)
@pytest.mark.parametrize("repetitions", [3, 5, 10, 20])
def test_two_groups_tell_the_smallest_detectable_effect_as_often_as_the_formula_says(repetitions, spread):
    effect = power.smallest_detectable(spread, repetitions)
    random, n = np.random.default_rng(5), 4000
    first, second = random.normal(0, spread, (2, n, repetitions))
    found = int((stats.ttest_ind(first, second + effect, axis=1).pvalue <= ALPHA).sum())
    assert likely(found, n, power.POWER)


def test_the_smallest_detectable_effects_are_those_of_the_tables():
    # G*Power 3.1, two-sided 0.05, power 0.8: 20 of each group find d = 0.909, and 34 differences d = 0.495.
    assert power.smallest_detectable(1.0, 20) == pytest.approx(0.909, abs=1e-3)
    assert power.smallest_detectable(1.0, 34, paired=True) == pytest.approx(0.495, abs=1e-3)
    assert power.smallest_detectable(0.02, 20) == pytest.approx(0.02 * power.smallest_detectable(1.0, 20))
    assert power.smallest_detectable(1.0, 1) == np.inf


def test_simulation_from_what_was_measured_agrees_with_the_formula_where_noise_is_normal():
    values = np.exp(np.random.default_rng(1).normal(3, 0.03, 200))
    for repetitions in (3, 5, 20):
        effect = power.smallest_detectable(power.spread(values), repetitions)
        assert power.simulated_power(values, effect, repetitions) == pytest.approx(power.POWER, abs=0.03)
        assert power.simulated_power(values, 0.0, repetitions) == pytest.approx(ALPHA, abs=0.02)


def test_simulation_tells_where_a_few_wild_values_make_the_formula_promise_too_much():
    values = np.exp(np.r_[np.linspace(-0.01, 0.01, 32), np.linspace(1, 1.2, 8)])
    assert power.simulated_power(values, power.smallest_detectable(power.spread(values), 3), 3) < 0.7


def test_what_drifts_from_repetition_to_repetition_is_no_noise_within_them():
    first, second = measured(np.random.default_rng(3), 2000, spread=0.02, drift=0.2)
    assert power.spread_within(changes.ratio(first, second)) == pytest.approx(0.02, rel=0.1)
    assert power.variation(np.r_[first, second]) == pytest.approx(0.2, rel=0.1)


def test_the_coefficient_of_variation_is_the_textbooks():
    assert power.variation([1e9, 2e9, 3e9]) == pytest.approx(0.5)
    assert power.variation([7.0, 7.0, 7.0]) == 0.0


def test_a_change_is_told_in_percent_with_the_interval_of_its_ratios():
    told = changes.change([100, 100, 100], [80, 90, 100])
    logs = np.log([0.8, 0.9, 1.0])
    half = 4.302653 * logs.std(ddof=1) / np.sqrt(3)
    assert told.change_percent == pytest.approx(100 * (np.exp(logs.mean()) - 1))
    assert told.low_percent == pytest.approx(100 * (np.exp(logs.mean() - half) - 1), rel=1e-5)
    assert (told.repetitions, told.differs()) == (3, False)


@pytest.mark.parametrize("paired", [True, False])
def test_values_that_never_vary_have_no_interval_unless_their_step_is_known(paired):
    same = changes.change([5, 5, 5], [4, 4, 4], paired=paired)
    assert same.change_percent == pytest.approx(-20)
    assert np.isnan([same.low_percent, same.high_percent, same.p]).all()
    found = changes.ratio([5, 5, 5], [4, 4, 4], paired=paired, resolutions=(0.1, 0.1)).estimate()
    assert found.low < -20 < found.high < 0


def test_of_values_that_never_vary_an_effect_is_found_or_there_is_none():
    assert power.simulated_power([5, 5, 5], 0.0, 3) == 0
    assert power.simulated_power([5, 5, 5], 0.1, 3) == 1


def test_no_more_differences_between_equals_are_allowed_than_chance_gives():
    assert power.most_rejections(1) == 1
    assert power.most_rejections(8) == 3
    assert power.most_rejections(1000) == stats.binom.ppf(0.999, 1000, 0.05) < 75


def test_what_tells_no_noise_is_refused():
    with pytest.raises(TooFewSamples, match="1 repetitions show no noise, 2 are needed"):
        power.variation([1])
    with pytest.raises(AnalysisError, match="no value above zero"):
        power.spread([1, 0, 2])
    with pytest.raises(AnalysisError, match="3 values cannot be paired with 2"):
        changes.change([1, 2, 3], [1, 2])


@pytest.mark.parametrize(("effect", "needed"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_so_many_repetitions_are_needed_as_the_tables_say(effect, needed):
    # One-sample t test, two-sided 0.05, power 0.8: the sizes that G*Power gives for Cohen's small, medium and large.
    assert power.repetitions_needed(effect, 1) == needed
    assert power.repetitions_needed(-5 * effect, 5) == needed


def test_that_many_repetitions_find_the_difference_as_often_as_asked():
    needed, random = power.repetitions_needed(1.3, 1, power=0.9), np.random.default_rng(11)

    def found(repetitions):
        samples = random.normal(1.3, 1, (20_000, repetitions))
        return np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05)

    assert found(needed) >= 0.895
    assert found(needed - 1) < 0.895


def test_no_number_of_repetitions_shows_that_nothing_is_something_and_what_never_varies_needs_as_many_as_an_interval():
    assert power.repetitions_needed(0.0, 1.0) is None
    assert power.repetitions_needed(0.0001, 1.0) is None
    assert power.repetitions_needed(5.0, 0.0) == power.repetitions_needed(5.0, 1e-6) == 3
    assert power.repetitions_needed(np.nan, 1.0) is None
    with pytest.raises(AnalysisError, match="power is a share"):
        power.repetitions_needed(1.0, 1.0, power=80)
