import numpy as np
import pytest
import yaml

from pairlab.analysis import published, repetitions
from pairlab.analysis.claims import ledger, report
from pairlab.errors import BadInput

GOOD = {
    "id": "ovs-leads",
    "statement": "OVS carries more",
    "sources": [{"paper": "C", "where": "figure 2"}],
    "effect": {
        "of": {"experiment": "throughput", "driver": "ovs", "pairs": "50 or most"},
        "over": {"driver": "bridge"},
    },
    "claimed": "more",
    "margin": 2,
    "false_if": "it carries no more",
}


def of(**changes):
    """Another effect."""
    return {"effect": GOOD["effect"] | changes}


def load(tmp_path, *entries):
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump(list(entries)))
    return ledger.load(file)


def test_sizes_in_the_ledger_are_those_of_the_published_tables():
    sizes = {claim.id: claim.published.value for claim in ledger.load() if claim.published}
    for row in published.load("fct_changes").itertuples():
        assert sizes[f"fct-p99-grows-{row.driver}"] == row.change_percent
    totals = published.load("throughput").set_index(["driver", "pairs"])["total_bps"]
    for first, second in (("ovs", "macvlan"), ("macvlan", "bridge"), ("ovs", "bridge")):
        over = 100 * (totals[(first, 50)] / totals[(second, 50)] - 1)
        assert sizes[f"{first}-over-{second}"] == pytest.approx(over, abs=0.05)
    line = np.polyfit(*(np.log(values) for values in zip(*totals["macvlan"].items(), strict=True)), 1)
    assert sizes["macvlan-gains"] == pytest.approx(100 * np.expm1(line[0] * np.log(10)), abs=0.1)
    pinned = published.load("pinning").set_index("driver")["change_percent"]
    assert sizes["pinning-apart-helps-ovs"] == pinned["ovs"]
    assert sizes["pinning-together-hurts-bridge"] == pinned["bridge"]
    for row in published.load("run_times").itertuples():
        assert sizes[f"traffic-{row.load}-{row.driver}-over-{row.against}"] == row.change_percent
    changes = published.load("placement_changes")
    queued = changes[
        (changes["allocation"] == 3) & (changes["what"] == "latency") & (changes["against"] == "placement")
    ]
    for row in queued.itertuples():
        assert sizes[f"congestion-latency-behind-switch-{row.driver}"] == row.high_percent
    levels = published.load("placement_levels").set_index(["experiment", "driver"])["total_bps"]
    of_host = 100 * (levels["placement", "overlay"] / levels["placement", "host"] - 1)
    assert sizes["overlay-slow-between-hosts"] == pytest.approx(of_host, abs=0.05)
    after = 100 * (levels["congestion", "overlay"] / levels["placement", "overlay"] - 1)
    assert sizes["congestion-overlay-between-hosts"] == pytest.approx(after, abs=0.05)


