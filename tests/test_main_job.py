"""The whole way, from a sweep file to figures, with real traffic; and what an interruption leaves."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pairlab import load_runs, paths, store
from tests import host
from tests.conftest import need
from tests.spoilt import ATTEMPTS, spoilt_by_the_machine

BIN = Path(sys.executable).parent
SWEEP = """
name: tiny
seed: 3
repetitions: 2
unavailable: skip
experiments:
  throughput:
    driver: [bridge, host]
    pairs: [1, 3]
    workload: flowgen
    duration_s: 2  # so that starts 0.2 s apart leave flows together for the 0.8 of the time that a run must have
    max_skew_s: 5
    max_foreign_cpu: 1.0
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    need("netns")
    (tmp_path / "tiny.yaml").write_text(SWEEP)
    monkeypatch.setenv("PAIRLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path))
    return tmp_path


def pairlab(*arguments):
    return subprocess.run([BIN / "pairlab", *arguments], capture_output=True, text=True, check=False)


def swept(place):
    """The sweep, gone on with until the machine spoilt none of its runs."""
    words = ["sweep", str(place / "tiny.yaml")]
    for again in ([], *[["--retry"]] * (ATTEMPTS - 1)):
        done = pairlab(*words, *again)
        if not any(spoilt_by_the_machine(store.read(each)) for each in store.directories(place / "runs")):
            break
    return done


def test_a_sweep_becomes_runs_figures_tables_and_numbers(place, clean_host):
    done = swept(place)
    assert done.returncode == 0, done.stderr
    assert "8 done, 0 skipped, 0 not done" in done.stdout
    runs = load_runs(place / "runs", experiment="throughput", sweep="tiny")
    assert sorted(runs.index.groupby(["driver", "pairs"]).size()) == [2, 2, 2, 2]
    assert set(runs.index["status"]) == {"ok"}
    assert all((run.path / "notebook.ipynb").exists() for run in runs)

    again = pairlab("sweep", str(place / "tiny.yaml"))
    assert again.stdout.count(" stored ") == 8

    report = pairlab("report", "--runs", str(place / "runs"), "--sweep", "tiny")
    assert report.returncode == 0, report.stderr
    assert "netns-flowgen: total throughput in Gbit/s" in report.stdout
    for name in ("throughput-total.png", "throughput-total.pdf", "throughput-box.png", "01-throughput.ipynb"):
        assert (place / "figures" / "tiny" / name).stat().st_size > 1000
    values = (place / "paper" / "values" / "tiny" / "01-throughput.tex").read_text()
    assert "throughput/netns-flowgen/bridge/3/total" in values
    assert "throughput-total.png" not in values


def test_plain_papermill_gives_the_same_record_as_a_sweep(place, clean_host):
    parameters = {
        "driver": "host",
        "pairs": 1,
        "workload": "flowgen",
        "duration_s": 2,
        "max_skew_s": 5,
        "max_foreign_cpu": 1.0,
        "seed": 3,
    }
    options = [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    notebook = paths.EXPERIMENTS / "01-throughput.ipynb"
    for _ in range(ATTEMPTS):
        words = [BIN / "papermill", str(notebook), str(place / "out.ipynb"), *options]
        subprocess.run(words, check=True, capture_output=True, cwd="/")
        (run,) = [store.read(each) for each in store.directories(place / "runs")]
        if not spoilt_by_the_machine(run):
            break
    listed = pairlab("sweep", str(place / "tiny.yaml"), "--dry-run")
    assert f"{run.key} {run.spec} [ok]" in listed.stdout


def test_plain_papermill_refuses_a_misspelt_parameter_before_anything_is_built(place, clean_host):
    notebook = paths.EXPERIMENTS / "01-throughput.ipynb"
    done = subprocess.run(
        [BIN / "papermill", str(notebook), str(place / "out.ipynb"), "-p", "pears", "5"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no parameter 'pears'; did you mean 'pairs'?" in done.stderr
    assert not (place / "runs").exists()


def test_a_notebook_whose_run_is_invalid_says_so_and_keeps_it(place):
    done = pairlab("run", "throughput", "-p", "pairs", "5", "-p", "workload", "flowgen", "-p", "max_skew_s", "1e-9")
    assert done.returncode == 1
    assert re.search(r"invalid \([^()]*clients started within", done.stdout), done.stdout
    assert json.loads(next(place.glob("runs/*/*/run.json")).read_text())["status"] == "invalid"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_an_interrupted_sweep_leaves_the_host_clean_and_goes_on_where_it_was(place, clean_host, number):
    sweep = host.started([BIN / "pairlab", "sweep", str(place / "tiny.yaml")])
    with sweep:
        for line in sweep.stdout:
            if " done " in line:
                break
        deadline = time.monotonic() + 30
        while not host.difference(clean_host).get("processes") and time.monotonic() < deadline:
            time.sleep(0.01)  # the next cell's testbed is coming up
        os.killpg(sweep.pid, number)
        sweep.communicate(timeout=30)
    assert host.settled(clean_host, within_s=10), host.difference(clean_host)
    before = {run.key: run.measured_at for run in load_runs(place / "runs")}
    assert before
    done = swept(place)
    assert done.returncode == 0, done.stderr
    after = {run.key: run.measured_at for run in load_runs(place / "runs")}
    assert len(after) == 8
    assert {key: after[key] for key in before} == before


def test_parameters_of_a_wrong_type_are_refused_by_the_notebook_itself(place):
    notebook = paths.EXPERIMENTS / "01-throughput.ipynb"
    for wrong in ("{pairs: [5]}", "{driver: null}"):
        done = subprocess.run(
            [BIN / "papermill", str(notebook), str(place / "out.ipynb"), "-y", wrong],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "BadSpec" in done.stderr
    assert not (place / "runs").exists()


def test_the_tools_that_ci_installed_are_seen():
    """PAIRLAB_EXPECT names what must not be skipped, as backend:name: a skip in CI would hide a test."""
    wanted = os.environ.get("PAIRLAB_EXPECT", "")
    found = json.loads(pairlab("doctor", "--json").stdout)
    there = {
        f"{backend}:{name}"
        for backend, its in found["backends"].items()
        for kind in ("drivers", "workloads")
        for name, finding in its[kind].items()
        if finding["available"]
    }
    there |= {name.lower() for name, extra in found["extras"].items() if extra["available"]}
    assert set(filter(None, wanted.split(","))) <= there
