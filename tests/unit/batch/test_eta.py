"""How long the rest of a sweep takes: guessed at first, and then told by the cells themselves."""

from dataclasses import replace

import pytest

from pairlab import Spec, store
from pairlab.batch import runner
from pairlab.measurement.estimate import OVERHEAD_S
from pairlab.model import flow_sizes
from pairlab.testbed import environment
from tests.support.runs import made_up
from tests.support.sweeps import SEVERAL, Executor, load


def estimate_here(todo, **how):
    return runner.estimate_s(store.statuses(todo, environment=environment.here), **how)


def test_before_anything_is_measured_the_estimate_is_traffic_and_a_guess(tmp_path, runs_dir):
    todo = runner.cells(load(tmp_path))
    assert estimate_here(todo) == 8 * (2 + OVERHEAD_S)
    Executor()(todo[0])
    assert estimate_here(todo) == 7 * (2 + OVERHEAD_S)


def test_of_a_shared_sweep_what_another_host_has_measured_is_not_to_be_measured(tmp_path, runs_dir):
    todo = runner.cells(load(tmp_path))
    elsewhere = {"cpu_model": "another CPU", "cpus": 64, "kernel": "6.1"}
    store.write(replace(made_up(), spec=todo[0], facts={"host": elsewhere}))
    assert estimate_here(todo) == 8 * (2 + OVERHEAD_S)
    assert runner.estimate_s(store.statuses(todo)) == 7 * (2 + OVERHEAD_S)


def test_flows_that_end_are_not_expected_to_take_all_of_their_time(tmp_path, runs_dir):
    (spec,) = runner.cells(load(tmp_path, experiments={"throughput": {"duration_s": 60}}, repetitions=1))
    assert runner.estimate_s({spec.replace(flow_bytes=5_000_000): None}) == OVERHEAD_S


def test_requests_at_a_load_take_as_long_as_it_takes_to_offer_them(tmp_path, runs_dir):
    sizes = {"workload": "traffic", "flow_sizes": "10:0.5,30:1", "requests": 5000, "offered_load_bps": 1e6}
    spec = Spec(experiment="dc-simulation", duration_s=60, **sizes)
    mean_bytes = flow_sizes.load(spec.flow_sizes).mean_bytes
    assert 10 < mean_bytes < 30
    assert runner.estimate_s({spec: None}) == pytest.approx(5000 * mean_bytes * 8 / 1e6 + OVERHEAD_S)


def test_a_cell_of_fewer_repetitions_is_counted_as_often_as_it_is_measured(tmp_path, runs_dir):
    todo = runner.cells(load(tmp_path, experiments=SEVERAL, repetitions=3))
    assert estimate_here(todo) == sum(spec.total_s for spec in todo) + 15 * OVERHEAD_S


def test_then_the_cells_themselves_tell_what_one_costs(tmp_path, runs_dir, any_host, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock[0])
    executor, left = Executor(), []

    def takes_a_while(spec):
        clock[0] += 2 + len(executor.given)  # 2 s of traffic, and 0, 1, 2 … s above it
        return executor(spec)

    runner.run(load(tmp_path), execute=takes_a_while, tell=lambda report: left.append(report.left_s))
    assert left[0] == 7 * (2 + 0)
    assert left[1] == 6 * (2 + 0.5)
    assert left[2] == 5 * (2 + 1)
    assert left[-1] == 0


def test_cells_to_be_retried_take_time_as_those_without_a_run_do(tmp_path, runs_dir, any_host, monkeypatch):
    plan = load(tmp_path)
    todo = runner.cells(plan)
    states = ["failed", "invalid", "skipped", "ok"]
    for spec, status in zip(todo, states, strict=False):
        Executor(lambda spec, status=status: (status, ("so it was",)))(spec)
    assert estimate_here(todo) == 4 * (2 + OVERHEAD_S)
    assert estimate_here(todo, retry=True) == 6 * (2 + OVERHEAD_S)
    clock = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock[0])

    def without_overhead(spec):
        clock[0] += spec.total_s
        return Executor()(spec)

    left = []
    runner.run(plan, retry=True, execute=without_overhead, tell=lambda report: left.append(report.left_s))
    assert left == [10, 8, 8, 8, 6, 4, 2, 0]


def test_cells_that_are_stored_already_take_no_time(tmp_path, runs_dir, any_host):
    plan = load(tmp_path)
    todo = runner.cells(plan)
    for spec in todo[4:]:
        Executor()(spec)
    left = []
    runner.run(plan, execute=Executor(), tell=lambda report: left.append(report.left_s))
    assert left[3:] == [0] * 5
