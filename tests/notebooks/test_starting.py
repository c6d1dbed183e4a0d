import numpy as np
import pytest

from pairlab.analysis.questions import starting
from pairlab.store.dataset import Runs
from tests.support import synthetic_flows
from tests.support.executed import Executed


def flows_of(**how):
    return Runs(tuple(synthetic_flows.starting(**how))).flows


@pytest.fixture(scope="module")
def flows():
    """Where a spacing of 57 ms explains all of the difference to Boeira et al. (2021), and one of 30 ms half of it."""
    return flows_of(explained=1.0)


def test_the_tail_grows_by_what_was_put_in_at_each_spacing(flows):
    found = starting.changes(flows).query("q == 0.99 and driver == 'bridge'").set_index("start_spacing_s")["value"]
    assert found[0.0] == pytest.approx(300, rel=0.15)
    assert found[0.057] == pytest.approx(31, abs=20)


def test_a_failed_flow_took_longer_than_any_other(flows):
    cell = starting.percentiles(flows).query("q == 0.5 and driver == 'bridge' and pairs == 10")["value"].iloc[0]
    slow = flows["fct_s"] > cell
    broken = flows.assign(status=np.where(slow, "failed", "ok"), fct_s=flows["fct_s"].where(~slow))
    known = starting.percentiles(broken).query("driver == 'bridge'")
    assert known.query("q == 0.99")["value"].isna().all()
    assert known.query("q == 0.99")["gap"].str.contains("flows failed").all()


def test_few_repetitions_of_one_driver_leave_named_gaps(tmp_path):
    few = synthetic_flows.starting(explained=1.0, drivers=("bridge",), repetitions=2)
    synthetic_flows.write(tmp_path / "few", few)
    done = Executed("09-starting", tmp_path / "few", tmp_path)
    assert "p99 needs at least 100 flows, and there are 20" in done.told("percentiles")
