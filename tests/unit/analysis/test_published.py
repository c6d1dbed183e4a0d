import pytest

from pairlab.analysis import published
from pairlab.errors import UnknownName


def test_each_total_is_its_pairs_times_the_mean_as_printed():
    table = published.load("throughput")
    assert len(table) == 30
    assert (table["total_bps"] - table["client_bps"] * table["pairs"]).abs().max() < 1
    assert table.set_index(["driver", "pairs"]).loc[("macvlan", 90), "total_bps"] == 71_028_000_000


def test_the_stated_growth_of_p99_is_that_of_the_stated_p99s():
    fct = published.load("fct").set_index(["driver", "pairs"])["fct_s"]
    assert fct[("bridge", 50)] == pytest.approx(0.2026)
    changes = published.load("fct_changes")
    assert len(changes) == 3
    for row in changes.itertuples():
        found = 100 * (fct[(row.driver, row.to_pairs)] / fct[(row.driver, row.from_pairs)] - 1)
        assert found == pytest.approx(row.change_percent, abs=0.05)


def test_the_stated_clients_of_bridge_lie_within_the_stated_threefold():
    fairness = published.load("fairness")
    bridge = fairness[fairness["driver"] == "bridge"].iloc[0]
    assert (bridge["low_bps"], bridge["high_bps"]) == (0.6e9, 1.6e9)
    assert 2 < bridge["high_bps"] / bridge["low_bps"] < fairness["most_over_least"].max() == 3


def test_paper_m_states_that_overlay_carried_a_twentieth_between_two_virtual_machines():
    levels = published.load("placement_levels").set_index(["experiment", "driver"])["total_bps"]
    assert levels["placement", "overlay"] / levels["placement", "host"] - 1 == pytest.approx(-0.95, abs=0.01)


def test_the_stated_run_times_fit_each_other():
    times = published.load("run_times").set_index(["load", "driver", "against"])["change_percent"]
    by_way_of_bridge = (1 + times["heavy", "bridge", "host"] / 100) * (1 + times["heavy", "overlay", "bridge"] / 100)
    assert 100 * (by_way_of_bridge - 1) == pytest.approx(times["heavy", "overlay", "host"], abs=1)


def test_the_stated_changes_are_on_known_allocations_and_each_is_a_number_or_a_range():
    changes = published.load("placement_changes")
    assert set(changes["allocation"].dropna()) == {1, 2, 3}
    assert (changes["low_percent"].dropna() <= changes["high_percent"][changes["low_percent"].notna()]).all()


def test_an_unknown_table_lists_those_there_are():
    for name in ("troughput", "../claims", "throughput.csv", "*", ""):
        with pytest.raises(UnknownName, match=r"there are: core_ratio, fairness, fct, .*, throughput"):
            published.load(name)


def test_what_paper_s_states_of_requests_and_launches_is_in_base_units_and_fits_its_text():
    demands = published.load("service_demands").set_index("driver")
    assert demands.loc["process", "client_demand_s"] == pytest.approx(75.466e-6)
    both = demands["client_demand_s"] + demands["server_demand_s"]
    assert both.idxmin() == "process"
    assert set(both[both > both["bgp"]].index) == {"overlay", "weave", "flannel", "ipip"}  # the overlays cost more
    launches = published.load("launch_times").set_index(["hosts", "driver"])["launch_s"]
    over_none = (launches[2] / launches[1, "none"]).drop(["host", "nat"])
    assert over_none.min() == pytest.approx(4.4, abs=0.1)
    assert over_none.max() == pytest.approx(21.1, abs=0.1)  # the text has 4.5 to 23 times, perhaps of another start
