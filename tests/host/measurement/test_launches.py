"""Launches on real networks: the phases are in their order, what answers is what was launched, and nothing is left."""

import pytest

from pairlab import Spec, load_runs, measure
from pairlab.errors import BadSpec
from pairlab.measurement.checks import CHECKS
from tests.conftest import need_all_of
from tests.support.attempts import measured

#: The checks that other load on the machine fails, however launches went.
OF_OTHERS = {"foreign_cpu", "others_cpu", "steal"}


def launched(tmp_path, **values):
    spec = Spec(experiment="launch-time", launches=2, **values)
    need_all_of(spec)
    run = measured(spec, root=tmp_path)
    unmet = {name for name, value in run.checks.items() if CHECKS[name].reason(value, run.spec)}
    assert unmet <= OF_OTHERS, run.reasons
    assert (run.launches["status"] == "ok").all(), run.launches["error"].to_list()
    return run


def test_on_a_bridge_each_phase_follows_the_one_before_and_the_table_is_read_again(tmp_path):
    run = launched(tmp_path, pairs=3, idle_pairs=1)
    (read,) = load_runs(tmp_path, experiment="launch-time")
    assert read.launches.equals(run.launches)
    assert len(read.flows) == 0
    assert "launch p50" in str(read)
    found = run.launches
    assert sorted(zip(found["launch"], found["pair"], strict=True)) == [(n, pair) for n in (0, 1) for pair in (0, 1, 2)]
    assert (found["created_s"] > 0).all()
    assert (found["running_s"] >= found["created_s"]).all()
    assert (found["attached_s"] >= found["running_s"]).all()
    assert (found["first_ping_s"] >= found["link_up_s"]).all()
    assert (found["ready_s"] == found["first_ping_s"]).all()


@pytest.mark.parametrize("driver", ["none", "host", "container", "macvlan"])
def test_every_kind_of_network_is_ready_when_it_runs_and_answers(tmp_path, driver):
    found = launched(tmp_path, driver=driver).launches
    assert (found["ready_s"] >= found["running_s"]).all()
    assert found["first_ping_s"].isna().all() == (driver == "none")


@pytest.mark.parametrize("driver", ["overlay", "nat"])
def test_a_launch_is_reached_from_another_host(tmp_path, driver):
    found = launched(tmp_path, driver=driver, hosts=2, placement="across").launches
    assert set(found["host"]) == {"host-1"}
    assert found["first_ping_s"].notna().all() == (driver == "overlay")


def test_a_network_that_is_not_there_before_both_ends_is_refused(tmp_path):
    with pytest.raises(BadSpec, match="p2p"):
        measure(Spec(launches=1, driver="p2p"), root=tmp_path)
