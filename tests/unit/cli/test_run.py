"""`pairlab run`: bad input is one clear line and an exit status, and nothing is written."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from pairlab import paths, store
from pairlab.batch import experiments
from pairlab.errors import HostBusy, MeasurementFailed, TestbedError, Unavailable
from pairlab.measurement import measure as measurement
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.testbed import registry
from tests.unit.cli.helpers import made_up


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "drivr",
            "bridge",
            "'throughput' has no parameter 'drivr'; did you mean 'driver'? (there are: driver, pairs, ",
        ),
        ("pairs", "0", "pairs: input should be greater than or equal to 1, not 0"),
        ("pairs", "many", "pairs: 'many' is not a number"),
        ("pairs", "2.5", "pairs: must be a whole number, not 2.5"),
        ("pairs", "", "pairs: give a number"),
        ("pairs", "[1, 2]", "pairs: '[1, 2]' is not a number"),
        ("pairs", "9" * 400, "pairs: input should be less than or equal to 5000, not 9999"),
        ("driver", "bridges", "no driver 'bridges'; did you mean 'bridge'? (there are: bgp, bridge, container, "),
        ("driver", "a: b: c", "driver: string should match pattern '^[a-z][a-z0-9_-]{0,39}$', not 'a: b: c'"),
        ("driver", "two\n\nlines", "driver: string should match pattern"),
        ("driver", "2001-02-31", "driver: string should match pattern"),
        ("driver", "a=b", "driver: string should match pattern"),
        ("backend", "podman", f"no backend 'podman' (there are: {', '.join(registry.backends.names())})"),
        ("workload", "ping", f"no workload 'ping' (there are: {', '.join(registry.workloads.names())}, auto)"),
        ("duration_s", "-1", "duration_s: input should be greater than 0, not -1"),
        ("duration_s", "inf", "duration_s: 'inf' is not a number"),
        ("duration_s", "1:30", "duration_s: '1:30' is not a number"),
        ("duration_s", "0,5", "duration_s: '0,5' is not a number: write the decimal point as a dot"),
        ("warmup_s", "0.3", "warmup_s 0.3 must be a whole number of intervals of 0.5 s"),
        ("fresh", "banana", "fresh: must be a bool, not 'banana'"),
        ("experiment", "fct", "'throughput' has no parameter 'experiment'"),
        ("two\nlines", "1", "'throughput' has no parameter 'two\\nlines'"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(refused, no_notebook, name, value, told):
    status, said = refused("run", "throughput", "-p", name, value)
    assert (status, said[: len(told)]) == (2, told)


def test_what_a_workload_cannot_do_is_refused_before_a_kernel_is_started(refused, no_notebook):
    parameters = ["-p", "workload", "iperf3", "-p", "duration_s", "2.5"]
    status, said = refused("run", "throughput", *parameters)
    assert status == 2
    assert "iperf3 sends for whole seconds only, and warmup_s + duration_s is 2.5" in said


@pytest.mark.parametrize("name", ["thruput", "", "a b", "../01-throughput", "two\nlines"])
def test_an_unknown_experiment_is_told_those_there_are(refused, no_notebook, name):
    known = ", ".join(experiments.notebooks())
    meant = "; did you mean 'throughput'?" if "thr" in name else ""
    assert refused("run", name) == (2, f"no experiment {name!r}{meant} (there are: {known})")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unavailable("no ovs: get it"), 3),
        (HostBusy("somebody is measuring"), 1),
        (MeasurementFailed("it broke"), 1),
        (TestbedError("it fell"), 1),
        (KeyboardInterrupt(), 130),
        (OSError(24, "Too many open files", "/proc/x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_status(refused, monkeypatch, error, status):
    def fail(*arguments, **named):
        raise error

    monkeypatch.setattr(experiments, "run", fail)
    told = str(error) or "interrupted: the host is clean, and finished runs are kept"
    if isinstance(error, OSError):
        advice = "check the disk's free space, permissions and limits, then run the command again"
        told = f"/proc/x: Too many open files: {advice}"
    assert refused("run", "throughput") == (status, told)


@pytest.mark.parametrize(("state", "reasons", "status"), [("ok", (), 0), ("invalid", ("started apart",), 1)])
def test_a_run_is_told_with_where_it_lies(pairlab, monkeypatch, state, reasons, status):
    monkeypatch.setattr(experiments, "run", lambda *given, **how: store.write(Run(Spec(pairs=3), state, reasons)))
    done, out, err = pairlab("run", "throughput")
    assert (done, err) == (status, "")
    assert f"3 pairs, 10 s, repetition 0 (netns): {state}" in out
    assert f"stored in {paths.runs()}/throughput/{Spec(pairs=3).key}" in out


def test_a_notebook_is_given_values_as_its_spec_has_them(pairlab, measured, monkeypatch):
    given = []
    inner = experiments.execute
    monkeypatch.setattr(experiments, "execute", lambda *all, **how: (given.append(all[2]), inner(*all, **how)))
    words = [
        "-p",
        "pairs",
        "3",
        "-p",
        "duration_s=500 ms",
        "-p",
        "interval_s=.25",
        "-p",
        "driver=ovs",
        "-p",
        "seed=010",
    ]
    pairlab("run", "throughput", *words, "-p", "workload=flowgen", "-p", "fresh=false")
    pairlab("run", "throughput", "-p", "workload=flowgen", "--fresh")
    first = {"pairs": 3, "duration_s": 0.5, "interval_s": 0.25, "driver": "ovs", "seed": 10, "workload": "flowgen"}
    assert repr(given) == repr([first | {"fresh": False}, {"workload": "flowgen", "fresh": True}])


def test_whether_to_wait_for_other_measurements_is_passed_on(pairlab, monkeypatch):
    given = {}
    monkeypatch.setattr(experiments, "run", lambda name, values, **how: given.update(how) or made_up())
    pairlab("run", "throughput")
    assert given["wait"] is True
    pairlab("run", "throughput", "--no-wait")
    assert given["wait"] is False


def test_as_a_program_it_ends_with_one_line_and_no_traceback(runs_dir):
    command = [Path(sys.executable).with_name("pairlab"), "run", "throughput", "-p", "pairs", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pairlab: pairs: input should be greater than or equal to 1, not 0\n"
    assert not runs_dir.exists()


def test_an_experiment_without_a_docker_daemon_ends_with_status_3(pairlab, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    status, out, err = pairlab("run", "throughput", "-p", "backend", "docker")
    assert (status, out) == (3, "")
    assert err.startswith("pairlab: backend 'docker': no Docker daemon answers at unix:///nonexistent: sudo apt-get")
    assert err.count("\n") == 1


def test_programs_are_told_of_each_phase_and_of_the_run_a_json_object_a_line(pairlab, monkeypatch):
    def run(experiment, values, *, progress, **how):
        for done in range(3):
            progress("bringing up", done, 2)
        progress("measuring (s)", 0.5, 2.0)
        stored.append(made_up(pairs=7))
        return stored[0]

    stored = []
    monkeypatch.setattr(experiments, "run", run)
    status, out, err = pairlab("run", "throughput", "--json")
    assert (status, err) == (0, "")
    *phases, told = map(json.loads, out.splitlines())
    assert phases == [
        {"event": "phase", "phase": "bringing up", "total": 2, "unit": None},
        {"event": "phase", "phase": "measuring", "total": 2.0, "unit": "s"},
    ]
    assert told == {
        "event": "run",
        "experiment": "throughput",
        "key": Spec(pairs=7).key,
        "status": "ok",
        "reasons": [],
        "total_throughput_bps": 4.2e9,
        "common_throughput_bps": None,
        "flows": 1,
        "failed_flows": 0,
        "path": str(stored[0].path),
    }
    monkeypatch.setattr(experiments, "run", lambda *given, **how: store.write(Run(Spec(), "failed", ("it broke",))))
    status, out, _ = pairlab("run", "throughput", "--json")
    assert (status, json.loads(out)["status"], json.loads(out)["total_throughput_bps"]) == (1, "failed", None)


@pytest.mark.parametrize("given", [["-p", "pairs=7"], ["-p", "pairs", "7"], ["-ppairs=7"]])
def test_a_parameter_is_given_with_an_equals_sign_or_without(pairlab, measured, given):
    assert pairlab("run", "throughput", *given, "-p", "workload=flowgen")[0] == 0
    assert [(spec.pairs, spec.workload) for spec, _ in measured] == [(7, "flowgen")]


def of_ones_own():
    """An experiment's notebook of somebody's own, with what a sweep sets."""
    parameters = new_code_cell("pairs = 2\nworkload = 'flowgen'\nbackend = 'netns'\nrepetition = 0\nseed = 0")
    parameters.metadata.tags = ["parameters"]
    making = new_code_cell(
        "from pairlab import measure, spec_from\nspec = spec_from(globals(), experiment='my-question')"
    )
    cells = [parameters, new_code_cell("%matplotlib inline"), making, new_code_cell("run = measure(spec)")]
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return nbformat.writes(new_notebook(cells=cells, metadata={"kernelspec": kernel}))


@pytest.fixture
def measured(monkeypatch):
    """What would be measured: specs with their notebooks; a run of each is stored as if it had been."""
    found = []

    def execute(notebook, executed, parameters, reports, imports=()):
        known = experiments.notebooks() | experiments._elsewhere
        name = next(name for name, path in known.items() if path == notebook)
        spec = measurement.resolve(experiments.spec_of(name, parameters))
        found.append((spec, notebook))
        flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 4.2e9}])
        run = store.write(Run(spec, "ok", (), datetime.now(UTC), flows=flows))
        reports.runs[spec.key] = str(spec), run.path

    monkeypatch.setattr(experiments, "execute", execute)
    monkeypatch.setattr(experiments, "_elsewhere", {})
    monkeypatch.setattr(experiments.lock, "await_turn", lambda wait, say: None)  # it measures nothing
    yield found
    experiments.parameters.cache_clear()


def test_an_experiment_from_anywhere_is_run_by_its_path(pairlab, measured, runs_dir, tmp_path, monkeypatch):
    notebook = tmp_path / "mine.ipynb"
    notebook.write_text(of_ones_own())
    monkeypatch.chdir(tmp_path)
    status, out, err = pairlab("run", "./mine.ipynb", "-p", "pairs=3")
    assert (status, err) == (0, "")
    ((spec, run_by),) = measured
    assert (spec.experiment, spec.pairs, run_by) == ("my-question", 3, notebook)
    assert f"stored in {runs_dir}/my-question/{spec.key}" in out
    status, _, err = pairlab("run", "./mine.ipynb", "-p", "pear=3")
    assert (status, err.startswith("pairlab: 'my-question' has no parameter 'pear'; did you mean 'pairs'?")) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    "magic", ["x = !ls", "files = %sx ls", "%%time", "!ls \\\n  -l", "spec_from?", "if True:\n    !ls", "%time"]
)
def test_a_cell_with_magics_names_the_experiment_too(magic, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "_elsewhere", {})
    making = "spec = spec_from(globals(), experiment='my-question')"
    source = f"{magic} {making}" if magic == "%time" else f"{magic}\n{making}"
    (tmp_path / "mine.ipynb").write_text(nbformat.writes(new_notebook(cells=[new_code_cell(source)])))
    assert experiments.named(str(tmp_path / "mine.ipynb")) == "my-question"


def test_a_sweep_names_an_experiment_from_anywhere_by_its_path_from_the_sweeps_folder(pairlab, measured, tmp_path):
    (tmp_path / "mine.ipynb").write_text(of_ones_own())
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps({"name": "small", "experiments": {"./mine.ipynb": {"pairs": [1, 2]}}}))
    assert pairlab("sweep", str(file))[0] == 0
    assert sorted((spec.experiment, spec.pairs) for spec, _ in measured) == [("my-question", 1), ("my-question", 2)]
    file.write_text(json.dumps({"name": "small", "experiments": {"./mine.ipynb": {}, "my-question": {}}}))
    status, _, err = pairlab("sweep", str(file))
    assert (status, "has the experiment 'my-question' twice, by its name and by a notebook" in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no experiment {}: No such file or directory"),
        ("{", "{} is not a notebook"),
        (
            '{"cells": [{"cell_type": "code", "source": "print(1)"}]}',
            "{} does not name its experiment: call spec_from(",
        ),
    ],
)
def test_a_path_that_is_no_experiment_is_refused_in_words(refused, no_notebook, tmp_path, content, told):
    notebook = tmp_path / "mine.ipynb"
    if content:
        notebook.write_text(content)
    status, said = refused("run", str(notebook))
    assert (status, said.startswith(told.format(notebook))) == (2, True)


def test_a_home_that_nobody_has_is_no_folder_of_a_notebook(refused, no_notebook):
    status, said = refused("run", "~nosuchuser/x.ipynb")
    assert (status, said) == (2, "no experiment ~nosuchuser/x.ipynb: this host has no user with the home ~nosuchuser")


def notebook_of(folder, parameters, metadata=None, tagged=True):
    """An experiment's notebook with that cell of parameters."""
    cell = new_code_cell(parameters)
    cell.metadata.tags = ["parameters"] if tagged else []
    making = new_code_cell("from pairlab import measure, spec_from\nspec_from(globals(), experiment='my-question')")
    path = folder / "mine.ipynb"
    path.write_text(nbformat.writes(new_notebook(cells=[cell, making], metadata=metadata or {})))
    return path


