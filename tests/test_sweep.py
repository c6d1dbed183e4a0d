"""Sweeps: what is refused before anything is measured, the order of cells, what becomes of each. No traffic here."""

import string
from collections import Counter
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pairlab import store, sweep
from pairlab.collection import load_runs
from pairlab.errors import BadSpec, BadSweep, HostBusy, MeasurementFailed, StoreError, TestbedError, Unavailable
from pairlab.experiments import notebooks
from pairlab.records import Run, table
from pairlab.testbed import registry

GRID = """
name: small
seed: 3
repetitions: 2
experiments:
  throughput:
    driver: [bridge, host]
    pairs: [1, 2]
    duration_s: 2
    workload: flowgen
"""


@pytest.fixture
def load(tmp_path):
    """A sweep from text, or from GRID with keys changed."""

    def load(text=None, **changes):
        file = tmp_path / "sweep.yaml"
        file.write_text(text if text is not None else yaml.safe_dump({**yaml.safe_load(GRID), **changes}))
        return sweep.load(file)

    return load


@pytest.fixture
def any_host(monkeypatch):
    """Lets every cell be measured, whatever this host has: the executor is a fake."""
    monkeypatch.setattr(sweep, "check", lambda spec: None)


class Executor:
    """Stores a made-up run for each cell it is given; `trouble` maps a cell to what comes of it instead."""

    def __init__(self, trouble=lambda spec: None):
        self.trouble = trouble
        self.given = []

    def __call__(self, spec):
        self.given.append(spec)
        trouble = self.trouble(spec)
        if isinstance(trouble, BaseException):
            raise trouble
        status, reasons = trouble or ("ok", ())
        rows = [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 2e9}]
        return store.write(Run(spec, status, reasons, datetime.now(UTC), flows=table("flows", rows)))


def statuses():
    return Counter(run.status for run in load_runs(pool_hosts=True))


# --- what is refused


def refusal(load, *arguments, **changes):
    with pytest.raises(BadSweep) as caught:
        sweep.cells(load(*arguments, **changes))
    told = str(caught.value)
    assert "\n" not in told
    return told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"repetition": 3}, "unknown key 'repetition' (there are: name, description, seed, repetitions, backend,"),
        ({"name": "a b"}, "name: string should match pattern"),
        ({"seed": "3"}, "seed: input should be a valid integer"),
        ({"repetitions": 0}, "repetitions: input should be greater than or equal to 1"),
        ({"repetitions": 1.5}, "repetitions: input should be a valid integer"),
        ({"unavailable": "maybe"}, "unavailable: input should be 'skip' or 'fail'"),
        ({"experiments": {}}, "experiments: dictionary should have at least 1 item"),
        ({"experiments": ["throughput"]}, "experiments: input should be a valid dictionary"),
        (
            {"experiments": {"throughput": None}},
            "experiments.throughput: must be a mapping of parameters to values, or",
        ),
        ({"experiments": {"throughput": [{}, 3]}}, "experiments.throughput: must be a mapping of parameters to values"),
        ({"experiments": {"throughput": []}}, "experiments.throughput: must be a mapping of parameters to values, or"),
        ({"experiments": {"throughput": {"repetitions": 0}}}, "experiments.throughput.0.repetitions: input should be"),
        ({"experiments": {"throughput": {"backends": "netns"}}}, "throughput.0.backends: input should be a valid list"),
        ({"two\nlines": 1}, "unknown key 'two\\nlines'"),
    ],
)
def test_a_key_that_is_wrong_is_named_with_its_file(load, tmp_path, changes, told):
    assert told in refusal(load, **changes)
    assert refusal(load, **changes).startswith(f"{tmp_path / 'sweep.yaml'}: ")


def test_a_sweep_must_have_a_name_and_experiments(load):
    assert "name: field required" in refusal(load, "experiments: {throughput: {}}")
    assert "experiments: field required" in refusal(load, "name: small")


