"""What runs recorded of their conditions, and differs between two sides, is told; what surely matters refuses them."""

from dataclasses import replace

import pytest

from pairlab.analysis import selection
from pairlab.analysis.claims import conditions, run_table
from pairlab.analysis.claims.conditions import Requires
from pairlab.analysis.comparison.compute import compare
from pairlab.analysis.question import Answer
from pairlab.analysis.questions.modes import CONTAINERIZATION
from pairlab.errors import AnalysisError
from pairlab.model.conditions import packed
from pairlab.store import with_label
from pairlab.store.dataset import Runs
from tests.support.claimed import computing
from tests.support.synthetic import run

USUAL = {
    "network": {"tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304", "gso": 1, "tcp_ecn": "2"},
    "host": {"memory_bytes": 2**34, "cpu_governor": None, "default_qdisc": "pfifo_fast"},
    "versions": {"pairlab": "1.0"},
    "pinning": {"harness_cpus": "0-1"},
}


def side(driver, changed=(), foreign=0.0, **spec):
    """Five runs under the usual conditions but these: (part, name, value)."""
    made = [run([10.0 + at / 10], driver=driver, repetition=at, **spec) for at in range(5)]
    facts = {part: {**made[0].facts.get(part, {}), **values} for part, values in USUAL.items()}
    for part, name, value in changed:
        facts[part][name] = value
    return [replace(each, facts=facts, checks={"foreign_cpu": foreign, "hidden_cpu": 0.0}) for each in made]


def test_alike_in_all_that_was_recorded_nothing_is_said():
    (found,) = compare([*side("bridge"), *side("macvlan")])
    assert found.notes == ()


def test_what_one_side_did_not_record_is_not_held_against_it():
    of_old = {"network": {"tcp_congestion_control": "cubic"}}
    older = [replace(each, facts={"host": each.facts["host"], **of_old}) for each in side("macvlan")]
    (found,) = compare([*side("bridge"), *older])
    assert found.notes == ()


@pytest.mark.parametrize("name", ["tcp_rmem", "tcp_wmem"])
def test_sides_whose_tcp_may_hold_less_are_not_compared_unless_that_is_asked_for(name):
    runs = [*side("bridge"), *side("macvlan", [("network", name, "4096 4096 4096")])]
    with pytest.raises(
        AnalysisError, match=rf"the sides differ in {name} \(.* against 4096 4096 4096\).*--despite {name}"
    ):
        compare(runs)
    (found,) = compare(runs, despite=[name])
    assert any(note.startswith(f"they differ in {name} (") for note in found.notes)


def test_offloads_are_a_networks_own_and_of_one_network_they_matter():
    without = [("network", "gso", 0)]
    (found,) = compare([*side("bridge"), *side("macvlan", without)])
    assert found.notes == ()
    with pytest.raises(AnalysisError, match=r"the sides differ in gso \(1 against 0\)"):
        compare([*side("bridge"), *side("bridge", without, message_bytes=1000)], by="message_bytes")


@pytest.mark.parametrize(
    ("part", "name", "value", "told"),
    [
        ("host", "memory_bytes", 2**33, "they differ in memory bytes (17179869184 against 8589934592), too"),
        ("network", "tcp_ecn", "1", "they differ in tcp_ecn (2 against 1), too"),
        ("versions", "pairlab", "1.1", "they differ in the version of pairlab (1.0 against 1.1), too"),
        ("pinning", "harness_cpus", "1", "they differ in the CPUs that pairlab may use (0-1 against 1), too"),
    ],
)
def test_what_else_differs_is_told(part, name, value, told):
    (found,) = compare([*side("bridge"), *side("macvlan", [(part, name, value)])])
    assert found.notes == (told,)


@pytest.mark.parametrize(("foreign", "is_told"), [(0.02, False), (0.7, True)])
def test_load_of_others_beside_one_side_is_told(foreign, is_told):
    (found,) = compare([*side("bridge"), *side("macvlan", foreign=foreign)])
    assert any("others used 0% of the CPU time beside one side, and 70%" in note for note in found.notes) is is_told


