import pytest

from pairlab.analysis import question
from pairlab.analysis.questions.throughput import CLIENT, TOTAL
from tests.support.executed import Executed
from tests.support.synthetic import write_campaign


def test_the_notebook_works_with_one_driver_and_says_why_there_is_no_comparison(tmp_path):
    write_campaign(tmp_path / "few", backends=("netns",), drivers=("ovs",), pairs=(1, 2), repetitions=1)
    executed = Executed("01-throughput", tmp_path / "few", tmp_path)
    why = "throughput-published: netns, flowgen: no bridge at 10 pairs to be the reference\n"
    assert executed.told("published") == 2 * why  # of the table and of the figure
    assert not [name for name in executed.made if "throughput-published" in name]


def test_the_table_has_the_form_of_the_published_one(campaign):
    answer = question.ask("throughput", campaign)
    table = answer.table("throughput").loc["netns-flowgen"]
    assert list(table.index) == [1, 2, 5, 10]
    assert table.columns.tolist() == [
        (what.title, driver) for what in (CLIENT, TOTAL) for driver in ("bridge", "macvlan", "ovs")
    ]
    cell = answer["total"].set_index(["backend", "driver", "pairs"]).loc[("netns", "ovs", 5)]
    value, low, high = (cell[name] / 1e9 for name in ("value", "low", "high"))
    assert table.loc[5, (TOTAL.title, "ovs")] == f"{value:.1f} [{low:.1f}, {high:.1f}]"  # as its interval bears


def test_the_comparison_lists_only_cells_that_both_have(campaign):
    found = question.ask("throughput", campaign).table("throughput-published")
    assert found["paper E"].to_dict() == {(10, "bridge"): "1.00", (10, "macvlan"): "1.17", (10, "ovs"): "1.27"}


def test_short_keys_are_given_to_a_single_system_only(campaign, tmp_path):
    write_campaign(tmp_path / "one", backends=("netns",), repetitions=2)
    for root, short in ((campaign, False), (tmp_path / "one", True)):
        values = question.ask("throughput", root).values
        long = values["netns-flowgen/bridge/10/total"]
        if short:
            assert values["bridge/10/total"] == long
        else:
            with pytest.raises(KeyError):
                values["bridge/10/total"]
        assert values["e/ovs/10/total"] == r"71.47\,Gbit/s"
