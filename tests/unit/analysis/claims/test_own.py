"""Claims of a study: on any parameter and quantity, of own experiments and of pairlab's, beside the papers' claims."""

import pytest
import yaml

from pairlab import paths
from pairlab.analysis.claims import ledger, verdicts
from pairlab.errors import BadInput
from pairlab.store.dataset import Runs
from tests.support.synthetic import run, transacting

OWN = {
    "id": "hub-costs",
    "statement": "a hub carries less",
    "sources": [{"paper": "own", "where": "my notes"}],
    "effect": {"of": {"experiment": "flooding", "driver": "hub", "pairs": 2}, "over": {"driver": "bridge"}},
    "claimed": "less",
    "margin": 5,
    "false_if": "It carries no less.",
}


def claim(tmp_path, **changed):
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump([OWN | changed]))
    return ledger.load(file)


def effect(of, over, **more):
    return {"of": {"experiment": "flooding", "pairs": 2} | of, "over": over} | more


def flooding(rates, **spec):
    """Repetitions of two pairs that carry so much, by driver."""
    return [
        run(
            [rate / 2 + 0.01 * repetition] * 2,
            driver=driver,
            repetition=repetition,
            **{"experiment": "flooding"} | spec,
        )
        for driver, rate in rates.items()
        for repetition in range(4)
    ]


def judged(claims, runs):
    (row,) = verdicts.evaluate(Runs(tuple(runs)), claims=claims, calibrations={}).to_dict("records")
    return row


@pytest.mark.parametrize(("hub", "verdict"), [(5.0, "holds"), (20.0, "contradicted"), (10.0, "contradicted")])
def test_a_claim_on_an_own_experiment_is_judged(tmp_path, hub, verdict):
    row = judged(claim(tmp_path), flooding({"bridge": 10.0, "hub": hub}))
    assert (row["verdict"], row["papers"], row["sources"]) == (verdict, "own", "own, my notes")


def test_its_cells_are_told_by_any_parameter_and_what_it_does_not_name_must_not_vary(tmp_path):
    runs = [
        *flooding({"bridge": 10.0, "hub": 5.0}, mtu_bytes=1500, congestion_control="bbr"),
        *flooding({"bridge": 10.0, "hub": 15.0}, mtu_bytes=9000, congestion_control="bbr"),
    ]
    for mtu_bytes, verdict in ((1500, "holds"), (9000, "contradicted")):
        named = effect({"driver": "hub", "mtu_bytes": mtu_bytes, "congestion_control": "bbr"}, {"driver": "bridge"})
        assert judged(claim(tmp_path, effect=named), runs)["verdict"] == verdict
    row = judged(claim(tmp_path), runs)
    assert (row["verdict"], row["missing"]) == (
        "not measured",
        "flowgen: cells are not distinct: runs differ in mtu_bytes",
    )
    sizes = effect({"driver": "hub", "mtu_bytes": 9000}, {"mtu_bytes": 1500})
    assert judged(claim(tmp_path, effect=sizes, claimed="more"), runs)["verdict"] == "holds"


def test_congestion_controls_are_cells_where_it_names_them(tmp_path):
    runs = [*flooding({"hub": 10.0}, congestion_control="cubic"), *flooding({"hub": 5.0}, congestion_control="bbr")]
    named = effect({"driver": "hub", "congestion_control": "bbr"}, {"congestion_control": "cubic"})
    assert judged(claim(tmp_path, effect=named), runs)["verdict"] == "holds"


@pytest.mark.parametrize("share", ["p50", "p99"])
def test_a_percentile_of_latencies_is_a_quantity(tmp_path, share):
    runs = [
        transacting(
            {each_s * (1 + repetition / 1000): 1000}, experiment="flooding", driver=driver, repetition=repetition
        )
        for driver, each_s in (("bridge", 1e-4), ("hub", 2e-4))
        for repetition in range(4)
    ]
    named = {**effect({"driver": "hub", "pairs": 1}, {"driver": "bridge"}), "quantity": f"latency_{share}_s"}
    row = judged(claim(tmp_path, effect=named, claimed="more"), runs)
    assert (row["verdict"], round(row["value"])) == ("holds", 100)


def test_on_an_experiment_of_pairlab_it_takes_runs_that_no_paper_has_and_the_papers_claims_do_not(tmp_path):
    asked = {"experiment": "throughput", "congestion_control": "cubic"}
    runs = [
        *flooding({"bridge": 10.0, "macvlan": 20.0}, **asked),
        *flooding({"bridge": 10.0, "macvlan": 5.0}, mtu_bytes=9000, **asked),
    ]
    of = {"experiment": "throughput", "driver": "macvlan", "pairs": 2}
    own = claim(tmp_path, effect={"of": of | {"mtu_bytes": 9000}, "over": {"driver": "bridge"}})
    plain = claim(tmp_path, id="plain", effect={"of": of, "over": {"driver": "bridge"}}, claimed="more")
    found = verdicts.evaluate(Runs(tuple(runs)), claims=[*own, *plain], calibrations={})
    assert dict(zip(found["id"], found["verdict"], strict=True)) == {"hub-costs": "holds", "plain": "holds"}


def test_claims_of_the_study_are_loaded_with_the_others_and_a_wrong_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STUDY", tmp_path)
    claim(tmp_path)
    assert {each.id for each in ledger.load()} > {"hub-costs", "total-rises-bridge"}
    assert [each.id for each in ledger.named("hub-costs")] == ["hub-costs"]
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump([OWN | {"effect": effect({"drivr": "hub"}, {"pairs": 1})}]))
    with pytest.raises(BadInput, match=rf"{tmp_path}/claims.yaml, claim hub-costs: effect: .*no factor drivr"):
        ledger.load()
