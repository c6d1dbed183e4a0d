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


def test_the_stated_growth_of_p99_is_that_of_the_stated_p99s():
    fct = published.load("fct").set_index(["driver", "pairs"])["fct_s"]
    assert fct[("bridge", 50)] == pytest.approx(0.2026)
    changes = published.load("fct_changes")
    assert len(changes) == 3
    for row in changes.itertuples():
        found = 100 * (fct[(row.driver, row.to_pairs)] / fct[(row.driver, row.from_pairs)] - 1)
        assert found == pytest.approx(row.change_percent, abs=0.05)


def test_the_upper_end_of_fct_grows_with_the_pairs():
    ranges = published.load("fct_ranges")
    plain = ranges[(ranges["paper"] == "E") & (ranges["experiment"] == "fct")].set_index("pairs")
    assert plain["high_s"].to_dict() == {10: 0.18, 50: 0.25, 100: 3, 150: 7}
    assert plain.loc[10, "low_s"] == 0.02
    assert plain.loc[[100, 150], "low_s"].isna().all()


def test_the_stated_clients_of_bridge_lie_within_the_stated_threefold():
    fairness = published.load("fairness")
    bridge = fairness[fairness["driver"] == "bridge"].iloc[0]
    assert (bridge["low_bps"], bridge["high_bps"]) == (0.6e9, 1.6e9)
    assert 2 < bridge["high_bps"] / bridge["low_bps"] < fairness["most_over_least"].max() == 3


def test_pinning_is_stated_for_one_driver_per_policy():
    changes = published.load("pinning").set_index(["driver", "policy"])["change_percent"]
    assert changes.to_dict() == {("ovs", "different-cores"): 21.2, ("bridge", "same-core"): -13.2}


def test_paper_m_states_that_overlay_carried_a_twentieth_between_two_virtual_machines():
    levels = published.load("placement_levels").set_index(["experiment", "driver"])["total_bps"]
    assert levels["placement", "overlay"] == 437e6
    assert levels["placement", "overlay"] / levels["placement", "host"] - 1 == pytest.approx(-0.95, abs=0.01)
    assert levels["congestion", "overlay"] == 377e6


def test_the_stated_run_times_fit_each_other():
    times = published.load("run_times").set_index(["load", "driver", "against"])["change_percent"]
    by_way_of_bridge = (1 + times["heavy", "bridge", "host"] / 100) * (1 + times["heavy", "overlay", "bridge"] / 100)
    assert 100 * (by_way_of_bridge - 1) == pytest.approx(times["heavy", "overlay", "host"], abs=1)


def test_the_stated_changes_are_on_known_allocations_and_each_is_a_number_or_a_range():
    changes = published.load("placement_changes")
    assert set(changes["allocation"].dropna()) == {1, 2, 3}
    assert (changes["low_percent"].dropna() <= changes["high_percent"][changes["low_percent"].notna()]).all()
    latency = changes[(changes["allocation"] == 3) & (changes["experiment"] == "congestion")]
    latency = latency[latency["what"] == "latency"].set_index("driver")["high_percent"]
    assert latency.to_dict() == {"host": 389, "bridge": 187, "macvlan": 397, "overlay": 90}


@pytest.mark.parametrize("name", sorted(path.stem for path in published.FOLDER.glob("*.csv")))
def test_every_row_names_its_paper_and_the_place_in_it(name):
    table = published.load(name)
    assert set(table["paper"]) <= set(published.PAPERS)
    assert table["source"].str.contains("table|figure|section").all()


def test_an_unknown_table_lists_those_there_are():
    with pytest.raises(UnknownName, match=r"there are: core_ratio, fairness, fct, .*, throughput"):
        published.load("troughput")


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