@pytest.mark.parametrize(
    "text",
    [
        "name: [small",
        "name: small\n\tseed: 1",
        "a: b: c",
        "name: *nobody",
        "x: !!python/object:os.system {}",
        "{[1]: 2}",
        "since: 2001-02-31",
        "n: !!int x",
        "[" * 1500,
    ],
)
def test_what_is_not_yaml_is_refused_in_one_line(load, text):
    assert " is not YAML: " in refusal(load, text)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "sweep.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(BadSweep, match="is not YAML"):
        sweep.load(tmp_path / "sweep.yaml")


@pytest.mark.parametrize("text", ["", "small", "- small", "3"])
def test_what_is_no_mapping_is_told_its_keys(load, text):
    assert "must be a mapping with the keys name, description, seed, repetitions" in refusal(load, text)


def test_keys_that_are_no_words_are_refused(load):
    assert "keys must be words" in refusal(load, "1: 2\nname: small")


def test_a_missing_file_lists_those_there_are(tmp_path):
    with pytest.raises(BadSweep, match=r"nowhere\.yaml: No such file or directory; sweeps/ has: .*smoke\.yaml"):
        sweep.load(tmp_path / "nowhere.yaml")
    with pytest.raises(BadSweep, match=r"Is a directory; sweeps/ has: "):
        sweep.load(tmp_path)


@pytest.mark.parametrize(
    ("experiments", "told"),
    [
        ({"thruput": {}}, f"no experiment 'thruput'; there are: {', '.join(notebooks())}"),
        ({"throughput": {"drivers": ["bridge"]}}, "no parameter 'drivers'; did you mean 'driver'?"),
        ({"throughput": {"pairs": [1, 0]}}, "pairs: input should be greater than or equal to 1, not 0"),
        ({"throughput": {"pairs": [[1, 2]]}}, "pairs: input should be a valid integer, not [1, 2]"),
        ({"throughput": {"pairs": []}}, "pairs: an axis must list values, each once, not []"),
        ({"throughput": {"pairs": [1, 2, 1]}}, "pairs: an axis must list values, each once, not [1, 2, 1]"),
        ({"throughput": {"duration_s": [2, 2.0]}}, "has a cell more than once: throughput: "),
        ({"throughput": {"repetition": 1}}, "'repetition' is set by the sweep, not by its grid"),
        ({"throughput": {"fresh": True}}, "'fresh' is set by the sweep, not by its grid"),
        (
            {"throughput": {"driver": ["bridge", "brigde"]}},
            f"no driver 'brigde'; there are: {', '.join(registry.drivers.names())}",
        ),
        (
            {"throughput": {"workload": "ping"}},
            f"no workload 'ping'; there are: {', '.join(registry.workloads.names())}",
        ),
        (
            {"throughput": {"backend": "podman"}},
            f"no backend 'podman'; there are: {', '.join(registry.backends.names())}",
        ),
        ({"throughput": {"backends": ["podman"]}}, "no backend 'podman'; there are: "),
        ({"throughput": {"repetitions": 3}}, "repetitions: the sweep has 2, so that a grid cannot have 3"),
        ({"throughput": [{}, {"pairs": [3, 2]}]}, "has a cell more than once: throughput: "),
        ({"throughput": {"backends": ["docker"]}}, "has no cell for backend 'netns': see its `backends`"),
        ({"throughput": [{}, {"backends": ["docker"], "pairs": 0}]}, "pairs: input should be greater than or equal"),
        ({"throughput": {"workload": "iperf3", "duration_s": 2.5}}, "iperf3 sends for whole seconds only"),
        ({"throughput": {}, "": {}}, "no experiment ''"),
    ],
)
def test_a_grid_that_cannot_be_measured_is_refused_as_a_whole(load, runs_dir, experiments, told):
    executor = Executor()
    with pytest.raises(BadSweep, match="sweep 'small'") as caught:
        sweep.run(load(experiments=experiments), execute=executor)
    assert told in str(caught.value)
    assert executor.given == []
    assert not runs_dir.exists()


