import numpy as np
import pytest

from pairlab.model.summaries import MEASURES, summaries
from tests.support.synthetic import ending, run


def test_a_run_has_the_total_or_completion_times_and_each_by_the_name_of_a_measure():
    assert summaries(run([1, 2], failed=1)) == {"total_bps": 1e9}
    times_s = np.arange(1.0, 51.0)
    assert summaries(ending(times_s)) == {
        "fct_median_s": 25.5,
        "fct_mean_s": 25.5,
        "fct_p99_s": pytest.approx(49.51),
        "fct_max_s": 50.0,
    }
    assert ["total_bps", *summaries(ending(times_s))] == list(MEASURES)


def test_completion_times_are_of_all_flows_and_nan_where_they_hang_on_those_that_failed():
    found = summaries(ending(np.arange(1.0, 51.0), failed=20))
    assert found["fct_median_s"] == 25.5
    assert np.isnan([found[name] for name in ("fct_mean_s", "fct_p99_s", "fct_max_s")]).all()
    assert np.isnan(list(summaries(ending([6.0] * 50, failed=30)).values())).all()
