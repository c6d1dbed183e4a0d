"""Conditions under which the papers state their findings: met, not met, and not known; through the verdict."""

from dataclasses import replace

import pandas as pd
import pytest

from pairlab.analysis.claims import listing, report, verdicts
from pairlab.analysis.claims.conditions import Requires, unmet
from pairlab.analysis.claims.ledger import Published
from pairlab.store.dataset import Runs
from tests.support.claimed import CASES, by_counts, cells_of, claim_of, recorded, throughput, verdict_on

pytestmark = pytest.mark.whole  # tables of runs for each: seconds in all


def leading(**network):
    """Cells in which ovs clearly leads bridge, on a host that recorded this."""
    return [recorded(each, **network) for each in cells_of("drivers_change", 0.15, 0.005)]


def verdict_under(requires, cells, name="drivers_change", **claim):
    return verdict_on(name, cells, requires=Requires(**requires), **claim)


MET = [
    ({"congestion_control": "cubic"}, {"tcp_congestion_control": "cubic"}),
    ({"datapath": "kernel"}, {"datapath": "system"}),
    ({"datapath": "user space"}, {"datapath": "netdev"}),
    ({"duration_s": "at least 2"}, {}),
    ({"duration_s": "at most 2"}, {}),
    ({"duration_s": "more than 1"}, {}),
    ({"pairs": [5]}, {}),
    ({"pairs": ["4 to 6"]}, {}),
    ({"cpus": 2}, {}),
]
UNMET = [
    ({"congestion_control": "cubic"}, {"tcp_congestion_control": "bbr"}, "TCP ran bbr, not cubic"),
    (
        {"datapath": "kernel"},
        {"datapath": "netdev"},
        "Open vSwitch forwarded with the user space datapath, not that of the kernel",
    ),
    ({"duration_s": "at least 60"}, {}, "the runs last 2 s, and must last at least 60 s"),
    ({"duration_s": "more than 2"}, {}, "the runs last 2 s, and must last more than 2 s"),
    ({"duration_s": "at most 1"}, {}, "the runs last 2 s, and must last at most 1 s"),
    ({"pairs": [5, "6 to 9"]}, {}, "nothing was measured with 6 to 9 pairs (there are: 5)"),
    ({"cpus": 4}, {}, "they had 2 CPUs, and need at least 4"),
]
UNKNOWN = [
    (
        {"congestion_control": "cubic"},
        {"tcp_congestion_control": None},
        "the congestion control of TCP was not recorded, and must be cubic",
    ),
    ({"datapath": "kernel"}, {"datapath": None}, "the datapath of Open vSwitch was not recorded, and must be kernel"),
]


@pytest.mark.parametrize(("requires", "network"), MET)
def test_where_a_condition_is_met_the_interval_decides(requires, network):
    row = verdict_under(requires, leading(**network))
    assert (row["verdict"], row["unmet"], row["missing"]) == ("holds", "", "")


@pytest.mark.parametrize(("requires", "network", "why"), [*UNMET, *UNKNOWN])
@pytest.mark.parametrize("claimed", ["more", "less", "equal"])
def test_what_was_measured_under_other_or_unknown_conditions_is_not_comparable_whatever_was_found(
    requires, network, why, claimed
):
    row = verdict_under(requires, leading(**network), claimed=claimed, published=Published(value=16.2))
    assert (row["verdict"], row["missing"]) == ("not comparable", why)
    assert row["value"] == pytest.approx(16.2, abs=1)  # what was found is told all the same
    assert (row["size"], row["p"] == row["p"]) == ("", False)


def test_one_run_whose_condition_is_not_known_is_enough():
    cells = leading(datapath="system")
    at = next(at for at, each in enumerate(cells) if each.spec.driver == "ovs")
    cells[at] = recorded(cells[at], datapath=None)
    assert verdict_under({"datapath": "kernel"}, cells)["verdict"] == "not comparable"


def test_the_datapath_is_asked_of_open_vswitch_only():
    cells = cells_of("pinning_change", 0.15, 0.005)  # of bridge, which has none
    assert verdict_under({"datapath": "kernel"}, cells, "pinning_change")["verdict"] == "holds"


def test_the_duration_is_asked_of_flows_without_an_end_only():
    cells = cells_of("core_ratio_change", 0.15, 0.005)
    assert verdict_under({"duration_s": "at least 60"}, cells, "core_ratio_change")["verdict"] == "holds"


def test_all_conditions_that_are_not_met_are_named():
    cells = leading(tcp_congestion_control="bbr", datapath="netdev")
    asked = {"congestion_control": "cubic", "datapath": "kernel", "duration_s": "at least 60"}
    row = verdict_under(asked, cells)
    assert row["unmet"] == "congestion control, datapath, duration"
    assert row["missing"].count("; ") == 2
    listed = listing.lines(row.to_frame().T)[-1]
    assert listed.endswith("{not comparable}{}{}{congestion control, datapath, duration}")
    assert report.display(row.to_frame().T)["Of"].iloc[0].startswith("not comparable here: TCP ran bbr, not cubic; ")


