"""Notebooks: their form, and that experiments run as they stand, where this machine can do what they ask for."""

import os
import subprocess
import sys

import nbformat
import pytest

from pairlab import paths, store
from tests.conftest import need
from tests.spoilt import ATTEMPTS, spoilt_by_the_machine


def test_every_experiment_runs_as_it_stands_and_stores_its_run(runs_dir, clean_host):
    """Where the machine spoilt one, all are run again: of those that count, the stored run is taken."""
    need("netns")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.kernels", "--nbval-lax"]
    command.append(str(paths.EXPERIMENTS))
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, cwd=paths.ROOT, check=False)
        runs = [store.read(place) for place in store.directories()]
        spoilt = [run for run in runs if run.status != "ok"]
        if not spoilt or not all(map(spoilt_by_the_machine, spoilt)):
            break
    assert done.returncode == 0, done.stdout + done.stderr
    assert {run.spec.experiment for run in runs} == {path.stem[3:] for path in paths.EXPERIMENTS.glob("*.ipynb")}


@pytest.mark.parametrize(
    "path", sorted([*paths.EXPERIMENTS.glob("*.ipynb"), *paths.ANALYSES.glob("*.ipynb")]), ids=lambda path: path.stem
)
def test_a_notebook_tells_its_question_then_its_parameters_and_calls_the_library(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[1].metadata["tags"] == ["parameters"]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert not [word for word in ("class ", "subprocess", "open(", "re.", "/work", "/home", "/tmp") if word in code]


def test_kernels_of_several_workers_cannot_be_given_the_same_port(tmp_path, clean_host):
    told = nbformat.v4.new_output("execute_result", {"text/plain": "'ipc'"}, execution_count=1)
    source = "import ipykernel\nipykernel.get_connection_info(unpack=True)['transport']"
    cell = nbformat.v4.new_code_cell(source, outputs=[told], execution_count=1)
    for name in ("one", "two"):
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.kernels", "-n", "2", "--nbval"]
    done = subprocess.run([*command, tmp_path], capture_output=True, text=True, cwd=paths.ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 2 passed " in done.stdout