def test_an_entry_with_drivers_is_a_claim_for_each(tmp_path):
    entry = GOOD | {
        "statement": "{driver}: it rises",
        "effect": {"of": {"experiment": "throughput", "pairs": 5}, "over": {"pairs": 1}},
        "drivers": ["bridge", "ovs"],
        "published": {"ovs": {"value": 3.0}},
    }
    bridge, ovs = load(tmp_path, entry)
    assert (bridge.id, bridge.statement, bridge.published) == ("ovs-leads-bridge", "bridge: it rises", None)
    assert ovs.effect.of == {"experiment": "throughput", "pairs": 5, "driver": "ovs"}
    assert (ovs.effect.over, ovs.published.value) == ({"pairs": 1}, 3.0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"false_if": None}, "claim ovs-leads: false_if: Field required"),
        ({"margn": 2}, "claim ovs-leads: margn: Extra inputs are not permitted"),
        ({"margin": -1}, "margin: Input should be greater than or equal to 0"),
        ({"margin": "2"}, "margin: Input should be a valid number"),
        ({"claimed": "bigger"}, "claimed: Input should be 'more', 'less' or 'equal'"),
        ({"claimed": "equal", "margin": 0}, "equal needs a margin above 0"),
        ({"sources": []}, "sources: Tuple should have at least 1 item"),
        ({"sources": [{"paper": "X", "where": "figure 2"}]}, "sources.0.paper: .*Input should be 'C' or 'E'"),
        ({"sources": [{"paper": "C", "where": "somewhere"}]}, "sources.0: .*where: name the figure, table, section"),
        (of(quantity="total"), "effect: .*no quantity 'total'; there are: total_bps, .*such as fct_p99_s"),
        (of(of={"driver": "ovs", "pairs": 5}), "`of` needs the experiment whose runs are read"),
        (of(of={"experiment": "throughput", "driver": "ovs"}), "pairs: say how many: a number, least, most"),
        (of(of=GOOD["effect"]["of"] | {"pair": 1}), "no factor pair; there are: .*driver, .*pairs"),
        (of(of=GOOD["effect"]["of"] | {"pairs": "about 50"}), "pairs: 'about 50' is no number"),
        (of(of=GOOD["effect"]["of"] | {"pairs": {"at": 5}}), "a factor has a value or a list of them"),
        (of(over={}), "total_bps itself decides nothing: say with `over` what it is set against"),
        (of(each={"pairs": "some"}), "each pairs: all, a range such as '10 to 100' or a list, not 'some'"),
        (
            of(each={"hosts": "all"}),
            "each is of pairs, message_bytes, request_bytes or pinning; or containers_per_core",
        ),
        (of(over={"pairs": "previous"}), "pairs: previous is the one before of `each`"),
        (of(of=GOOD["effect"]["of"] | {"pairs": [1, 5]}), "a list in `of` is of drivers"),
        (of(over={"driver": ["a", "b"], "pairs": [1, 5]}), "`over` has one list at most"),
        (of(difference=True), "a difference is in ms, and total_bps is no time"),
        (of(along="hosts"), "along pairs or message_bytes, not hosts"),
        (of(of={"experiment": "throughput", "pairs": 5}), "an effect is `of` a driver, or the entry lists drivers"),
        ({"statement": "{driver} rises"}, "an entry with drivers, and no other, has {driver}"),
        ({"published": {"ovs": {"value": 1.0}}}, "published for ovs, which drivers does not list"),
        ({"false_if": ""}, "false_if: String should have at least 1 character"),
        ({"requires": {"datapath": "system"}}, "requires.datapath: Input should be 'kernel' or 'user space'"),
        ({"requires": {"duration_s": 60}}, "requires.duration_s: Input should be a valid string"),
        ({"requires": {"duration_s": "60 at least"}}, "requires.duration_s: String should match"),
        ({"requires": {"pairs": ["about 5"]}}, "requires.pairs.0"),
        ({"requires": {"kernel": "6.1"}}, "requires.kernel: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_entry_is_refused_and_named(tmp_path, change, told):
    with pytest.raises(BadInput, match=told):
        load(tmp_path, {name: value for name, value in (GOOD | change).items() if value is not None})


def test_every_claim_requires_what_the_papers_had_and_says_in_a_sentence_what_would_make_it_false():
    for claim in ledger.load():
        without_tcp = claim.effect.aside.get("udp_share") == 1.0 or claim.experiments == ("launch-time",)
        without_tcp = without_tcp or claim.effect.quantity in repetitions.COMPUTED
        assert (claim.requires.congestion_control == "cubic") != without_tcp, claim.id
        assert claim.requires.datapath == "kernel" or "ovs" not in claim.effect.drivers, claim.id
        assert claim.false_if.endswith("."), claim.id
        assert "{" not in claim.false_if, claim.id


def test_what_an_experiment_leaves_no_other_outcome_of_is_named_with_the_reason(tmp_path):
    (claim,) = load(tmp_path, GOOD | {"by_construction": "it is set so"})
    assert claim.by_construction == "it is set so"
    assert report.described(claim)["By construction"] == "it is set so"
    (claim,) = load(tmp_path, GOOD)
    assert claim.by_construction == ""


def test_two_claims_of_one_name_are_refused(tmp_path):
    with pytest.raises(BadInput, match="two claims 'ovs-leads'"):
        load(tmp_path, GOOD, GOOD)


@pytest.mark.parametrize(("text", "told"), [("id: x", "must be a list of claims, not a dict"), ("- [", "is not YAML")])
def test_what_is_no_list_of_claims_is_refused(tmp_path, text, told):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(BadInput, match=told):
        ledger.load(tmp_path / "a.yaml")
