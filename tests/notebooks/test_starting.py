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


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_part_that_was_put_in_is_found_in_its_interval(share):
    made = flows_of(explained=share, drivers=("bridge",), spacings_s=(0.0, 0.057))
    (row,) = starting.explained(made).itertuples()
    assert (row.start_spacing_s, row.n, row.gap) == (0.057, 10, "")
    assert row.value == pytest.approx(share, abs=0.12)
    assert row.low <= share <= row.high
    assert row.high - row.low < 0.5


@pytest.mark.whole
def test_half_of_the_spacing_explains_half_of_it(flows):
    found = starting.explained(flows).set_index(["driver", "start_spacing_s"])["value"]
    assert found["bridge", 0.03] == pytest.approx(0.5, abs=0.1)
    assert found["ovs", 0.057] == pytest.approx(1, abs=0.1)


def test_the_tail_grows_by_what_was_put_in_at_each_spacing(flows):
    found = starting.changes(flows).query("q == 0.99 and driver == 'bridge'").set_index("start_spacing_s")["value"]
    assert found[0.0] == pytest.approx(300, rel=0.15)
    assert found[0.057] == pytest.approx(31, abs=20)


def test_where_our_tail_grows_as_the_papers_there_is_nothing_to_explain():
    found = starting.explained(flows_of(explained=0.0, growth=1.32, drivers=("bridge",)))
    assert found["value"].isna().all()
    assert set(found["gap"]) == {
        "the change where all start together does not differ from the paper's: there is nothing to explain"
    }


def test_without_clients_that_start_together_nothing_can_be_explained_and_it_says_why(flows):
    found = starting.explained(flows[flows["start_spacing_s"] > 0])
    assert set(found["gap"]) == {"there are no runs of 10 pairs with starts 0 ms apart"}


def test_drivers_of_which_the_paper_states_nothing_are_left_out(flows):
    assert starting.explained(flows.assign(driver="host")).empty


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
    assert "explained-missing" in done.values("09-starting")
    assert "/explained}" not in done.values("09-starting")