def computed(driver, version, **spec):
    """Five runs of stress-ng-cpu by that version."""
    made = [computing(1 + at / 100, driver=driver, repetition=at, **spec) for at in range(5)]
    versions = {"stress-ng-cpu": f"stress-ng, version {version} (gcc 12.2, x86_64 Linux 6.1.0-18)"}
    return [replace(each, facts={**each.facts, "versions": versions}) for each in made]


def test_times_of_operations_that_each_version_defines_anew_are_not_compared():
    of_two = [*computed("process", "0.15.06"), *computed("bridge", "0.17.06")]
    refused = r"by 0\.15\.06 and 0\.17\.06 of the tool: an operation is other work in each version\. Measure both"
    for by, runs in (("driver", of_two), ("tool", [*computed("bridge", "0.15.06"), *computed("bridge", "0.17.06")])):
        with pytest.raises(AnalysisError, match=refused):
            compare(runs, by=by)
    (why,) = conditions.unmet(Requires(), run_table.reduce(of_two), ["process", "bridge"])
    assert why.why == "the runs are by versions 0.15.06 and 0.17.06 of their tool, of which each does other work"
    of_one = [*computed("process", "0.17.06"), *computed("bridge", "0.17.06")]
    assert {each.measure for each in compare(of_one)} == {"calculation_s"}
    assert not conditions.unmet(Requires(), run_table.reduce(of_one), ["process", "bridge"])


def test_the_analysis_keeps_apart_what_two_versions_computed():
    runs = [*computed("process", "0.15.06"), *computed("bridge", "0.17.06")]
    answer = Answer(CONTAINERIZATION, Runs(tuple(runs)), "", None, 0.95)
    assert sorted(answer["value"]["work_version"]) == ["0.15.06", "0.17.06"]
    assert answer["change"]["value"].isna().all()


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("urgency", (["realtime"], ["none"]), "how urgent the release was (['realtime'] against ['none'])"),
        ("held", (["exec"], ["gate"]), "where clients were held before it (['exec'] against ['gate'])"),
    ],
)
def test_how_clients_were_released_is_told_where_it_differs(name, values, told):
    sides = (
        [replace(each, facts={**each.facts, name: value}) for each in side(driver)]
        for driver, value in zip(("bridge", "macvlan"), values, strict=True)
    )
    (found,) = compare([each for runs in sides for each in runs])
    assert found.notes == (f"they differ in {told}, too",)


def test_links_that_queue_otherwise_are_named_unless_that_is_what_is_compared():
    first, other = side("bridge", [("network", "qdiscs", "noqueue")]), [("network", "qdiscs", "fq_codel")]
    (found,) = compare([*first, *side("bridge", other, congestion_control="bbr")], by="congestion_control")
    assert found.notes == ("they differ in the queueing disciplines of links (noqueue against fq_codel), too",)
    assert compare([*first, *side("macvlan", other)])[0].notes == ()
    assert compare([*first, *side("bridge", other, link_rate_bps=1e9)], by="link_rate_bps")[0].notes == ()


# --- the machine's settings

SETTINGS = {
    "wakeup_latency_us": "2000000000",
    "governor": "performance",
    "net.core.rmem_max": "1",
    "vm.swappiness": "60",
}


def under(settings, *runs):
    return [replace(each, facts={**each.facts, "conditions": packed(settings)}) for each in runs]


@pytest.mark.parametrize(("name", "value"), [("wakeup_latency_us", "0"), ("governor", "powersave")])
def test_sides_of_a_machine_whose_cpus_were_set_otherwise_are_not_compared_unless_that_is_asked_for(name, value):
    first = under(SETTINGS, *side("bridge"))
    runs = [*first, *under(SETTINGS | {name: value}, *side("macvlan"))]
    with pytest.raises(AnalysisError, match=rf"in {name} \({SETTINGS[name]} against {value}\).*--despite {name}"):
        compare(runs)
    assert compare(runs, despite=[name])[0].n == (5, 5)
    with pytest.raises(AnalysisError, match=rf"differ in {name} "):
        selection.check_alike(runs)
    assert compare([*first, *under(SETTINGS, *side("macvlan"))])[0].notes == ()


