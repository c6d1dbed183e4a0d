"""Sweeps as they run: what becomes of each cell, and where they go on. No traffic here."""

import dataclasses
from collections import Counter
from datetime import UTC, datetime

import pytest

from pairlab import store
from pairlab.batch import experiments, runner
from pairlab.errors import BadSpec, HostBusy, MeasurementFailed, StoreError, TestbedError, Unavailable
from pairlab.measurement import measure
from pairlab.model.records import Run
from pairlab.store.dataset import load_runs
from pairlab.testbed import registry
from pairlab.testbed.host import facts
from tests.support.runs import made_up
from tests.support.sweeps import Executor, load


def statuses():
    return Counter(run.status for run in load_runs(environment="all"))


def test_every_cell_is_measured_in_order_and_stored(tmp_path, runs_dir, any_host):
    plan, executor, reports = load(tmp_path), Executor(), []
    tally = runner.run(plan, execute=executor, tell=reports.append)
    assert executor.given == runner.cells(plan)
    assert (tally.done, tally.skipped, tally.not_done, tally.good) == (8, 0, [], True)
    assert statuses() == {"ok": 8}
    assert [(report.number, report.total, report.state) for report in reports] == [(n, 8, "done") for n in range(1, 9)]
    assert reports[0].text == "2.00 Gbit/s in total"
    assert len(load_runs(sweep="small")) == 8


def test_a_sweep_resumes_where_it_was_and_measures_nothing_twice(tmp_path, runs_dir, any_host):
    plan = load(tmp_path)
    todo = runner.cells(plan)
    first = Executor()
    for spec in todo[:3]:
        first(spec)
    rest, states = Executor(), []
    tally = runner.run(plan, execute=rest, tell=lambda report: states.append(report.state))
    assert rest.given == todo[3:]
    assert states == ["stored"] * 3 + ["done"] * 5
    assert (tally.done, tally.good) == (8, True)
    assert not (runs_dir / "throughput" / ".replaced").exists()


def test_a_sweep_resumed_after_a_kernel_update_measures_its_cells_beside_the_older_ones_and_says_so(
    tmp_path, runs_dir, any_host, monkeypatch
):
    plan = load(tmp_path)
    host = {"cpu_model": "a CPU", "cpus": 2, "kernel": "6.1"}
    monkeypatch.setattr(facts, "host", lambda: host)

    def execute(spec):
        return store.write(dataclasses.replace(made_up(), spec=spec, facts={"host": host}))

    first = execute(runner.cells(plan)[0])
    host = host | {"kernel": "6.18"}
    said, states = [], []
    runner.run(plan, execute=execute, say=said.append, tell=lambda report: states.append(report.state))
    assert said == ["1 cell was measured before, with kernel 6.1, now 6.18: measured again, beside that"]
    assert states == ["done"] * 8
    kernels = [store.read(place).environment.kernel for place in store.directories_of(first.spec)]
    assert kernels == ["6.1", "6.18"]
    said.clear()
    runner.run(plan, execute=Executor(), say=said.append)
    assert said == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), HostBusy("somebody is measuring"), StoreError("no room")])
def test_a_sweep_that_is_stopped_loses_no_finished_run(tmp_path, runs_dir, any_host, ending):
    plan = load(tmp_path)
    todo = runner.cells(plan)
    with pytest.raises(type(ending)):
        runner.run(plan, execute=Executor(lambda spec: ending if spec == todo[3] else None))
    assert {run.key for run in load_runs()} == {spec.key for spec in todo[:3]}
    assert runner.run(plan, execute=Executor()).good


def test_a_cell_that_fails_is_kept_with_its_reason_and_the_sweep_goes_on(tmp_path, runs_dir, any_host):
    plan = load(tmp_path)
    bad = runner.cells(plan)[2]
    executor = Executor(lambda spec: TestbedError("the bridge broke") if spec == bad else None)
    tally = runner.run(plan, execute=executor)
    assert len(executor.given) == 8
    assert (tally.done, tally.not_done, tally.good) == (7, [f"{bad}: the bridge broke"], False)
    assert statuses() == {"ok": 7, "failed": 1}
    assert store.find(bad).reasons == ("the bridge broke",)