@pytest.mark.parametrize("recorded", [True, False], ids=["another", "none"])
def test_a_notebook_that_measures_another_spec_is_not_answered_with_a_stored_run(
    pairlab, monkeypatch, tmp_path, recorded, measured
):
    def execute(notebook, executed, parameters, reports, imports=()):
        if recorded:  # as measure() does, in the notebook's kernel
            other = Spec(experiment="my-question", pairs=7, workload="flowgen")
            reports.runs[other.key] = str(other), store.directory_of(other)

    notebook = notebook_of(tmp_path, "pairs = 2\nworkload = 'flowgen'")
    assert pairlab("run", str(notebook))[0] == 0
    monkeypatch.setattr(experiments, "execute", execute)
    status, out, err = pairlab("run", str(notebook))
    assert (status, out) == (1, "")
    assert "the notebook mine.ipynb ended, but measured no run of my-question: flowgen over bridge, 2 pairs" in err
    assert ("it measured my-question: flowgen over bridge, 7 pairs" if recorded else "it measured nothing") in err


def test_a_stored_run_that_the_notebook_asked_for_is_its_result(pairlab, monkeypatch, tmp_path, measured):
    notebook = notebook_of(tmp_path, "pairs = 2\nworkload = 'flowgen'")
    assert pairlab("run", str(notebook))[0] == 0
    ((spec, _),) = measured

    def execute(notebook, executed, parameters, reports, imports=()):
        reports.runs[spec.key] = str(spec), store.find(spec).path

    monkeypatch.setattr(experiments, "execute", execute)
    status, out, _ = pairlab("run", str(notebook))
    assert (status, "from the store" in out) == (0, True)


def test_a_notebook_that_names_no_kernel_is_an_experiment(pairlab, measured, tmp_path):
    notebook = notebook_of(tmp_path, "flow_bytes = 5 * 10**6; pairs, duration_s = 3, 2.0")
    assert pairlab("run", str(notebook))[0] == 0
    ((spec, _),) = measured
    assert (spec.flow_bytes, spec.pairs, spec.duration_s) == (5_000_000, 3, 2.0)


def test_a_notebook_without_tagged_parameters_is_refused(refused, no_notebook, measured, tmp_path):
    status, said = refused("run", str(notebook_of(tmp_path, "pairs = 7", tagged=False)))
    assert (status, f"{tmp_path}/mine.ipynb has no cell tagged 'parameters': give this tag" in said) == (2, True)


def test_the_parameters_of_an_experiment_are_listed_with_their_meaning(pairlab, no_notebook):
    status, out, err = pairlab("run", "throughput", "--help-parameters")
    assert (status, err) == (0, "")
    assert "pairs = 2  # client/server pairs, all active at once" in out.splitlines()
    assert [line.partition(" = ")[0] for line in out.splitlines()] == list(experiments.parameters("throughput"))
