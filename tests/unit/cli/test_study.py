"""`pairlab init` and what is done in a study: whole, repeatable, and refused where something would be lost."""

import shlex
import subprocess
import sys
from datetime import timedelta

import nbformat
import numpy as np
import pytest
import yaml

from pairlab import paths, store
from pairlab.batch import parameter_cells
from pairlab.cli import main
from tests.support.runs import WHEN, made_up


def test_a_study_has_one_of_everything_and_is_a_git_repository(pairlab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = pairlab("init", "mine")
    assert (status, err) == (0, "")
    assert out.endswith("cd mine\npairlab sweep flooding\npairlab report\n")
    study = tmp_path / "mine"
    assert (study / "README.md").read_text().startswith("# mine\n")
    assert (study / "plugins" / "hub.py").exists()
    assert yaml.safe_load((study / "claims.yaml").read_text())[0]["sources"][0]["paper"] == "own"
    tracked = subprocess.run(
        ["git", "-C", study, "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    assert {".gitignore", "pairlab.toml", "paper/main.tex", "sweeps/flooding.yaml"} <= {*tracked.stdout.split()}
    for notebook in study.rglob("*.ipynb"):
        nbformat.validate(nbformat.read(notebook, as_version=4))
    assert parameter_cells.out_of_date((study / "notebooks" / "experiments").glob("*.ipynb")) == []


def test_a_study_has_a_gate_whose_sweep_can_be_measured_and_whose_commands_are_there(pairlab, tmp_path, monkeypatch):
    assert pairlab("init", str(tmp_path / "mine"))[0] == 0
    study = tmp_path / "mine"
    workflow = yaml.safe_load((study / ".github" / "workflows" / "gate.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    commands = [shlex.split(step)[1:] for step in steps if step.startswith("pairlab ")]
    assert [command[0] for command in commands] == ["sweep", "compare"]
    for command in commands:
        main.commands[command[0]].make_context(command[0], command[1:])
    done = subprocess.run(
        [sys.executable, "-m", "pairlab", *commands[0], "--dry-run"], cwd=study, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "5 cells, " in done.stdout
    assert "over hub" in done.stdout


@pytest.mark.parametrize(("slower", "status"), [(1.0, 0), (0.8, 1)])
def test_the_gate_of_a_study_holds_a_change_against_a_baseline_of_several_occasions(
    pairlab, tmp_path, monkeypatch, slower, status
):
    """The commands of the study's README and workflow, on runs that were made up."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)

    def occasion(label, hours, level, root):
        for repetition in range(1, 6):
            at = WHEN + timedelta(hours=hours, seconds=10 * repetition)
            run = made_up(level * 1e9 * np.exp(0.01 * random.normal()), at=at, repetition=repetition)
            store.write(store.with_label(run, label), root)

    for number in range(1, 5):
        occasion(f"baseline-{number}", 6 * number, 1.0, tmp_path / "runner")
    assert pairlab("pack", "throughput", "--runs", "runner", "--to", "baseline")[0] == 0
    occasion("new", 48, slower, tmp_path / "checkout")
    words = ["baseline/", "new", "--fail-if", "throughput worse 5 %", "--runs", "checkout"]
    ended, out, err = pairlab("compare", *words)
    assert (ended, err) == (status, ""), out


def test_no_folder_with_something_in_it_becomes_a_study(refused, tmp_path):
    (tmp_path / "file").write_text("")
    status, said = refused("init", str(tmp_path))
    assert (status, said) == (2, f"{tmp_path} is not empty: name a folder that is not there yet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_lab_is_refused_where_there_is_no_workbench(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STUDY", tmp_path)
    status, said = refused("lab")
    assert status == 2
    assert said.startswith(f"no workbench in {tmp_path}/notebooks: `pairlab init STUDY`")


@pytest.mark.parametrize("words", [["paper"], ["paper", "nowhere"]])
def test_a_paper_without_results_says_so(pairlab, tmp_path, monkeypatch, words):
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path))
    status, _, err = pairlab(*words)
    assert status in (1, 2, 3)
    assert "no results labelled" in err or "LaTeX" in err
