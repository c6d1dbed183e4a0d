import pytest

from pairlab.analysis import published
from pairlab.errors import UnknownName


def test_table_one_has_all_thirty_cells_in_base_units():
    table = published.load("throughput").set_index(["driver", "pairs"])
    assert len(table) == 30
    assert table.loc[("macvlan", 90), "total_bps"] == 71_028_000_000
    assert table.loc[("ovs", 100), "client_bps"] == 682_400_000


def test_each_total_is_its_pairs_times_the_mean_as_printed():
    table = published.load("throughput")
    assert (table["total_bps"] - table["client_bps"] * table["pairs"]).abs().max() < 1


def test_the_stated_levels_are_those_of_bridge_and_ovs():
    level = published.load("saturation").set_index("driver")["total_bps"]
    assert level.to_dict() == {"bridge": 56e9, "ovs": 70e9}


@pytest.mark.parametrize("name", ["throughput", "saturation", "testbeds"])
def test_every_row_names_its_paper_and_the_place_in_it(name):
    table = published.load(name)
    assert set(table["paper"]) <= set(published.PAPERS)
    assert table["source"].str.contains("table|figure|section").all()


def test_an_unknown_table_lists_those_there_are():
    with pytest.raises(UnknownName, match="there are: saturation, testbeds, throughput"):
        published.load("troughput")
