"""The form of notebooks."""

import re
import subprocess
import sys

import nbformat
import pytest

from pairlab import paths


@pytest.mark.parametrize(
    "path", sorted([*paths.EXPERIMENTS.glob("*.ipynb"), *paths.ANALYSES.glob("*.ipynb")]), ids=lambda path: path.stem
)
def test_a_notebook_tells_its_question_then_its_parameters_and_calls_the_library(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[1].metadata["tags"] == ["parameters"]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert not [word for word in ("class ", "subprocess", "open(", "/work", "/home", "/tmp") if word in code]
    assert not re.search(r"\bre\.", code)


@pytest.mark.ci  # where nbval is used
def test_kernels_of_several_workers_cannot_be_given_the_same_port(tmp_path, clean_host):
    told = nbformat.v4.new_output("execute_result", {"text/plain": "'ipc'"}, execution_count=1)
    source = "import ipykernel\nipykernel.get_connection_info(unpack=True)['transport']"
    cell = nbformat.v4.new_code_cell(source, outputs=[told], execution_count=1)
    for name in ("one", "two"):
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "nbval", "-p", "tests.support.kernels"]
    command += ["-n", "2", "--nbval", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 2 passed " in done.stdout
