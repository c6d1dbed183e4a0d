"""Runs in which nothing is sent: of the network that carries nothing, and of tools that only compute."""

import pytest

from pairlab import Spec, measure
from pairlab.errors import BadSpec
from pairlab.model.summaries import default_measure, summaries
from tests.conftest import any_backend, need
from tests.support.attempts import measured, sound_run


@pytest.mark.parametrize("backend", any_backend())
def test_what_a_container_without_a_network_cannot_reach_is_the_result(backend, runs_dir, clean_host):
    need(backend, "none")
    run = measure(Spec(backend=backend, driver="none", workload="flowgen", pairs=2, duration_s=1.0))
    assert (run.status, run.reasons) == ("ok", ())
    assert run.facts["links"] == {f"{side}-{pair}": ["lo"] for side in ("client", "server") for pair in range(2)}
    assert list(zip(run.flows["pair"], run.flows["flow"], strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert set(run.flows["status"]) == {"failed"}
    assert run.flows["error"].str.endswith("Connection refused").to_list() == [True, False] * 2
    assert run.flows["error"].str.endswith("Network is unreachable").to_list() == [False, True] * 2


def test_other_tools_over_no_network_are_refused(runs_dir):
    with pytest.raises(BadSpec, match="carries no traffic: take another to measure it, or workload 'flowgen'"):
        measure(Spec(driver="none", workload="iperf"))


@pytest.mark.parametrize("backend", any_backend())
def test_a_fixed_number_of_operations_takes_its_time_and_carries_nothing(backend, runs_dir, clean_host):
    run = sound_run(Spec(backend=backend, workload="stress-ng-cpu", duration_s=30.0, max_foreign_cpu=1.0))
    (flow,) = run.flows.itertuples()
    assert flow.calculation_s == flow.duration_s > 0.1
    assert flow.throughput_bps != flow.throughput_bps
    assert 0.05 < flow.client_cpu_s / flow.calculation_s < 1.1  # beside others' load it has a part of a CPU
    assert run.sends_nothing
    assert summaries(run) == {"calculation_s": flow.calculation_s}
    assert default_measure([run]) == "calculation_s"
    assert "Gbit/s" not in run.outcome


def test_operations_that_take_longer_than_they_may_have_failed(runs_dir, clean_host):
    need("netns", workload="stress-ng-cpu")
    run = measured(Spec(workload="stress-ng-cpu", duration_s=1.0, pairs=8, max_foreign_cpu=1.0, max_skew_s=5.0))
    assert run.status == "failed"
    assert set(run.flows["error"].str.contains("operations were done in the time: make duration_s longer")) == {True}
