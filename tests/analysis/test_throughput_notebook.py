import os
import subprocess
import sys

import nbformat
import pytest

from pairlab import paths
from pairlab.analysis import published, stats, throughput
from pairlab.collection import load_runs

from .synthetic import write_campaign

NOTEBOOK = paths.ANALYSES / "01-throughput.ipynb"


def execute(runs, out, target):
    command = [
        sys.executable,
        "-m",
        "papermill",
        "-k",
        "python3",
        "--no-progress-bar",
        str(NOTEBOOK),
        str(target),
    ]
    return subprocess.run(
        [*command, "-p", "runs", str(runs)],
        env=os.environ | {"PAIRLAB_OUT": str(out)},
        cwd=target.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def told(target, cell):
    found = next(each for each in nbformat.read(target, 4).cells if each.id == cell)
    return "".join(output.get("text", "") for output in found.outputs if output.get("name") != "stderr")


def test_the_notebook_makes_every_figure_table_and_value_from_two_backends(campaign, tmp_path):
    done = execute(campaign, tmp_path / "out", tmp_path / "done.ipynb")
    assert done.returncode == 0, done.stderr
    assert told(tmp_path / "done.ipynb", "load").startswith("72 runs read, 70 count, 2 left out")
    assert "netns-flowgen: 2 to 3 repetitions per cell; 1 of 161 flows failed" in told(tmp_path / "done.ipynb", "table")
    made = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    figures = {
        f"figures/campaign/throughput-{name}.{kind}"
        for name in ("total", "box", "published")
        for kind in ("pdf", "png")
    }
    tables = {
        f"paper/tables/campaign/throughput-{name}.tex" for name in ("netns-flowgen", "docker-flowgen", "published")
    }
    assert figures | tables | {"paper/values/campaign/01-throughput.tex"} == {
        name for name in made if not name.endswith(".pgf")
    }


def test_the_notebook_works_with_one_driver_and_says_why_there_is_no_comparison(tmp_path):
    write_campaign(tmp_path / "few", backends=("netns",), drivers=("ovs",), pairs=(1, 2), repetitions=1)
    done = execute(tmp_path / "few", tmp_path / "out", tmp_path / "done.ipynb")
    assert done.returncode == 0, done.stderr
    assert told(tmp_path / "done.ipynb", "published") == "netns, flowgen: no bridge at 10 pairs to be the reference\n"
    assert not list((tmp_path / "out").rglob("throughput-published*"))


def test_the_notebook_has_the_form_that_every_notebook_has():
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[1].metadata["tags"] == ["parameters"]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for forbidden in ("class ", "subprocess", "open(", "re.", "/work", "/home"):
        assert forbidden not in code


def test_the_table_has_the_form_of_the_published_one(campaign):
    cells = stats.throughput_by_cell(load_runs(campaign).flows)
    table = throughput.table(cells[cells["backend"] == "netns"])
    assert list(table.index) == [1, 2, 5, 10]
    assert table.columns.tolist() == [
        (what, driver) for what in (throughput.CLIENT, throughput.TOTAL) for driver in ("bridge", "macvlan", "ovs")
    ]
    cell = cells.set_index(["backend", "driver", "pairs"]).loc[("netns", "ovs", 5)]
    half = (cell["total_high_bps"] - cell["total_bps"]) / 1e9
    assert table.loc[5, (throughput.TOTAL, "ovs")] == f"{cell['total_bps'] / 1e9:.2f} ± {half:.2f}"


def test_the_comparison_lists_only_cells_that_both_have(campaign):
    ours = stats.normalised_shape(stats.throughput_by_repetition(load_runs(campaign).flows))
    theirs = stats.normalised_shape(published.load("throughput"), by=["paper"])
    found = throughput.comparison(ours.cells, theirs.cells)
    assert list(zip(found["Pairs"], found["Driver"], found["paper E"], strict=True)) == [
        (10, "bridge", "1.00"),
        (10, "macvlan", "1.17"),
        (10, "ovs", "1.27"),
    ]


def test_short_keys_are_given_to_a_single_system_only(campaign, tmp_path):
    write_campaign(tmp_path / "one", backends=("netns",), repetitions=2)
    for root, short in ((campaign, False), (tmp_path / "one", True)):
        runs = load_runs(root)
        cells = stats.throughput_by_cell(runs.flows)
        shape = stats.normalised_shape(stats.throughput_by_repetition(runs.flows))
        compared = throughput.comparison(shape.cells, shape.cells.assign(paper="E"))
        values = throughput.values(runs, cells, shape, shape, compared)
        long = values["netns-flowgen/bridge/10/total"]
        if short:
            assert values["bridge/10/total"] == long
        else:
            with pytest.raises(KeyError):
                values["bridge/10/total"]
        assert values["e/ovs/10/total"] == r"71.47\,Gbit/s"