@pytest.mark.parametrize("status", ["failed", "invalid"])
def test_what_failed_before_counts_as_not_done_until_it_is_retried(tmp_path, runs_dir, any_host, status):
    plan = load(tmp_path)
    bad = runner.cells(plan)[2]
    runner.run(plan, execute=Executor(lambda spec: (status, ("clients started apart",)) if spec == bad else None))

    again = Executor()
    tally = runner.run(plan, execute=again)
    assert again.given == []
    assert (tally.done, tally.good) == (7, False)
    assert tally.not_done == [f"{bad}: kept from before (clients started apart)"]

    retried = Executor()
    assert runner.run(plan, execute=retried, retry=True).good
    assert retried.given == [bad]
    assert statuses() == {"ok": 8}


def test_a_retry_that_fails_in_another_way_is_kept_with_the_new_reason(tmp_path, runs_dir, any_host):
    plan = load(tmp_path, repetitions=1)
    for reason in ("the bridge broke", "the notebook broke"):
        runner.run(plan, execute=Executor(lambda spec, told=reason: MeasurementFailed(told)), retry=True)
        assert {run.reasons for run in load_runs()} == {(reason,)}


def test_a_failure_that_the_executor_has_kept_itself_is_not_kept_twice(tmp_path, runs_dir, any_host):
    def keeps_and_raises(spec):
        store.write(Run(spec, "failed", ("with the host's facts",), datetime.now(UTC)))
        return MeasurementFailed("all flows failed")

    runner.run(load(tmp_path, repetitions=1), execute=Executor(keeps_and_raises))
    assert {run.reasons for run in load_runs()} == {("with the host's facts",)}
    assert not (runs_dir / "throughput" / ".replaced").exists()


def test_a_failure_that_the_notebook_has_kept_itself_is_not_kept_twice(tmp_path, runs_dir, any_host, monkeypatch):
    def execute(notebook, executed, parameters, reports, imports):
        spec = experiments.spec_of("throughput", parameters)
        kept = store.write(Run(spec, "failed", ("with the host's facts",), datetime.now(UTC)))
        reports.runs[spec.key] = str(spec), kept.path
        raise MeasurementFailed("all flows failed")

    monkeypatch.setattr(experiments, "execute", execute)
    monkeypatch.setattr(experiments.lock, "await_turn", lambda wait, say: None)
    runner.run(load(tmp_path, repetitions=1))
    assert {run.reasons for run in load_runs()} == {("with the host's facts",)}
    assert not (runs_dir / "throughput" / ".replaced").exists()


@pytest.mark.parametrize(("unavailable", "good"), [("skip", True), ("fail", False)])
def test_a_cell_this_host_cannot_do_is_a_recorded_skip(tmp_path, runs_dir, monkeypatch, unavailable, good):
    def check(spec):
        if spec.driver == "host":
            raise Unavailable("driver 'host': no such kernel: get another")

    monkeypatch.setattr(measure, "check", check)
    executor = Executor()
    tally = runner.run(load(tmp_path, unavailable=unavailable), execute=executor)
    assert {spec.driver for spec in executor.given} == {"bridge"}
    assert (tally.done, tally.skipped, tally.not_done, tally.good) == (4, 4, [], good)
    assert statuses() == {"ok": 4, "skipped": 4}
    assert set(load_runs().left_out["reasons"]) == {"driver 'host': no such kernel: get another"}
    assert tally.skips == {"driver 'host': no such kernel: get another": 4}


def test_a_cell_with_more_cores_than_this_host_has_is_skipped_not_failed(tmp_path, runs_dir, monkeypatch):
    def check(spec):
        raise BadSpec("cores: this process may use 2 CPUs, not 8")

    monkeypatch.setattr(measure, "check", check)
    tally = runner.run(load(tmp_path, unavailable="skip"), execute=Executor())
    assert tally.skips == {"cores: this process may use 2 CPUs, not 8": 8}
    assert statuses() == {"skipped": 8}


