"""Experiments by papermill and by the command, with real traffic, and what is refused before it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab import paths, store
from pairlab.base.caller import caller_with
from pairlab.errors import BadSpec
from tests.conftest import need
from tests.support.attempts import ATTEMPTS
from tests.support.executed import run_cells

BIN = Path(sys.executable).parent
SWEEP = """
name: tiny
seed: 3
repetitions: 2
unavailable: skip
experiments:
  throughput:
    driver: bridge
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


@pytest.mark.whole
def test_plain_papermill_gives_the_same_record_as_a_sweep(place, clean_host):
    parameters = {"driver": "bridge", "pairs": 1, "workload": "flowgen", "duration_s": 2, "seed": 3}
    parameters |= {"max_skew_s": 5, "max_foreign_cpu": 1.0}
    options = [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    notebook = paths.EXPERIMENTS / "01-throughput.ipynb"
    words = [BIN / "papermill", str(notebook), str(place / "out.ipynb"), *options]
    with caller_with(attempts=ATTEMPTS):
        subprocess.run(words, check=True, capture_output=True, cwd="/")
    (run,) = [store.read(each) for each in store.directories(place / "runs")]
    listed = pairlab("sweep", str(place / "tiny.yaml"), "--dry-run")
    assert f"{run.key} {run.spec} [ok]" in listed.stdout


@pytest.mark.whole  # in this process: the parameters of a wrong type below
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


@pytest.mark.whole
def test_a_notebook_whose_run_is_invalid_says_so_and_keeps_it(place):
    done = pairlab("run", "throughput", *("-p", "duration_s=0.5", "-p", "workload=flowgen", "-p", "max_skew_s=1e-9"))
    assert done.returncode == 1
    assert re.search(r"invalid \([^()]*client start times are spread over", done.stdout), done.stdout
    assert json.loads(next(place.glob("runs/*/*/run.json")).read_text())["status"] == "invalid"


@pytest.mark.parametrize("wrong", [{"pairs": [5]}, {"driver": None}])
def test_parameters_of_a_wrong_type_are_refused_by_the_notebook_itself(wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLAB_RUNS", str(tmp_path / "runs"))
    with pytest.raises(BadSpec, match=next(iter(wrong))):
        run_cells(paths.EXPERIMENTS / "01-throughput.ipynb", **wrong)
    assert not (tmp_path / "runs").exists()