def test_a_backend_there_is_not_is_refused_wherever_it_is_said(load):
    assert "no backend 'podman'; there are:" in refusal(load, backend="podman")
    with pytest.raises(BadSweep, match="no backend 'podman'"):
        sweep.cells(load(), "podman")


yaml_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(["bridge", "host", "flowgen", "netns", "throughput"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
grids = st.dictionaries(st.sampled_from(["driver", "pairs", "duration_s", "seed", "x"]), yaml_values, max_size=3)
sweep_files = st.fixed_dictionaries(
    {
        "name": st.just("small") | yaml_values,
        "experiments": st.fixed_dictionaries({"throughput": grids}) | yaml_values,
    },
    optional={
        "repetitions": st.integers(-1, 3) | yaml_values,
        "seed": st.integers(-1) | yaml_values,
        "unavailable": yaml_values,
        "other": yaml_values,
    },
)


@given(
    st.text()
    | st.text(string.punctuation + "ab1 \n", max_size=60)
    | yaml_values.map(yaml.safe_dump)
    | sweep_files.map(yaml.safe_dump)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_a_sweep_or_is_refused(tmp_path, text):
    (tmp_path / "sweep.yaml").write_text(text, encoding="utf-8", errors="replace")
    try:
        todo = sweep.cells(sweep.load(tmp_path / "sweep.yaml"))
    except BadSweep as refused:
        told = str(refused)
        assert told
        assert "\n" not in told
    else:
        assert len({spec.key for spec in todo}) == len(todo) > 0


def test_the_sweeps_in_the_repository_load():
    for file in sweep.paths.SWEEPS.glob("*.yaml"):
        todo = sweep.cells(sweep.load(file))
        assert len({spec.key for spec in todo}) == len(todo) > 0


# --- the order


def places(todo):
    return [(spec.driver, spec.pairs) for spec in todo]


def test_each_repetition_visits_every_cell_once(load):
    todo = sweep.cells(load(repetitions=3))
    every = {("bridge", 1), ("bridge", 2), ("host", 1), ("host", 2)}
    for repetition in range(3):
        block = todo[4 * repetition : 4 * repetition + 4]
        assert {spec.repetition for spec in block} == {repetition}
        assert set(places(block)) == every
    assert len(todo) == 12


def test_the_same_seed_gives_the_same_order_and_another_seed_another(load):
    one = sweep.cells(load(seed=3, repetitions=5))
    again = sweep.cells(load(seed=3, repetitions=5))
    other = sweep.cells(load(seed=4, repetitions=5))
    assert one == again
    assert places(one) != places(other)
    assert sorted(places(one)) == sorted(places(other))


def test_the_blocks_of_a_sweep_are_each_in_an_order_of_their_own(load):
    todo = sweep.cells(load(repetitions=5))
    assert len({tuple(places(todo[start : start + 4])) for start in range(0, 20, 4)}) > 1


def test_more_repetitions_do_not_change_the_order_of_the_first_ones(load):
    assert sweep.cells(load(repetitions=5))[:8] == sweep.cells(load(repetitions=2))


def test_what_the_file_and_the_grid_leave_out_is_the_notebooks_own(load):
    (spec,) = sweep.cells(load("name: one\nseed: 5\nexperiments: {throughput: {workload: flowgen}}"))
    assert (spec.seed, spec.backend, spec.driver, spec.pairs, spec.duration_s) == (5, "netns", "bridge", 2, 2.0)


def test_another_backend_can_be_told_instead_of_the_files(load):
    assert {spec.backend for spec in sweep.cells(load())} == {"netns"}
    assert {spec.backend for spec in sweep.cells(load(), "docker")} == {"docker"}
    both = {"throughput": {"backend": ["netns", "docker"], "workload": "flowgen"}}
    assert [spec.backend for spec in sweep.cells(load(experiments=both, repetitions=1), "docker")] == ["docker"]


SEVERAL = {
    "throughput": [
        {"driver": ["bridge", "host"], "pairs": [1, 2]},
        {"driver": "macvlan", "pairs": [1, 2, 5], "repetitions": 1},
        {"driver": "bridge", "pairs": 20, "backends": ["docker"], "repetitions": 2},
    ]
}


def test_an_experiment_may_have_several_grids_each_with_its_repetitions(load):
    todo = sweep.cells(load(experiments=SEVERAL, repetitions=3))
    counted = Counter((spec.driver, spec.repetition) for spec in todo)
    assert counted == {("macvlan", 0): 3} | {("bridge", number): 2 for number in range(3)} | {
        ("host", number): 2 for number in range(3)
    }
    assert [spec.repetition for spec in todo] == sorted(spec.repetition for spec in todo)  # blocks, as ever


def test_a_grid_for_some_backends_is_left_out_with_others(load):
    plan = load(experiments=SEVERAL, repetitions=3)
    assert {spec.pairs for spec in sweep.cells(plan)} == {1, 2, 5}
    with_docker = sweep.cells(plan, "docker")
    assert [spec.repetition for spec in with_docker if spec.pairs == 20] == [0, 1]
    assert {spec.backend for spec in with_docker} == {"docker"}


def test_one_grid_alone_and_in_a_list_are_the_same_sweep(load):
    (grid,) = load().experiments["throughput"]
    assert sweep.cells(load()) == sweep.cells(load(experiments={"throughput": [grid.parameters]}))


def test_a_further_grid_leaves_the_cells_of_the_first_as_they_were(load, runs_dir, any_host):
    plan = load()
    sweep.run(plan, execute=Executor())
    wider = load(experiments={"throughput": [plan.experiments["throughput"][0].parameters, {"driver": "macvlan"}]})
    executor = Executor()
    assert sweep.run(wider, execute=executor).done == 10
    assert {spec.driver for spec in executor.given} == {"macvlan"}


# --- what becomes of the cells


def test_every_cell_is_measured_in_order_and_stored(load, runs_dir, any_host):
    plan, executor, reports = load(), Executor(), []
    tally = sweep.run(plan, execute=executor, tell=reports.append)
    assert executor.given == sweep.cells(plan)
    assert (tally.done, tally.skipped, tally.not_done, tally.good) == (8, 0, [], True)
    assert statuses() == {"ok": 8}
    assert [(report.number, report.total, report.state) for report in reports] == [(n, 8, "done") for n in range(1, 9)]
    assert reports[0].told == "2.00 Gbit/s in total"
    assert len(load_runs(sweep="small")) == 8


def test_a_sweep_resumes_where_it_was_and_measures_nothing_twice(load, runs_dir, any_host):
    plan = load()
    todo = sweep.cells(plan)
    first = Executor()
    for spec in todo[:3]:
        first(spec)
    rest, states = Executor(), []
    tally = sweep.run(plan, execute=rest, tell=lambda report: states.append(report.state))
    assert rest.given == todo[3:]
    assert states == ["stored"] * 3 + ["done"] * 5
    assert (tally.done, tally.good) == (8, True)
    assert not (runs_dir / "throughput" / ".replaced").exists()


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), HostBusy("somebody is measuring"), StoreError("no room")])
def test_a_sweep_that_is_stopped_loses_no_finished_run(load, runs_dir, any_host, ending):
    plan = load()
    todo = sweep.cells(plan)
    with pytest.raises(type(ending)):
        sweep.run(plan, execute=Executor(lambda spec: ending if spec == todo[3] else None))
    assert {run.key for run in load_runs()} == {spec.key for spec in todo[:3]}
    assert sweep.run(plan, execute=Executor()).good