def test_a_sweep_that_only_skips_is_not_good(tmp_path, runs_dir, monkeypatch):
    def check(spec):
        raise Unavailable(f"no {spec.driver} here")

    monkeypatch.setattr(measure, "check", check)
    tally = runner.run(load(tmp_path, unavailable="skip"), execute=Executor())
    assert (tally.done, tally.skips, tally.good) == (0, {"no bridge here": 4, "no host here": 4}, False)


def test_what_was_skipped_is_measured_once_the_host_can_do_it(tmp_path, runs_dir, monkeypatch):
    def check(spec):
        raise Unavailable("no tools here: get some")

    monkeypatch.setattr(measure, "check", check)
    assert runner.run(load(tmp_path), execute=Executor()).skipped == 8
    assert runner.run(load(tmp_path), execute=Executor()).skipped == 8
    assert not (runs_dir / "throughput" / ".replaced").exists()  # the same skip again is no news
    monkeypatch.setattr(measure, "check", lambda spec: None)
    assert runner.run(load(tmp_path), execute=Executor()).done == 8
    assert statuses() == {"ok": 8}


def test_a_damaged_run_is_measured_again(tmp_path, runs_dir, any_host):
    plan = load(tmp_path, repetitions=1)
    runner.run(plan, execute=Executor())
    spoilt = load_runs().runs[0]
    (spoilt.path / "run.json").write_text("{")
    executor = Executor()
    assert runner.run(plan, execute=executor).good
    assert executor.given == [spoilt.spec]


def test_an_error_that_is_not_pairlabs_own_is_not_hidden(tmp_path, runs_dir, any_host):
    with pytest.raises(ZeroDivisionError):
        runner.run(load(tmp_path), execute=Executor(lambda spec: ZeroDivisionError()))


def test_a_sweep_may_be_told_to_end_at_the_first_cell_that_fails(tmp_path, runs_dir, any_host):
    plan = load(tmp_path, on_failure="stop")
    todo = runner.cells(plan)
    bad = Executor(lambda spec: TestbedError("the bridge broke") if spec in todo[2:4] else None)
    tally = runner.run(plan, execute=bad)
    assert bad.given == todo[:3]
    assert (tally.done, tally.stopped, tally.good) == (2, True, False)
    assert tally.not_done == [f"{todo[2]}: the bridge broke"]

    again = Executor(lambda spec: MeasurementFailed("so did this") if spec == todo[3] else None)
    tally = runner.run(load(tmp_path), execute=again, stop_on_failure=True)
    assert again.given == [todo[3]]  # what failed before does not stop it, or it would never get past that
    assert (tally.stopped, len(tally.not_done)) == (True, 2)

    goes_on = Executor()
    tally = runner.run(plan, execute=goes_on, stop_on_failure=False, retry=True)
    assert goes_on.given == todo[2:]
    assert (tally.stopped, tally.good) == (False, True)


def test_an_invalid_cell_does_not_stop_a_sweep_that_stops_at_failures(tmp_path, runs_dir, any_host):
    executor = Executor(lambda spec: ("invalid", ("clients started apart",)) if spec.pairs == 1 else None)
    tally = runner.run(load(tmp_path, on_failure="stop"), execute=executor)
    assert (len(executor.given), tally.stopped) == (8, False)


