import pytest

from pairlab import paths
from pairlab.analysis import published, stats, throughput
from pairlab.collection import load_runs

from .executed import Executed, figures, tables
from .synthetic import write_campaign

NOTEBOOK = paths.ANALYSES / "01-throughput.ipynb"


def test_the_notebook_makes_every_figure_table_and_value_from_two_backends(campaign, tmp_path):
    executed = Executed("01-throughput", campaign, tmp_path)
    assert executed.told("load").startswith("72 runs read, 70 count, 2 left out")
    assert "netns-flowgen: 2 to 3 repetitions per cell; 1 of 161 flows failed" in executed.told("table")
    made = figures("campaign", *(f"throughput-{name}" for name in ("total", "box", "published")))
    made |= tables("campaign", *(f"throughput-{name}" for name in ("netns-flowgen", "docker-flowgen", "published")))
    assert executed.made == made | {"paper/values/campaign/01-throughput.tex"}


def test_the_notebook_works_with_one_driver_and_says_why_there_is_no_comparison(tmp_path):
    write_campaign(tmp_path / "few", backends=("netns",), drivers=("ovs",), pairs=(1, 2), repetitions=1)
    executed = Executed("01-throughput", tmp_path / "few", tmp_path)
    assert executed.told("published") == "netns, flowgen: no bridge at 10 pairs to be the reference\n"
    assert not [name for name in executed.made if "throughput-published" in name]


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
