"""Notebooks diff cleanly: after `make setup`, what running and saving one changes in it is no change to git."""

import shlex
import shutil
import subprocess
import sys

import nbformat
import pytest

from pairlab import paths
from tests.conftest import mostly_whole
from tests.unit.project.test_bootstrap import bootstrap  # noqa: F401  (a fixture)

EXPERIMENT = "notebooks/experiments/01-throughput.ipynb"
ANALYSIS = "notebooks/analysis/01-throughput.ipynb"
NOTEBOOKS = sorted(str(each.relative_to(paths.ROOT)) for each in paths.NOTEBOOKS.glob("*/*.ipynb"))


@pytest.fixture
def git(bootstrap, tmp_path, monkeypatch):  # noqa: F811
    """git in a small checkout of the test's own: notebooks, attributes and filters, and this environment as .venv."""
    checkout = tmp_path / "checkout"
    for name in (".gitattributes", EXPERIMENT, ANALYSIS):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.ROOT / name, checkout / name)
    (checkout / ".venv").symlink_to(sys.prefix)

    def git(*arguments, at="."):
        command = ["git", "-C", checkout / at, "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        git.said += done.stderr
        return done.stdout

    git.said = ""

    git("init", "--quiet")
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    bootstrap.set_git_filters()
    git("add", "notebooks", ".gitattributes")
    git("commit", "--quiet", "--message", "as they are")
    git.checkout = checkout
    return git


def save_as_run(path):
    """The notebook as JupyterLab saves it when all of it was run, with a widget."""
    notebook = nbformat.read(path, 4)
    for count, cell in enumerate((each for each in notebook.cells if each.cell_type == "code"), 1):
        cell.execution_count = count
        cell.outputs = [nbformat.v4.new_output("stream", text="9.43 Gbit/s\n")]
        cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
        cell.metadata["scrolled"] = True
    state = {"application/vnd.jupyter.widget-state+json": {"state": {}, "version_major": 2, "version_minor": 0}}
    notebook.metadata["widgets"] = state
    notebook.metadata.language_info = {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": "3.13.1",
    }
    nbformat.write(notebook, path)


def test_what_was_written_into_an_experiment_is_the_whole_change(git):
    notebook = git.checkout / EXPERIMENT
    assert "duration_s = " in notebook.read_text()
    notebook.write_text(notebook.read_text().replace("duration_s = ", "duration_s = 1"))
    save_as_run(notebook)
    assert git("diff", "--numstat") == f"1\t1\t{EXPERIMENT}\n"
    git("commit", "--quiet", "--all", "--message", "longer")
    assert "9.43" not in git("show", f"HEAD:{EXPERIMENT}")


def test_an_analysis_keeps_its_outputs_and_nothing_of_who_ran_it(git):
    save_as_run(git.checkout / ANALYSIS)
    changed = [line for line in git("diff", "--unified=0").splitlines() if line.startswith("+")]
    assert any("9.43 Gbit/s" in line for line in changed)
    assert not any(word in line for line in changed for word in ("3.13.1", "codemirror", "widgets", "iopub"))


def test_a_clone_without_the_environment_has_its_notebooks_as_they_are(git):
    (git.checkout / ".venv").unlink()
    save_as_run(git.checkout / EXPERIMENT)
    assert "9.43 Gbit/s" in git("diff")
    assert git.said == ""


@pytest.mark.parametrize("has_its_own", mostly_whole([False, True], but=[False]))
def test_a_worktree_of_the_clone_has_the_same_filters_and_says_nothing(git, has_its_own):
    elsewhere = git.checkout.parent / "work tree"
    git("worktree", "add", "--quiet", "--detach", str(elsewhere))
    if has_its_own:
        (elsewhere / ".venv").symlink_to(sys.prefix)
        (git.checkout / ".venv").unlink()
    save_as_run(elsewhere / EXPERIMENT)
    assert (git("diff", "--stat", at=elsewhere), git.said) == ("", "")


CONFLICT = '{"cells": [\n<<<<<<< HEAD\n=======\n>>>>>>> theirs\n'


@pytest.mark.parametrize("text", mostly_whole(["", CONFLICT, "[]", '{"nbformat": 99}'], but=[CONFLICT]))
def test_a_notebook_that_is_none_is_added_as_it_is_without_a_word(text, git):
    (git.checkout / EXPERIMENT).write_text(text)
    git("add", EXPERIMENT)
    assert (git("show", f":{EXPERIMENT}"), git.said) == (text, "")


@pytest.mark.parametrize("filter_name", ["notebook-source", "notebook-with-outputs"])
def test_committed_notebooks_are_as_their_filter_leaves_them(filter_name, bootstrap):  # noqa: F811
    attributes = subprocess.run(
        ["git", "-C", paths.ROOT, "check-attr", "filter", *NOTEBOOKS], capture_output=True, text=True, check=True
    )
    told = [line.rsplit(": ", 2) for line in attributes.stdout.splitlines()]
    names = [name for name, _, its in told if its == filter_name]
    assert len(names) > 5
    command = shlex.split(bootstrap.FILTERS[filter_name].replace(".venv/bin/python", sys.executable))
    done = subprocess.run([*command, "--verify", *names], cwd=paths.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
