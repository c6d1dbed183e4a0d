"""Each estimator on cells whose effect is set, so that each verdict is forced; and how often verdicts are wrong."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from pairlab import store
from pairlab.analysis import claims, estimators, ledger, per_run
from pairlab.analysis.ledger import Claim, Published, Source
from pairlab.cli import main
from pairlab.collection import Runs
from pairlab.errors import NoRuns

from .synthetic import bulk, ending, run

REPETITIONS = 5


def throughput(factor, **cell):
    return bulk(np.full(cell.pop("clients", 5), 2.0 * factor), **cell)


def by_pairs(effect, noise, repetition):
    drift = np.exp(noise())
    yield throughput(drift, clients=2, repetition=repetition)
    yield throughput(drift * 0.4 * np.exp(effect + noise()), clients=5, repetition=repetition)


def by_trend(effect, noise, repetition):
    for count in (2, 4, 8):
        share = np.exp(effect * np.log(count / 2) / np.log(4) + noise())
        yield throughput(share / count, clients=count, repetition=repetition)


def by_driver(effect, noise, repetition):
    yield throughput(np.exp(noise()), driver="bridge", repetition=repetition)
    yield throughput(np.exp(effect + noise()), driver="ovs", repetition=repetition)


def by_busy(effect, noise, repetition):
    yield bulk([1, 1], busy=float(np.clip(0.8 + effect + noise(), 0, 1)), repetition=repetition)


def by_correlation(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    wanted = np.tanh(effect + noise())
    across = stats_normal(random, 30)
    beside = stats_normal(random, 30)
    beside = beside - across * (beside @ across) / (across @ across)
    beside *= np.linalg.norm(across) / np.linalg.norm(beside)
    retransmits = 100 + wanted * across + np.sqrt(1 - wanted**2) * beside
    yield bulk(10 + across, retransmits=retransmits, experiment="retransmissions", repetition=repetition)


def stats_normal(random, count):
    values = random.normal(size=count)
    return values - values.mean()


def by_percentile(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    for count, shift in ((10, 0), (20, effect)):
        yield ending(0.1 * np.exp(random.uniform(0, 0.1, count) + shift + noise()), repetition=repetition)


def by_experiment(effect, noise, repetition):
    yield ending(np.linspace(0.1, 0.2, 5) * np.exp(noise()), repetition=repetition)
    mice = np.append(np.linspace(0.1, 0.2, 4) * np.exp(effect + noise()), 5.0)
    yield ending(mice, roles=["mouse"] * 4 + ["elephant"], repetition=repetition)


def by_role(effect, noise, repetition):
    roles = ["mouse"] * 4 + ["elephant"]
    for driver, mouse, elephant in (("bridge", 1.1, 1.1 * np.exp(effect + noise())), ("ovs", 1.0, 1.0)):
        fcts = np.append(np.full(4, 0.1 * mouse), 2.0 * elephant)
        yield ending(fcts, roles=roles, driver=driver, repetition=repetition)


def by_core_ratio(effect, noise, repetition):
    for cores, steps in ((4, 0), (2, 1), (1, 2)):
        fcts = np.full(4, 0.1 * np.exp(steps / 2 * effect + noise()))
        yield ending(fcts, experiment="core-ratio", cores=cores, repetition=repetition)


def by_core_ratio_gap(effect, noise, repetition):
    for cores, gap in ((4, 0.1), (1, 0.1 + effect)):
        for driver, slower in (("bridge", gap + noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.4 / cores * np.exp(slower))
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


def by_core_ratio_gap_ms(effect, noise, repetition):
    for cores, gap in ((4, 20), (1, 20 + 100 * effect)):
        for driver, slower in (("bridge", gap + 100 * noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.2 / cores + 1e-3 * slower)
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


def by_pinning(effect, noise, repetition):
    for policy, shift in (("none", 0), ("same-core", effect)):
        yield throughput(np.exp(shift + noise()), experiment="pinning", pinning=policy, repetition=repetition)


def by_message_size(effect, noise, repetition):
    for doublings in (0, 3, 6):
        size, shift = 1024 << doublings, effect * doublings + noise()
        yield throughput(np.exp(shift), experiment="message-size", message_bytes=size, repetition=repetition)


#: estimator: parameters, where the effect is 0, the margin (both as shown), and what makes its cells
CASES = {
    "pairs_change": ({"driver": "bridge", "pairs": [2, 5]}, 0, 5, by_pairs),
    "pairs_trend": ({"driver": "bridge", "pairs": ["least", "most"]}, 0, 5, by_trend),
    "drivers_change": ({"drivers": ["ovs", "bridge"], "pairs": 5}, 0, 5, by_driver),
    "share": ({"driver": "bridge", "pairs": 2, "what": "busy"}, 0.8, 0.04, by_busy),
    "correlation": ({"driver": "bridge", "pairs": 30}, 0, 0.08, by_correlation),
    "percentile_change": ({"driver": "bridge", "pairs": [10, 20], "q": 0.9}, 0, 5, by_percentile),
    "experiments_change": (
        {"driver": "all", "pairs": "most", "of": ["elephant-mice", "mouse_max_s"], "over": ["fct", "fct_max_s"]},
        0,
        5,
        by_experiment,
    ),
    "roles_gap": (
        {"drivers": ["bridge", "ovs"], "pairs": 5, "roles": ["elephant_median_s", "mouse_median_s"]},
        0,
        5,
        by_role,
    ),
    "core_ratio_change": ({"driver": "bridge", "what": "fct_mean_s"}, 0, 5, by_core_ratio),
    "core_ratio_gap": ({"drivers": ["bridge", "ovs"], "what": "fct_mean_s"}, 0, 5, by_core_ratio_gap),
    "core_ratio_gap_ms": ({"drivers": ["bridge", "ovs"]}, 0, 5, by_core_ratio_gap_ms),
    "pinning_change": ({"driver": "bridge", "policy": "same-core"}, 0, 5, by_pinning),
    "message_size_trend": ({"driver": "bridge"}, 0, 5, by_message_size),
}


def cells_of(name, effect, spread, *, seed=0, repetitions=REPETITIONS):
    random = np.random.default_rng(seed)
    make = CASES[name][3]
    return [
        each for repetition in range(repetitions) for each in make(effect, lambda: random.normal(0, spread), repetition)
    ]


def claim_of(name, *, claimed="more", **changes):
    parameters, than, margin, _ = CASES[name]
    made = cells_of(name, 0, 0, repetitions=1)
    experiments = tuple(dict.fromkeys(each.spec.experiment for each in made))
    values = {
        "id": f"made-up-{name.replace('_', '-')}",
        "statement": "it is so",
        "sources": (Source(paper="C", where="figure 1"),),
        "experiments": experiments,
        "estimator": name,
        "parameters": parameters,
        "claimed": claimed,
        "than": float(than),
        "margin": float(margin),
        "published": None,
        "note": "",
    }
    return Claim(**(values | changes))


def verdict_on(name, cells, **claim):
    found = claims.evaluate(Runs(tuple(cells)), claims=[claim_of(name, **claim)])
    assert len(found) == 1
    return found.iloc[0]


def test_every_estimator_has_a_case():
    assert set(CASES) == set(estimators.ESTIMATORS)
    for name, (parameters, *_) in CASES.items():
        estimators.get(name).check(parameters)


@pytest.mark.parametrize("name", CASES)
def test_an_effect_on_the_claimed_side_holds_and_contradicts_the_reverse(name):
    cells = cells_of(name, 0.15, 0.005)
    assert verdict_on(name, cells)["verdict"] == "holds"
    assert verdict_on(name, cells, claimed="less")["verdict"] == "contradicted"
    assert verdict_on(name, cells, claimed="equal")["verdict"] == "contradicted"


@pytest.mark.parametrize("name", CASES)
def test_an_effect_that_lies_within_the_margin_contradicts_a_difference_and_is_equality(name):
    cells = cells_of(name, 0.0, 0.005)
    assert verdict_on(name, cells)["verdict"] == "contradicted"
    assert verdict_on(name, cells, claimed="less")["verdict"] == "contradicted"
    assert verdict_on(name, cells, claimed="equal")["verdict"] == "holds"


@pytest.mark.parametrize("name", CASES)
def test_a_wide_interval_decides_nothing_and_says_how_many_repetitions_would(name):
    row = next(
        row
        for seed in range(50)
        if (row := verdict_on(name, cells_of(name, 0.03, 0.15, seed=seed)))["low"] < row["value"]
        and row["verdict"] == "undecided"
    )
    assert row["low"] < 0.8 if name == "share" else row["low"] < 0 < row["high"]
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
    if name in ("share", "correlation"):  # of one cell: that of another number of pairs
        one_kind = [run([1, 1, 1], experiment=cells[0].spec.experiment)]
    row = verdict_on(name, one_kind)
    assert row["verdict"] == "not measured"
    assert row["missing"]


def test_what_is_missing_is_told_by_experiment_driver_and_pairs():
    cells = cells_of("drivers_change", 0.1, 0.01)
    assert verdict_on("drivers_change", [run([1])], experiments=("fct",))["missing"] == "no runs of fct"
    bridge = [each for each in cells if each.spec.driver == "bridge"]
    assert verdict_on("drivers_change", bridge)["missing"] == "flowgen: no runs of ovs"
    exact = {"drivers": ["ovs", "bridge"], "pairs": 50}
    assert verdict_on("drivers_change", cells, parameters=exact)["missing"] == (
        "flowgen: no 50 pairs (there are, for ovs and bridge: 5)"
    )


def test_another_number_of_pairs_stands_in_by_name_and_its_size_is_not_compared():
    cells = cells_of("drivers_change", 0.1, 0.001)
    published = Published(value=10.5, tolerance=1.0)
    parameters = {"drivers": ["ovs", "bridge"], "pairs": "50 or most"}
    row = verdict_on("drivers_change", cells, parameters=parameters, published=published)
    assert (row["verdict"], row["cells"], row["notes"], row["size"]) == (
        "holds",
        "5 pairs",
        "5 pairs stand in for 50",
        "",
    )


@pytest.mark.parametrize(("published", "size"), [(10.5, "agrees"), (30, "smaller"), (2, "larger"), (-30, "larger")])
def test_the_published_size_is_compared_with_the_interval(published, size):
    cells = cells_of("drivers_change", 0.1, 0.001)
    row = verdict_on("drivers_change", cells, published=Published(value=float(published), tolerance=0.5))
    assert row["size"] == size if published > 0 else row["size"] in ("smaller", "larger")


def test_a_smaller_drop_is_a_smaller_size():
    cells = cells_of("pinning_change", -0.05, 0.001)
    published = Published(value=-13.2)
    row = verdict_on("pinning_change", cells, claimed="less", margin=1.0, published=published)
    assert (row["verdict"], row["size"]) == ("holds", "smaller")


def test_one_repetition_has_no_interval_and_decides_nothing():
    row = verdict_on("drivers_change", cells_of("drivers_change", 0.5, 0, repetitions=1))
    assert (row["verdict"], row["repetitions"]) == ("undecided", 1)
    assert np.isnan(row["low"])
    assert row["missing"] == "a second repetition: one has no interval"


def test_a_percentile_with_too_few_flows_is_undecided_and_names_the_repetitions_it_needs():
    cells = cells_of("percentile_change", 0.3, 0.01, repetitions=4)
    row = verdict_on("percentile_change", cells, parameters={"driver": "bridge", "pairs": [10, 20], "q": 0.99})
    assert (row["verdict"], row["repetitions_needed"]) == ("undecided", 10)
    assert row["missing"].startswith("percentile 99 needs 100 flows, and bridge with 10 pairs has 40")


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
    found = claims.evaluate(Runs((*netns, *docker)), claims=[claim_of("drivers_change")])
    assert found.set_index("system")["verdict"].to_dict() == {
        "docker-flowgen": "contradicted",
        "netns-flowgen": "holds",
    }


def test_a_claim_that_one_workload_measured_is_not_told_missing_in_another():
    cells = cells_of("core_ratio_change", 0.2, 0.01)
    iperf = [run([1, 1, 1, 1], experiment="core-ratio", workload="iperf", cores=each) for each in (1, 2)]
    found = claims.evaluate(Runs((*cells, *iperf)), claims=[claim_of("core_ratio_change")])
    assert list(found["system"]) == ["netns-flowgen"]
    found = claims.evaluate(Runs(tuple(iperf)), claims=[claim_of("core_ratio_change")])
    assert found[["system", "missing"]].to_numpy().tolist() == [["netns", "iperf: no runs of flows with an end"]]


def test_holm_corrects_within_a_system():
    found = claims.evaluate(
        Runs(tuple(cells_of("drivers_change", 0.02, 0.02))),
        claims=[claim_of("drivers_change", id=name) for name in ("one", "two", "three")],
    )
    assert np.allclose(found["p_holm"], np.minimum(3 * found["p"], 1))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"percentile_change", "share"}))
def test_verdicts_on_cells_without_a_difference_are_rarely_wrong(name):
    """Every run has noise of its own, and those of a repetition share some: flows are no independent samples."""
    claim, estimator, tries, wrong = claim_of(name, margin=1e-6), estimators.get(name), 300, 0
    even = per_run.reduce(cells_of(name, 0.0, 0.0, repetitions=4))
    columns = [column for column in even if column.endswith(("_bps", "_s")) and column != "fcts_s"]
    random = np.random.default_rng(3)
    for _ in range(tries):
        drift = random.normal(0, 0.1, 4)[even["repetition"]]
        factors = np.exp(drift + random.normal(0, 0.05, len(even)))
        noisy = even[columns].mul(factors, axis=0).assign(correlation=np.tanh(np.log(factors)))
        frame = even.assign(**noisy)
        wrong += claims.judge(claim, estimator(frame, claim.parameters))["verdict"] == "holds"
    assert wrong / tries < 0.025 + 3 * np.sqrt(0.025 * 0.975 / tries)


def flows_of_one_distribution(random, repetitions, spread):
    rows = []
    for repetition in range(repetitions):
        for pairs in (10, 50):
            fcts = np.exp(random.normal(0, 0.3, pairs) + random.normal(0, spread))
            row = {"driver": "bridge", "pairs": pairs, "repetition": repetition, "fcts_s": fcts, "ends": True}
            rows.append(row | {"flows": pairs, "failed_flows": 0})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("spread", [0, 0.2])  # of repetitions as a whole: flows of one are no independent samples
def test_equal_percentiles_of_clustered_flows_are_rarely_called_different(spread, monkeypatch):
    monkeypatch.setattr(estimators, "_RESAMPLES", 100)
    random, tries = np.random.default_rng(1), 150
    parameters = {"driver": "bridge", "pairs": [10, 50], "q": 0.99}
    claim, verdicts = claim_of("percentile_change", margin=1e-6), []
    for _ in range(tries):
        effect = estimators.get("percentile_change")(flows_of_one_distribution(random, 10, spread), parameters)
        verdicts.append(claims.judge(claim, effect)["verdict"])
    assert verdicts.count("holds") / tries < 0.025 + 3 * np.sqrt(0.025 * 0.975 / tries)
    assert verdicts.count("contradicted") / tries < 0.025 + 3 * np.sqrt(0.025 * 0.975 / tries)


def test_equality_is_rarely_found_at_the_edge_of_its_margin():
    random, tries, wrong = np.random.default_rng(2), 400, 0
    claim = claim_of("drivers_change", claimed="equal", margin=10.0)
    for _ in range(tries):
        values = np.log(1.1) + random.normal(0, 0.02, 5)
        wrong += claims.judge(claim, estimators.Effect(values, estimators.PERCENT, "made up"))["verdict"] == "holds"
    assert wrong / tries < 0.025 + 3 * np.sqrt(0.025 * 0.975 / tries)


def test_runs_that_decide_nothing_are_an_error():
    with pytest.raises(NoRuns, match="none of the 1 runs decides a claim"):
        claims.evaluate(Runs((run([1], flows_per_pair=2),)))


@pytest.fixture(scope="module")
def verdicts(campaign):
    return claims.evaluate(load(campaign))


def load(root):
    from pairlab.collection import load_runs

    return load_runs(root)


def test_the_whole_ledger_is_judged_on_a_campaign(verdicts):
    netns = verdicts[verdicts["system"] == "netns-flowgen"].set_index("id")["verdict"]
    assert netns["total-rises-bridge"] == "holds"
    assert netns["client-falls-ovs"] == "holds"
    absent = verdicts[verdicts["system"] == "netns"].set_index("id")["missing"]
    assert (
        absent["total-stays-level-ovs"]
        == "flowgen: no two numbers of pairs for 10 and most (there are, for ovs: 1, 2, 5, 10)"
    )
    assert absent["pinning-apart-helps-ovs"] == "no runs of pinning"
    counts = claims.counts(verdicts)
    assert list(counts.columns) == list(claims.VERDICTS)
    assert counts.loc[["netns", "netns-flowgen"]].to_numpy().sum() == len(ledger.load())


def test_tables_and_values_cover_every_claim(verdicts, campaign):
    tables = claims.tables(verdicts)
    assert set(tables) == set(claims.PARTS)
    told = {claim for table in tables.values() for claim in table["", "Claim"]}
    assert told == set(verdicts["statement"])
    shown = [text for table in tables.values() for backend in ("docker", "netns") for text in table[backend, "verdict"]]
    assert sum(text == "holds" or text.startswith("holds,") for text in shown) == (verdicts["verdict"] == "holds").sum()
    found = claims.values(verdicts, load(campaign))
    assert found["total-rises-bridge/netns-flowgen/verdict"] == "holds"
    assert found["total-rises-bridge/netns-flowgen/cells"] == "1 → 5 pairs"
    assert found["fct-p99-grows-ovs/netns/missing"] == "no runs of fct"
    assert found["fct-p99-grows-ovs/netns/published"] == r"32.0 \%"
    assert found["netns/count/not-measured"] == str(claims.counts(verdicts).loc["netns", "not measured"])


def test_the_command_shows_every_verdict_and_json_is_for_programs(campaign):
    shown = CliRunner().invoke(main, ["claims", "--runs", str(campaign)])
    assert shown.exit_code == 0, shown.output
    assert "bridge: total throughput rises up to about 5 pairs" in shown.output
    assert "72 runs" in shown.output or "144 runs" in shown.output
    told = CliRunner().invoke(main, ["claims", "--runs", str(campaign), "--json"])
    assert told.exit_code == 0
    found = json.loads(told.output)
    assert found["format"] == 1
    first = found["verdicts"][0]
    assert set(first) == set(claims.COLUMNS)
    assert first["published"] is None
    assert sum(found["counts"]["netns"].values()) == sum(row["system"] == "netns" for row in found["verdicts"])


def test_the_command_says_what_stops_it(tmp_path):
    done = CliRunner().invoke(main, ["claims", "--runs", str(tmp_path)])
    assert done.exit_code == 1
    assert "no runs in" in done.output
    store.write(run([1], flows_per_pair=2), tmp_path)
    assert "none of the 1 runs decides a claim" in CliRunner().invoke(main, ["claims", "--runs", str(tmp_path)]).output