def test_a_cell_that_fails_is_kept_with_its_reason_and_the_sweep_goes_on(load, runs_dir, any_host):
    plan = load()
    bad = sweep.cells(plan)[2]
    executor = Executor(lambda spec: TestbedError("the bridge broke") if spec == bad else None)
    tally = sweep.run(plan, execute=executor)
    assert len(executor.given) == 8
    assert (tally.done, tally.not_done, tally.good) == (7, [f"{bad}: the bridge broke"], False)
    assert statuses() == {"ok": 7, "failed": 1}
    assert store.find(bad).reasons == ("the bridge broke",)


@pytest.mark.parametrize("status", ["failed", "invalid"])
def test_what_failed_before_counts_as_not_done_until_it_is_retried(load, runs_dir, any_host, status):
    plan = load()
    bad = sweep.cells(plan)[2]
    sweep.run(plan, execute=Executor(lambda spec: (status, ("clients started apart",)) if spec == bad else None))

    again = Executor()
    tally = sweep.run(plan, execute=again)
    assert again.given == []
    assert (tally.done, tally.good) == (7, False)
    assert tally.not_done == [f"{bad}: kept from before (clients started apart)"]

    retried = Executor()
    assert sweep.run(plan, execute=retried, retry=True).good
    assert retried.given == [bad]
    assert statuses() == {"ok": 8}