def test_a_backend_that_goes_away_is_a_failure_and_no_skip(tmp_path, runs_dir, monkeypatch):
    """Else a sweep that may skip what a host lacks would be well done without a daemon."""
    plan = load(tmp_path, backend="docker", unavailable="skip")
    todo = runner.cells(plan)
    gone = []

    def check(spec):
        if gone:
            raise Unavailable("backend 'docker': no daemon answers")

    class Backend:
        def __init__(self, hosts=0):
            pass

        def missing(self):
            return gone

        def version(self):
            return ""

        def tool_version(self, workload, driver):
            return ""

    def daemon_dies(spec):
        gone.append("a daemon")
        return TestbedError("the daemon does not answer any more")

    monkeypatch.setattr(measure, "check", check)
    monkeypatch.setattr(registry.backends, "get", lambda name: Backend)
    executor = Executor(lambda spec: daemon_dies(spec) if spec == todo[2] else None)
    tally = runner.run(plan, execute=executor)
    assert executor.given == todo[:3]
    assert (tally.done, tally.skipped, len(tally.not_done), tally.good) == (2, 0, 6, False)
    assert statuses() == {"ok": 2, "failed": 6}
    assert store.find(todo[5]).reasons == (
        "backend 'docker' is no longer available: backend 'docker': no daemon answers",
    )

    monkeypatch.setattr(measure, "check", lambda spec: None)
    assert runner.run(plan, execute=Executor(), retry=True).good


def test_a_further_grid_leaves_the_cells_of_the_first_as_they_were(tmp_path, runs_dir, any_host):
    plan = load(tmp_path)
    runner.run(plan, execute=Executor())
    (grid,) = plan.experiments["throughput"]
    wider = load(tmp_path, experiments={"throughput": [grid.parameters, {"driver": "macvlan"}]})
    executor = Executor()
    assert runner.run(wider, execute=executor).done == 10
    assert {spec.driver for spec in executor.given} == {"macvlan"}


# --- workload: auto


@pytest.fixture
def iperf(monkeypatch):
    """Whether this host has iperf: a list that is empty where it has."""
    missing = []
    for backend in map(registry.backends.get, ("netns", "docker")):
        monkeypatch.setattr(backend, "missing_programs", lambda self, programs, driver=None: list(missing))
    return missing


AUTO = {"experiments": {"throughput": {"driver": ["bridge", "host"], "pairs": [1, 2], "workload": "auto"}}}


def test_a_tool_installed_meanwhile_does_not_change_the_cells_of_a_sweep(tmp_path, runs_dir, any_host, iperf):
    iperf.append("no iperf here")
    executor, said = Executor(), []
    assert runner.run(load(tmp_path, **AUTO), execute=executor).done == 8
    assert {spec.workload for spec in executor.given} == {"flowgen"}
    iperf.clear()
    again = Executor()
    assert runner.run(load(tmp_path, **AUTO), execute=again, say=said.append).done == 8
    assert (again.given, said) == ([], [])
    assert {spec.workload for spec in runner.cells(load(tmp_path, **AUTO))} == {"iperf"}  # as of a sweep never started


def test_a_tool_that_is_gone_changes_the_cells_and_the_sweep_says_so(tmp_path, runs_dir, any_host, iperf):
    said = []
    runner.run(load(tmp_path, **AUTO), execute=Executor())
    iperf.append("no iperf here")
    again = Executor()
    runner.run(load(tmp_path, **AUTO), execute=again, say=said.append)
    assert {spec.workload for spec in again.given} == {"flowgen"}
    assert len(again.given) == 8
    assert said == [
        "workload 'auto' was iperf when this sweep was last started, and 'netns' has no iperf now: it is flowgen, so"
        " its cells are measured anew. To keep iperf, install it again"
    ]


def test_a_sweep_that_names_its_tool_hears_nothing_of_auto(tmp_path, runs_dir, any_host, iperf):
    said = []
    for _ in range(2):
        runner.run(load(tmp_path), execute=Executor(), say=said.append)
        iperf.append("no iperf here")
    assert said == []


def test_attempts_are_as_the_file_says_or_as_asked(tmp_path, runs_dir, any_host, monkeypatch):
    asked = []

    def measure_cell(cell, *, attempts, **others):
        asked.append(attempts)
        return Executor()(cell.spec)

    monkeypatch.setattr(experiments, "measure_cell", measure_cell)
    runner.run(load(tmp_path, repetitions=1))
    runner.run(load(tmp_path, name="other", attempts=7, repetitions=2))
    runner.run(load(tmp_path, repetitions=3), attempts=1)
    assert asked == [3] * 4 + [7] * 4 + [1] * 4
