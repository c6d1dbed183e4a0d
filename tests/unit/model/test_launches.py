"""What a run's launches are summarised to, and what one that failed does to it."""

import math

import pytest

from pairlab import Spec
from pairlab.errors import BadSpec
from pairlab.model import launches
from pairlab.model.tables import table


def rows(*ready_s, failed=0):
    good = [
        {"launch": n, "pair": 0, "side": "server", "status": "ok", "created_s": 0.001, "running_s": 0.002, "ready_s": s}
        for n, s in enumerate(ready_s)
    ]
    bad = [{"launch": 90 + n, "pair": 0, "side": "server", "status": "failed", "error": "no"} for n in range(failed)]
    return table("launches", good + bad)


def test_the_summaries_are_of_the_launch_times():
    found = launches.summaries(rows(0.003, 0.005, 0.010))
    assert found["launch_p50_s"] == 0.005
    assert found["launch_mean_s"] == pytest.approx(0.006)
    assert found["launch_max_s"] == 0.010
    assert found["launch_running_s"] == 0.002
    assert found["launch_reach_s"] == pytest.approx(0.003)


def test_a_launch_that_failed_took_longer_than_any_other():
    found = launches.summaries(rows(0.003, 0.005, failed=1))
    assert found["launch_p50_s"] == 0.005
    assert math.isnan(found["launch_mean_s"])
    assert math.isnan(found["launch_max_s"])
    assert math.isnan(launches.summaries(rows(0.003, failed=2))["launch_p50_s"])


def test_the_phases_add_up_to_the_mean_launch_time():
    found = launches.phases(rows(0.003, 0.005))
    assert found == pytest.approx({"create": 0.001, "start": 0.001, "first answered ping": 0.002})
    assert sum(found.values()) == pytest.approx(0.004)
    assert launches.phases(rows(failed=1)) == {}


def test_launches_send_no_traffic():
    judged = {"max_foreign_cpu": 0.5}, {"max_skew_s": 1.0}, {"interval_s": 1.0}
    for values in ({"flow_bytes": 5}, {"background_pairs": 1}, {"workload": "iperf3"}, *judged):
        with pytest.raises(BadSpec, match="launch"):
            Spec(launches=1, **values)
    assert "invalid if" not in Spec(launches=1)._repr_html_()
    with pytest.raises(BadSpec, match="idle_pairs"):
        Spec(idle_pairs=1)
