"""What is committed of the reference fits together: the paper's PDF is of the results beside it."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner

from pairlab import cli, load_runs, paths
from pairlab.analysis.output import paper


@pytest.mark.parametrize("name", ["reference.pdf", "reference-report.pdf"])
def test_the_committed_paper_is_made_of_the_committed_results(name):
    pdf = (paths.PAPER / name).read_bytes()
    made_of = re.search(rb"/MadeOf ?\(([0-9a-f]{16})\)", pdf)
    assert made_of, "the PDF does not tell what it was made of"
    assert made_of[1].decode() == paper.inputs_digest("reference"), "make outputs"
    assert len(pdf) <= 2e6


def test_no_committed_output_names_where_it_was_made():
    for file in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb")):
        outputs = [cell["outputs"] for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
        assert "Path('/" not in json.dumps(outputs), file.name


def test_committed_runs_are_listed_and_read_with_the_versions_that_are_installed(tmp_path):
    """Those may be the lowest (tests/lowest.py): pyarrow 19.0.0 does not read what later ones wrote."""
    shutil.copy(*paths.REFERENCE.glob("launch-time*.pack"), tmp_path)
    runs = load_runs(tmp_path, environment="all")
    listed = CliRunner().invoke(cli.main, ["ls", "--runs", str(tmp_path)])
    assert (listed.exit_code, listed.exception) == (0, None), listed.output
    assert len(runs) > 0
    assert all(run.key in listed.output for run in runs)