def test_a_course_of_fewer_points_than_it_takes_is_not_comparable():
    cells = cells_of("pairs_against", 0.0, 0.005)  # 2, 4 and 8 pairs
    for points, verdict in ((3, "holds"), (4, "not comparable")):
        row = verdict_under({"points": points}, cells, "pairs_against", claimed="equal")
        assert row["verdict"] == verdict
    assert row["missing"] == "it rests on 3 numbers of pairs, ratios or sizes, and needs 4"


@pytest.mark.parametrize(("lost", "verdict"), [(0.5, "holds"), (0.51, "not comparable")])
def test_of_udp_that_was_lost_for_the_most_part_nothing_is_said(lost, verdict):
    cells = [
        replace(
            each, flows=each.flows.assign(datagrams_sent=1e4, datagrams_lost=1e4 * lost * (each.spec.udp_share == 1))
        )
        for each in cells_of("udp_change", -0.5, 0.005)
    ]
    row = verdict_under({"udp_lost": "at most 0.5"}, cells, "udp_change", claimed="less")
    assert row["verdict"] == verdict
    assert row["missing"] == ("" if verdict == "holds" else "51 % of the datagrams were lost, and at most 50 % may be")


def test_of_udp_whose_losses_nobody_counted_nothing_is_said():
    row = verdict_under({"udp_lost": "at most 0.5"}, cells_of("udp_change", -0.5, 0.005), "udp_change", claimed="less")
    why = "how many of the datagrams were lost was not counted, and at most 50 % may be"
    assert (row["verdict"], row["unmet"], row["missing"]) == ("not comparable", "lost datagrams", why)


def test_what_failed_or_is_too_little_is_not_comparable_either():
    cells = [recorded(each, tcp_congestion_control="bbr") for each in cells_of("percentile_change", 0.3, 0.01)]
    effect = CASES["percentile_change"][0] | {"quantity": "fct_p99_s"}
    row = verdict_under({"congestion_control": "cubic"}, cells, "percentile_change", effect=effect)
    assert (row["verdict"], row["missing"]) == ("not comparable", "TCP ran bbr, not cubic")
    assert pd.isna(row["repetitions_needed"])


def test_what_was_not_measured_is_not_called_incomparable():
    cells = [each for each in leading(tcp_congestion_control="bbr") if each.spec.driver == "bridge"]
    assert verdict_under({"congestion_control": "cubic"}, cells)["verdict"] == "not measured"


def test_of_runs_under_several_congestion_controls_those_are_read_that_the_claim_requires():
    """By default bbr, in which bridge leads; asked for: cubic, in which ovs leads, and reno, in which nothing does."""
    cells = []
    for repetition in range(5):
        for control, lead in (("", 0.7), ("cubic", 1.3), ("reno", 1.0)):
            for driver, factor in (("bridge", 1.0), ("ovs", lead)):
                made = throughput(
                    factor * (1 + 0.001 * repetition * (driver == "ovs")),
                    driver=driver,
                    repetition=repetition,
                    congestion_control=control,
                )
                cells.append(recorded(made, tcp_congestion_control="bbr"))
    assert verdict_under({"congestion_control": "cubic"}, cells)["verdict"] == "holds"
    assert verdict_under({"congestion_control": "bbr"}, cells)["verdict"] == "contradicted"
    assert verdict_under({}, cells)["verdict"] == "contradicted"
    without = [each for each in cells if each.spec.congestion_control != "cubic"]
    row = verdict_under({"congestion_control": "cubic"}, without)
    assert (row["verdict"], row["missing"]) == ("not comparable", "TCP ran bbr, not cubic")


def test_not_comparable_is_counted_and_corrects_no_p_of_others():
    cells = leading(datapath="netdev")
    claims = [
        claim_of("drivers_change", id="apart", requires=Requires(datapath="kernel")),
        claim_of("drivers_change", id="together"),
    ]
    found = verdicts.evaluate(Runs(tuple(cells)), claims=claims)
    assert report.counts(found).loc["netns-flowgen"].to_dict() == {
        "holds": 1,
        "holds in direction": 0,
        "contradicted": 0,
        "undecided": 0,
        "not comparable": 1,
        "not measured": 0,
    }
    held = found.set_index("id").loc["together"]
    assert held["p_holm"] == held["p"]


def test_a_stand_in_beside_the_range_does_not_meet_it():
    """Between 2 and 4 pairs nothing was measured, so that a peak at 5 may lie elsewhere."""
    cells = [each for repetition in range(3) for each in by_counts(0.3, lambda: 0.0, repetition)]
    few = [each for each in cells if each.spec.pairs != 4]
    asked = {"pairs": [2, "3 to 5", 8]}
    assert verdict_under(asked, cells, "pairs_against")["verdict"] == "holds"
    row = verdict_under(asked, few, "pairs_against")
    assert row["missing"] == "nothing was measured with 3 to 5 pairs (there are: 2, 8)"


@pytest.mark.parametrize(
    ("backend", "quantity", "compares"),
    [("uml", "busy", False), ("uml", "client_share", False), ("uml", "total_bps", True), ("netns", "busy", True)],
)
def test_the_cpus_time_of_hosts_in_user_mode_is_compared_with_nothing(backend, quantity, compares):
    read = pd.DataFrame({"driver": ["bridge"], "known_as": "bridge", "backend": backend, "cores_used": 2})
    found = unmet(Requires(), read, ["bridge"], quantities=["total_bps", quantity])
    assert [each.name for each in found] == ([] if compares else ["hosts"])
