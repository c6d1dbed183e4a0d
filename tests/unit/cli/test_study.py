"""`pairlab init` and what is done in a study: whole, repeatable, and refused where something would be lost."""

import subprocess

import nbformat
import pytest
import yaml

from pairlab import paths
from pairlab.batch import parameter_cells


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
