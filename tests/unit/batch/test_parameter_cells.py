"""The parameter cells of experiments' notebooks follow from Spec."""

import json
import logging

import papermill
import pytest
from click.testing import CliRunner

from pairlab import paths
from pairlab.base import parameters_cell
from pairlab.batch import experiments, parameter_cells
from pairlab.cli import main

CELL = """\
backend = "netns"  # something else
seed = 3
flow_bytes = 5_000_000  # in the paper
mine = 2  # a parameter of a study's own
driver = "bridge"
"""


def notebook(path, source):
    cell = {"cell_type": "code", "id": "parameters", "metadata": {"tags": ["parameters"]}, "source": source}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_the_notebooks_of_pairlab_are_as_spec_says():
    assert parameter_cells.out_of_date(experiments.notebooks().values()) == []


@pytest.mark.parametrize("path", sorted(paths.ROOT.glob("notebooks/*/[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_papermill_reads_each_parameter_of_a_notebook(path, caplog):
    """It takes a second `=` in a line, even in a comment, for a line that it cannot read, and says so to the user."""
    assert papermill.inspect_notebook(path)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_cell_keeps_its_values_and_gets_its_order_and_its_comments_from_spec():
    lines = parameter_cells.synced(CELL).splitlines()
    assert [line.partition(" =")[0] for line in lines] == ["flow_bytes", "mine", "driver", "", "backend", "seed"]
    assert lines[0].startswith("flow_bytes = 5_000_000  # B, payload of each flow")
    assert lines[1] == "mine = 2  # a parameter of a study's own"
    assert lines[-1] == "seed = 3  # seed of all random choices in the run"
    assert max(map(len, lines)) <= 120
    assert parameter_cells.synced("\n".join(lines)).splitlines() == lines


@pytest.mark.parametrize("sync", [False, True])
def test_the_command_names_what_is_out_of_date_and_writes_it_when_told(tmp_path, sync):
    path = notebook(tmp_path / "mine.ipynb", CELL)
    done = CliRunner().invoke(main, ["notebooks", *["--sync"] * sync, str(path)])
    assert done.exit_code == (0 if sync else 1), done.output
    assert f"{'written' if sync else 'out of date'}: " in done.output
    assert (parameter_cells.out_of_date([path]) == []) == sync
    values = {name: parameter.default for name, parameter in parameters_cell.read(path).items()}
    assert values == {"backend": "netns", "seed": 3, "flow_bytes": 5_000_000, "mine": 2, "driver": "bridge"}
