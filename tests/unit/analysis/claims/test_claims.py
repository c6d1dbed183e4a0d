"""The verdict on each kind of effect in cells where it is set, and what is told beside it."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pairlab.analysis.claims import contrasts, judgement, ledger, run_table, settings, verdicts
from pairlab.analysis.claims.effect import LEVELS, Effect, Found, percentile_of
from pairlab.analysis.claims.ledger import Published, Source
from pairlab.errors import NoRuns
from pairlab.statistics.intervals import PERCENT, Student
from pairlab.store.dataset import Runs
from tests.conftest import mostly_whole
from tests.support.claimed import CASES, REPETITIONS, cells_of, claim_of, verdict_on
from tests.support.synthetic import bulk, run


def kind(effect):
    """What decides by which lines an effect is found: its setting, and of how many cells of what it is."""
    lists = [name for name, value in effect.over.items() if isinstance(value, list)]
    apart, level = isinstance(effect.of["driver"], list), not (effect.over or effect.along)
    of = bool(percentile_of(effect.quantity)), level and LEVELS[effect.quantity]
    return settings.of(effect), effect.along, *effect.each, *effect.against, *lists, apart, effect.difference, *of


def test_every_kind_of_effect_in_the_ledger_has_a_case():
    kinds = {kind(Effect(**effect)) for effect, *_ in CASES.values()}
    without = [claim.id for claim in ledger.load() if kind(claim.effect) not in kinds]
    assert not without


def every_third(first):
    """The kinds of effects, as parameters; in the gate each is judged on one of three effects."""
    return mostly_whole(CASES, but=list(CASES)[first::3])


def verdicts_on(name, effect):
    """The verdict on each claim that could be made of an effect of that size, which five repetitions know well."""
    claims = [claim_of(name, claimed=claimed, id=claimed) for claimed in ("more", "less", "equal")]
    found = verdicts.evaluate(Runs(tuple(cells_of(name, effect, 0.005))), claims=claims)
    return found.set_index("id")["verdict"].to_dict()


@pytest.mark.parametrize("name", every_third(0))
def test_an_effect_on_the_claimed_side_holds_and_contradicts_the_reverse(name):
    assert verdicts_on(name, 0.15) == {"more": "holds", "less": "contradicted", "equal": "contradicted"}


@pytest.mark.parametrize("name", every_third(1))
def test_an_effect_of_the_other_sign_turns_the_verdicts(name):
    assert verdicts_on(name, -0.15) == {"more": "contradicted", "less": "holds", "equal": "contradicted"}


@pytest.mark.parametrize("name", every_third(2))
def test_an_effect_that_lies_within_the_margin_contradicts_a_difference_and_is_equality(name):
    assert verdicts_on(name, 0.0) == {"more": "contradicted", "less": "contradicted", "equal": "holds"}


@pytest.mark.parametrize("name", every_third(1))
def test_a_wide_interval_decides_nothing_and_says_how_many_repetitions_would(name):
    row = next(
        row
        for seed in range(50)
        if (row := verdict_on(name, cells_of(name, 0.03, 0.15, seed=seed)))["low"] < row["value"]
        and row["verdict"] == "undecided"
        and not pd.isna(row["repetitions_needed"])
    )
    assert row["low"] < CASES[name][1] < row["high"]
    assert row["repetitions"] == REPETITIONS
    assert row["repetitions_needed"] > REPETITIONS


@pytest.mark.parametrize("name", CASES)
def test_without_its_cells_a_claim_is_not_measured_and_the_missing_is_named(name):
    cells = cells_of(name, 0.15, 0.005)
    other = run([1, 1], experiment="other")
    row = verdict_on(name, [other])
    assert (row["verdict"], row["system"]) == ("not measured", "netns")
    assert row["missing"].startswith("no runs of ")
    one_kind = [each for each in cells if each.spec.replace(repetition=0) == cells[0].spec]
    if name.startswith(
        ("share", "correlation", "allocation_cpu_parts", "sending_share")
    ):  # of one cell, so of other pairs
        one_kind = [run([1, 1, 1], experiment=cells[0].spec.experiment)]
    row = verdict_on(name, one_kind)
    assert row["verdict"] == "not measured"
    assert row["missing"]


def at_pairs(pairs, experiment="throughput"):
    return {"of": {"experiment": experiment, "driver": "ovs", "pairs": pairs}, "over": {"driver": "bridge"}}


def test_what_is_missing_is_told_by_experiment_driver_and_pairs():
    cells = cells_of("drivers_change", 0.1, 0.01)
    assert verdict_on("drivers_change", [run([1])], effect=at_pairs(5, "fct"))["missing"] == "no runs of fct"
    bridge = [each for each in cells if each.spec.driver == "bridge"]
    assert verdict_on("drivers_change", bridge)["missing"] == "flowgen: no runs of ovs"
    assert verdict_on("drivers_change", cells, effect=at_pairs(50))["missing"] == (
        "flowgen: no 50 pairs (there are, for ovs and bridge: 5)"
    )


def test_of_the_values_that_were_measured_those_are_read_that_are_named():
    name, read = "drivers_at_each_size", []
    for each in ("all", [64], "100 to 2000", [64, 128]):
        effect = CASES[name][0] | {"each": {"message_bytes": each}}
        row = verdict_on(name, cells_of(name, 0.15, 0.005), effect=effect)
        read.append(row["cells"] or row["missing"])
    assert read[1:3] == ["message 64, 5 pairs", "message 1024, 5 pairs"]
    assert read[0] in read[1:3]
    assert read[3] == "flowgen: no message bytes 64, 128 that ovs and bridge have in common"


def test_another_number_of_pairs_stands_in_by_name_and_its_size_is_not_compared():
    cells = cells_of("drivers_change", 0.1, 0.001)
    published = Published(value=10.5, tolerance=1.0)
    row = verdict_on("drivers_change", cells, effect=at_pairs("50 or most"), published=published)
    assert (row["verdict"], row["cells"], row["notes"], row["size"]) == (
        "holds in direction",
        "5 pairs",
        "5 pairs stand in for 50",
        "not compared",
    )


@pytest.mark.parametrize(("published", "size"), [(10.5, "agrees"), (30, "smaller"), (2, "larger"), (-30, "larger")])
def test_the_published_size_is_compared_with_the_interval(published, size):
    cells = cells_of("drivers_change", 0.1, 0.001)
    row = verdict_on("drivers_change", cells, published=Published(value=float(published), tolerance=0.5))
    assert row["size"] == size if published > 0 else row["size"] in ("smaller", "larger")
    assert row["verdict"] == ("holds" if size == "agrees" else "holds in direction")


def test_a_claim_without_a_published_size_holds_by_its_side_alone_and_so_does_equality():
    row = verdict_on("drivers_change", cells_of("drivers_change", 0.1, 0.001))
    assert (row["verdict"], row["size"]) == ("holds", "none published")
    published = Published(value=4.0, tolerance=0.5)
    row = verdict_on("drivers_change", cells_of("drivers_change", 0.0, 0.001), claimed="equal", published=published)
    assert (row["verdict"], row["size"]) == ("holds", "equality")


@pytest.mark.parametrize(
    ("effects", "size"),
    [((0.1, 0.1), "agrees"), ((0.1, 0.3), "larger"), ((0.06, 0.1), "smaller"), ((0.06, 0.3), "mixed")],
)
def test_the_size_of_a_claim_on_several_parts_agrees_where_it_does_on_each(effects, size):
    cells = [
        bulk(
            [2.0 * np.exp(shift * (driver == "ovs") + 0.001 * repetition % 3)] * count,
            driver=driver,
            repetition=repetition,
        )
        for count, shift in zip((2, 5), effects, strict=True)
        for driver in ("bridge", "ovs")
        for repetition in range(REPETITIONS)
    ]
    row = verdict_on("drivers_order", cells, published=Published(value=10.5, tolerance=0.5))
    assert (row["verdict"], row["size"]) == ("holds" if size == "agrees" else "holds in direction", size)


@pytest.mark.parametrize(("effect", "verdict"), [(-0.3, "contradicted"), (0.0, "contradicted"), (0.02, "undecided")])
def test_a_published_size_changes_no_verdict_of_a_claim_that_does_not_hold(effect, verdict):
    spread = 0.05 if verdict == "undecided" else 0.001
    cells = cells_of("drivers_change", effect, spread)
    for published in (None, Published(value=2.0, tolerance=0.5), Published(value=30.0)):
        assert verdict_on("drivers_change", cells, published=published)["verdict"] == verdict


@pytest.mark.whole
@pytest.mark.parametrize("claimed", ["more", "less", "equal"])
@pytest.mark.parametrize("name", ["drivers_change", "drivers_order"])  # of one part, and of two
def test_p_is_of_the_test_that_decides_whatever_it_decides(name, claimed):
    """At the confidence 1 - p, the verdict is at its edge: a little less decides so, a little more does not."""
    decided = set()
    for effect in (-0.3, -0.12, -0.05, 0.0, 0.05, 0.12, 0.3):
        cells = cells_of(name, effect, 0.03, seed=7)
        claim = claim_of(name, claimed=claimed)
        found = contrasts.find(claim.effect, run_table.reduce(cells))
        row = judgement.judge(claim, found)
        assert (row["p"] <= 0.05) == (row["verdict"] != "undecided")
        if row["verdict"] != "undecided" and 1e-6 < row["p"] < 0.05:
            for share, same in ((1.001, True), (0.999, False)):
                again = judgement.judge(claim, found, 1 - share * row["p"])["verdict"]
                assert (again == row["verdict"]) == same
            decided.add(row["verdict"])
    assert "contradicted" in decided


def test_p_of_a_difference_within_the_margin_is_of_both_edges():
    values = np.array([0.9, 1.1, 1.0, 0.95, 1.05]) / 100
    for claimed, verdict in (("more", "contradicted"), ("less", "contradicted"), ("equal", "holds")):
        row = judgement.judge(
            claim_of("drivers_change", claimed=claimed), Found(Student.of(values, PERCENT), "made up")
        )
        assert row["verdict"] == verdict
        if claimed != "less":  # which is contradicted by the side, too
            nearer = stats.ttest_1samp(values, np.log1p(0.05), alternative="less").pvalue
            assert row["p"] == pytest.approx(2 * nearer)


def test_a_smaller_drop_is_a_smaller_size():
    cells = cells_of("pinning_change", -0.05, 0.001)
    published = Published(value=-13.2)
    row = verdict_on("pinning_change", cells, claimed="less", margin=1.0, published=published)
    assert (row["verdict"], row["size"]) == ("holds in direction", "smaller")


def test_one_repetition_has_no_interval_and_decides_nothing():
    row = verdict_on("drivers_change", cells_of("drivers_change", 0.5, 0, repetitions=1))
    assert (row["verdict"], row["repetitions"]) == ("undecided", 1)
    assert np.isnan(row["low"])
    assert row["missing"] == "more repetitions: an interval needs 3"


def test_a_percentile_with_too_few_flows_is_undecided_and_names_the_repetitions_it_needs():
    cells = cells_of("percentile_change", 0.3, 0.01, repetitions=4)
    row = verdict_on("percentile_change", cells, effect=CASES["percentile_change"][0] | {"quantity": "fct_p99_s"})
    assert (row["verdict"], row["repetitions_needed"]) == ("undecided", 10)
    assert row["missing"].startswith("percentile 99 needs 100 flows, and bridge with 10 pairs has 40")


def test_a_percentile_needs_its_flows_in_the_blocks_that_its_cells_have_in_common():
    cells = cells_of("percentile_change", 0.3, 0.01, repetitions=10)
    cells = [each for each in cells if (each.spec.repetition, each.spec.pairs) != (3, 20)]
    row = verdict_on("percentile_change", cells, effect=CASES["percentile_change"][0] | {"quantity": "fct_p99_s"})
    assert row["verdict"] == "undecided"
    few = "percentile 99 needs 100 flows, and the 9 blocks that its cells have in common have 90"
    assert row["missing"].startswith(few)


def test_a_repetition_that_carried_nothing_and_failed_flows_are_told():
    cells = cells_of("drivers_change", 0.1, 0.01)
    cells = [each for each in cells if (each.spec.repetition, each.spec.driver) != (3, "ovs")]
    cells.append(run([1] * 5, failed=5, driver="ovs", repetition=3))
    row = verdict_on("drivers_change", cells)
    assert row["repetitions"] == REPETITIONS - 1
    assert row["notes"] == "left out: repetition 3 carried nothing; 5 of 50 flows failed"


def test_systems_are_never_pooled():
    netns = cells_of("drivers_change", 0.2, 0.01)
    docker = [run([2.0 * 1.3] * 5, backend="docker", driver="bridge", repetition=each) for each in range(4)]
    docker += [run([2.0] * 5, backend="docker", driver="ovs", repetition=each) for each in range(4)]
    found = verdicts.evaluate(Runs((*netns, *docker)), claims=[claim_of("drivers_change")])
    assert found.set_index("system")["verdict"].to_dict() == {
        "docker-flowgen": "contradicted",
        "netns-flowgen": "holds",
    }


@pytest.mark.parametrize("name", ["drivers_change", "percentile_change", "drivers_spread"])
def test_cells_that_share_no_blocks_are_unpaired_and_the_verdict_says_so(name):
    cells = cells_of(name, 0.15, 0.005)
    in_turn = [replace(each, facts=each.facts | {"block": ""}) for each in cells]
    in_turn = [replace(each, measured_at=each.measured_at + timedelta(seconds=at)) for at, each in enumerate(in_turn)]
    assert "unpaired" not in verdict_on(name, cells)["notes"]
    assert "unpaired" in verdict_on(name, in_turn)["notes"].split("; ")


def test_a_claim_that_one_workload_measured_is_not_told_missing_in_another():
    cells = cells_of("core_ratio_change", 0.2, 0.01)
    iperf = [run([1, 1, 1, 1], experiment="core-ratio", workload="iperf", cores=each) for each in (1, 2)]
    found = verdicts.evaluate(Runs((*cells, *iperf)), claims=[claim_of("core_ratio_change")])
    assert list(found["system"]) == ["netns-flowgen"]
    found = verdicts.evaluate(Runs(tuple(iperf)), claims=[claim_of("core_ratio_change")])
    assert found[["system", "missing"]].to_numpy().tolist() == [["netns", "iperf: no runs of flows with an end"]]


def test_holm_corrects_over_the_findings_of_a_paper_in_all_systems():
    netns = cells_of("drivers_change", 0.02, 0.01)
    docker = [replace(each, spec=each.spec.replace(backend="docker")) for each in netns]
    stated = {"one": ("C",), "two": ("C", "E"), "three": ("E",), "four": ("E",), "tautology": ("E",)}
    claims = [
        claim_of(
            "drivers_change",
            id=name,
            sources=tuple(Source(paper=paper, where="figure 1") for paper in papers),
            by_construction="it is set so" if name == "tautology" else "",
        )
        for name, papers in stated.items()
    ]
    found = verdicts.evaluate(Runs((*netns, *docker)), claims=claims).set_index(["id", "backend"])
    p = found["p"].iloc[0]
    assert found["p"].to_list() == [p] * 10
    of_c, of_e = min(4 * p, 1), min(6 * p, 1)  # of two claims and of three, in two systems; of both, the larger
    corrected = found["p_holm"].xs("netns", level="backend")
    assert corrected.drop("tautology").to_dict() == pytest.approx(
        {"one": of_c, "two": of_e, "three": of_e, "four": of_e}
    )
    assert np.isnan(corrected["tautology"])


def test_runs_that_decide_nothing_are_an_error():
    with pytest.raises(NoRuns, match="none of the 1 runs decides a claim"):
        verdicts.evaluate(Runs((run([1], cpu_quota=0.5),)))