def test_a_retry_that_fails_in_another_way_is_kept_with_the_new_reason(load, runs_dir, any_host):
    plan = load(repetitions=1)
    for reason in ("the bridge broke", "the notebook broke"):
        sweep.run(plan, execute=Executor(lambda spec, told=reason: MeasurementFailed(told)), retry=True)
        assert {run.reasons for run in load_runs()} == {(reason,)}


def test_a_failure_that_the_measurement_has_kept_itself_is_not_kept_twice(load, runs_dir, any_host):
    def keeps_and_raises(spec):
        store.write(Run(spec, "failed", ("with the host's facts",), datetime.now(UTC)))
        return MeasurementFailed("all flows failed")

    sweep.run(load(repetitions=1), execute=Executor(keeps_and_raises))
    assert {run.reasons for run in load_runs()} == {("with the host's facts",)}
    assert not (runs_dir / "throughput" / ".replaced").exists()


@pytest.mark.parametrize(("unavailable", "good"), [("skip", True), ("fail", False)])
def test_a_cell_this_host_cannot_do_is_a_recorded_skip(load, runs_dir, monkeypatch, unavailable, good):
    def check(spec):
        if spec.driver == "host":
            raise Unavailable("driver 'host': no such kernel: get another")

    monkeypatch.setattr(sweep, "check", check)
    executor = Executor()
    tally = sweep.run(load(unavailable=unavailable), execute=executor)
    assert {spec.driver for spec in executor.given} == {"bridge"}
    assert (tally.done, tally.skipped, tally.not_done, tally.good) == (4, 4, [], good)
    assert statuses() == {"ok": 4, "skipped": 4}
    assert set(load_runs().left_out["reasons"]) == {"driver 'host': no such kernel: get another"}
    assert tally.skips == {"driver 'host': no such kernel: get another": 4}


def test_a_cell_with_more_cores_than_this_host_has_is_skipped_not_failed(load, runs_dir, monkeypatch):
    def check(spec):
        raise BadSpec("cores: this process may use 2 CPUs, not 8")

    monkeypatch.setattr(sweep, "check", check)
    tally = sweep.run(load(unavailable="skip"), execute=Executor())
    assert tally.skips == {"cores: this process may use 2 CPUs, not 8": 8}
    assert statuses() == {"skipped": 8}


def test_a_sweep_that_only_skips_is_not_good(load, runs_dir, monkeypatch):
    def check(spec):
        raise Unavailable(f"no {spec.driver} here")

    monkeypatch.setattr(sweep, "check", check)
    tally = sweep.run(load(unavailable="skip"), execute=Executor())
    assert (tally.done, tally.skips, tally.good) == (0, {"no bridge here": 4, "no host here": 4}, False)