def test_cpus_that_are_kept_awake_are_what_is_compared_where_they_are():
    runs = [
        *under(SETTINGS, *side("bridge")),
        *under(SETTINGS | {"wakeup_latency_us": "0"}, *side("bridge", cpus_awake=True)),
    ]
    assert compare(runs, by="cpus_awake")[0].n == (5, 5)
    selection.check_alike(runs, also=["cpus_awake"])


def test_other_settings_are_named_and_of_many_it_is_said_how_many():
    first = [*side("bridge")]
    (found,) = compare([*under(SETTINGS, *first), *under(SETTINGS | {"vm.swappiness": "1"}, *side("macvlan"))])
    assert found.notes == ("the machine was set otherwise, too: vm.swappiness (60 against 1)",)
    many = {f"net.core.setting{number}": "1" for number in range(5)}
    (found,) = compare([*under(many, *first), *under(dict.fromkeys(many, "2"), *side("macvlan"))])
    assert found.notes[0].endswith("net.core.setting2 (1 against 2), and 2 more")


def test_settings_are_compared_run_by_run_within_a_block():
    """Both sides have both values here, and in no block the same."""
    other = SETTINGS | {"governor": "powersave"}
    runs = []
    for turn, driver in enumerate(("bridge", "macvlan")):
        for at, each in enumerate(side(driver)):
            block = {"block": run([1.0], repetition=at).facts["block"]}
            runs += under([SETTINGS, other][(at + turn) % 2], replace(each, facts={**each.facts, **block}))
    with pytest.raises(AnalysisError, match="differ in governor"):
        compare(runs)


def test_settings_that_only_one_side_recorded_are_said_to_be_unknown():
    (found,) = compare([*under(SETTINGS, *side("bridge")), *side("macvlan")])
    assert found.notes == ("one side did not record the machine's settings",)


def test_a_machine_that_was_set_otherwise_between_two_labels_is_no_change_of_what_they_name():
    before = [with_label(each, "before") for each in under(SETTINGS, *side("bridge"))]
    after = [with_label(each, "after") for each in under(SETTINGS | {"governor": "powersave"}, *side("bridge"))]
    with pytest.raises(AnalysisError, match="differ in governor"):
        compare([*before, *after], by="label", base="before")
    (found,) = compare([*before, *after], by="label", base="before", despite=["governor"])
    assert "they differ in governor (performance against powersave), too" in found.notes


def on(cpu, runs):
    return [replace(each, facts={**each.facts, "host": {**each.facts["host"], "cpu_model": cpu}}) for each in runs]


def test_two_hosts_are_compared_as_they_are_set_and_that_is_named():
    first, second = under(SETTINGS, *side("bridge")), under(SETTINGS | {"governor": "powersave"}, *side("bridge"))
    (found,) = compare([*on("A", first), *on("B", second)], by="host")
    assert "they differ in governor (performance against powersave), too" in found.notes


def test_over_hosts_the_two_sides_of_each_are_held_against_each_other():
    other = SETTINGS | {"vm.swappiness": "1"}
    runs = [*on("A", under(SETTINGS, *side("bridge"), *side("macvlan"))), *on("B", under(other, *side("bridge")))]
    (found,) = compare([*runs, *on("B", under(other, *side("macvlan")))], over="host")
    assert not [note for note in found.notes if "otherwise" in note]
    (found,) = compare([*runs, *on("B", under(SETTINGS, *side("macvlan")))], over="host")
    (note,) = [note for note in found.notes if "otherwise" in note]
    assert note.startswith("on B")
    assert note.endswith("vm.swappiness (1 against 60)")