def test_what_was_skipped_is_measured_once_the_host_can_do_it(load, runs_dir, monkeypatch):
    def check(spec):
        raise Unavailable("no tools here: get some")

    monkeypatch.setattr(sweep, "check", check)
    assert sweep.run(load(), execute=Executor()).skipped == 8
    assert sweep.run(load(), execute=Executor()).skipped == 8
    assert not (runs_dir / "throughput" / ".replaced").exists()  # the same skip again is no news
    monkeypatch.setattr(sweep, "check", lambda spec: None)
    assert sweep.run(load(), execute=Executor()).done == 8
    assert statuses() == {"ok": 8}


def test_a_damaged_run_is_measured_again(load, runs_dir, any_host):
    plan = load(repetitions=1)
    sweep.run(plan, execute=Executor())
    spoilt = load_runs().runs[0]
    (spoilt.path / "run.json").write_text("{")
    executor = Executor()
    assert sweep.run(plan, execute=executor).good
    assert executor.given == [spoilt.spec]


def test_an_error_that_is_not_pairlabs_own_is_not_hidden(load, runs_dir, any_host):
    with pytest.raises(ZeroDivisionError):
        sweep.run(load(), execute=Executor(lambda spec: ZeroDivisionError()))


# --- the time left


def test_before_anything_is_measured_the_estimate_is_traffic_and_a_guess(load, runs_dir):
    todo = sweep.cells(load())
    assert sweep.estimate_s(todo) == 8 * (2 + sweep.OVERHEAD_S)
    Executor()(todo[0])
    assert sweep.estimate_s(todo) == 7 * (2 + sweep.OVERHEAD_S)


def test_flows_that_end_are_not_expected_to_take_all_of_their_time(load, runs_dir):
    (spec,) = sweep.cells(load(experiments={"throughput": {"duration_s": 60}}, repetitions=1))
    assert sweep.estimate_s([spec.replace(flow_bytes=5_000_000)]) == sweep.OVERHEAD_S


def test_a_cell_of_fewer_repetitions_is_counted_as_often_as_it_is_measured(load, runs_dir):
    todo = sweep.cells(load(experiments=SEVERAL, repetitions=3))
    assert sweep.estimate_s(todo) == sum(spec.total_s for spec in todo) + 15 * sweep.OVERHEAD_S


def test_then_the_cells_themselves_tell_what_one_costs(load, runs_dir, any_host, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: clock[0])
    executor, left = Executor(), []

    def takes_a_while(spec):
        clock[0] += 2 + len(executor.given)  # 2 s of traffic, and 0, 1, 2 … s above it
        return executor(spec)

    sweep.run(load(), execute=takes_a_while, tell=lambda report: left.append(report.left_s))
    assert left[0] == 7 * (2 + 0)
    assert left[1] == 6 * (2 + 0.5)
    assert left[2] == 5 * (2 + 1)
    assert left[-1] == 0


def test_cells_to_be_retried_take_time_as_those_without_a_run_do(load, runs_dir, any_host, monkeypatch):
    plan = load()
    todo = sweep.cells(plan)
    states = ["failed", "invalid", "skipped", "ok"]
    for spec, status in zip(todo, states, strict=False):
        Executor(lambda spec, status=status: (status, ("so it was",)))(spec)
    assert sweep.estimate_s(todo) == 4 * (2 + sweep.OVERHEAD_S)
    assert sweep.estimate_s(todo, retry=True) == 6 * (2 + sweep.OVERHEAD_S)
    clock = [0.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: clock[0])

    def without_overhead(spec):
        clock[0] += spec.total_s
        return Executor()(spec)

    left = []
    sweep.run(plan, retry=True, execute=without_overhead, tell=lambda report: left.append(report.left_s))
    assert left == [10, 8, 8, 8, 6, 4, 2, 0]


def test_cells_that_are_stored_already_take_no_time(load, runs_dir, any_host):
    plan = load()
    todo = sweep.cells(plan)
    for spec in todo[4:]:
        Executor()(spec)
    left = []
    sweep.run(plan, execute=Executor(), tell=lambda report: left.append(report.left_s))
    assert left[3:] == [0] * 5
