"""Which network for what: who is dominated, what stands in, and what is missing, on runs whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis.advice import answer, shown
from pairlab.analysis.advice.question import Network, Question
from pairlab.errors import BadInput
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from tests.support import synthetic

ACROSS = {"hosts": 2, "placement": "across"}


def network(name, **known):
    usual = {"backend": "netns", "isolation": ("namespace", "one each"), "separates": True, "spans_hosts": True}
    return Network(name, **(usual | {"needs_hosts": False, "needs": "–"} | known))


def requests(driver, p99_s, *, spread=0.01, repetitions=5, **spec):
    """Of a hundred requests two take the time that the 99th percentile is to be."""
    random = np.random.default_rng(len(driver))
    for repetition in range(repetitions):
        late_s = p99_s * float(np.exp(random.normal(0, spread)))
        asked = {"driver": driver, "repetition": repetition, "experiment": "latency", **spec}
        yield synthetic.transacting({p99_s / 10: 98, late_s: 2}, **asked)


def bulk(driver, gbps, cost, *, repetitions=5, **spec):
    """Flows of so many Gbit/s in all, which cost so many CPUs per Gbit/s."""
    random = np.random.default_rng(len(driver))
    for repetition in range(repetitions):
        rate = gbps * float(np.exp(random.normal(0, 0.01)))
        made = synthetic.run([rate], driver=driver, repetition=repetition, experiment="networks", **spec)
        made.flows["flow_bytes"] = rate * 1e9 / 8 * made.spec.duration_s
        busy = rate * cost
        cpu = [
            {"cpu": 0, "start_s": 0.0, "end_s": 2.0, "usr": busy, "sys": 0, "softirq": 0, "irq": 0, "idle": 1 - busy}
        ]
        yield replace(made, cpu=table("cpu", cpu))


def advice(*parts, names=("a", "b"), question=None, known=None):
    runs = Runs(tuple(run for part in parts for run in part))
    return answer.advise(runs, question or Question(pairs=1), known or [network(name) for name in names])


def rows(found):
    return {row.network.name: row for row in found.rows}


def test_a_round_of_messages_between_all_is_no_request():
    rounds = requests("b", 200e-6, experiment="all-to-all", workload="all-to-all", message_bytes=1024)
    found = rows(advice(requests("a", 100e-6), rounds))
    assert found["a"].cells["p99"].found
    assert "p99" not in found["b"].cells or not found["b"].cells["p99"].found


def test_a_network_that_is_worse_for_sure_in_all_that_matters_is_dominated_and_comes_after_the_other():
    found = advice(requests("b", 200e-6), requests("a", 100e-6))
    assert [row.network.name for row in found.rows] == ["a", "b"]
    assert (rows(found)["b"].dominated_by, rows(found)["a"].dominated_by) == (("a",), ())
    assert "a has the shortest p99 latency, 1" in shown.sentences(found, "netns")[0]


def test_a_difference_that_may_be_chance_dominates_nothing():
    found = advice(requests("a", 100e-6, spread=0.3), requests("b", 120e-6, spread=0.3))
    assert [row.dominated_by for row in found.rows] == [(), ()]
    assert "Not told apart from it: " in " ".join(shown.sentences(found, "netns"))


def test_without_an_interval_nothing_is_sure():
    found = advice(requests("a", 100e-6, repetitions=2), requests("b", 900e-6, repetitions=2))
    assert [row.dominated_by for row in found.rows] == [(), ()]


def test_whoever_is_better_in_anything_that_matters_is_not_dominated():
    fast_and_costly, slow_and_cheap = bulk("a", 20, 0.04), bulk("b", 10, 0.02)
    question = Question(pairs=1, traffic="bulk")
    found = advice(fast_and_costly, slow_and_cheap, question=question)
    assert [row.dominated_by for row in found.rows] == [(), ()]
    assert found.rows[0].cells["cpu-bulk"].found.value == pytest.approx(4)  # % of a CPU per Gbit/s
    by_cpu = advice(bulk("a", 20, 0.04), bulk("b", 10, 0.02), question=replace(question, first="cpu"))
    assert [row.network.name for row in by_cpu.rows] == ["b", "a"]
    both_worse = advice(bulk("a", 20, 0.02), bulk("b", 10, 0.04), question=question)
    assert rows(both_worse)["b"].dominated_by == ("a",)


def test_a_network_without_a_number_is_neither_dominated_nor_dominates():
    found = advice(requests("a", 100e-6), bulk("a", 20, 0.02), bulk("b", 1, 0.5))
    assert rows(found)["b"].dominated_by == ()  # its p99 is not known
    assert rows(found)["b"].cells["p99"].gap == "not measured"


def test_numbers_of_other_conditions_do_not_decide_and_are_named():
    found = advice(requests("a", 100e-6, congestion_control="bbr"), requests("b", 900e-6, congestion_control="cubic"))
    assert rows(found)["b"].dominated_by == ()
    assert "Not held against it, as measured otherwise: b." in shown.sentences(found, "netns")
    assert sorted(note[:3] for note in shown.notes(found) if note.startswith("(")) == ["(a)", "(b)"]


def test_the_nearest_conditions_stand_in_and_say_so_but_one_host_never_for_two():
    near, far = list(requests("a", 100e-6)), list(requests("a", 500e-6, **ACROSS))
    for hosts, value_s in ((1, 100e-6), (2, 500e-6)):
        question = Question(pairs=20, hosts=hosts)
        found = advice(near, far, question=question)
        cell = rows(found)["a"].cells["p99"]
        assert (cell.found.value, cell.exact) == (pytest.approx(value_s, rel=0.05), False)
        assert any(note.startswith("(a) not as asked: netns, 1 pair") for note in shown.notes(found))
        exactly = advice(near, far, question=replace(question, exactly=True))
        assert rows(exactly)["a"].cells["p99"].found is None
    alone = advice(near, question=Question(pairs=20, hosts=2))
    assert rows(alone)["a"].cells["p99"].found is None


def test_runs_beside_other_load_or_behind_a_slow_link_say_nothing_of_a_network():
    slowed = [
        *requests("a", 1e-3, uplink_rate_bps=1e9, **ACROSS),
        *requests("a", 1e-3, interference_workers=2),
        *requests("a", 1e-3, background_pairs=1),
    ]
    assert rows(advice(slowed))["a"].cells["p99"].found is None


def test_what_small_messages_carry_is_no_throughput_of_a_network():
    found = advice(bulk("a", 10.0, 0.01), bulk("b", 0.5, 0.2, message_bytes=256))
    assert rows(found)["a"].cells["throughput"].found.value == pytest.approx(10e9, rel=0.05)
    assert rows(found)["b"].cells["throughput"].gap == "not measured"


def test_isolation_and_hosts_rule_networks_out():
    known = [network("a", separates=False), network("b", spans_hosts=False), network("c")]
    runs = [*requests("a", 1e-6), *requests("b", 2e-6), *requests("c", 3e-6)]
    isolated = advice(runs, known=known, question=Question(pairs=1, isolation=True))
    assert [(row.network.name, row.ruled_out) for row in isolated.rows] == [
        ("b", ""),
        ("c", ""),
        ("a", "no network stack of its own"),
    ]
    assert rows(isolated)["c"].dominated_by == ("b",)  # and not by what is ruled out
    apart = advice(runs, known=known, question=Question(pairs=1, hosts=2))
    assert rows(apart)["b"].ruled_out == "within one host only"


def test_what_is_missing_is_measured_as_the_others_were_and_nothing_else_is():
    runs = [
        *requests("a", 100e-6, repetitions=7, seed=4, congestion_control="cubic"),
        *bulk("a", 9, 0.1),
        *bulk("b", 9, 0.1),
    ]
    found = advice(runs)
    missing = {each.experiment: each for each in found.missing}
    assert missing["latency"].parameters["seed"] == 4
    assert missing["latency"].parameters["congestion_control"] == "cubic"
    assert missing["latency"].repetitions == 7
    assert "b" in missing["latency"].drivers
    assert "networks" not in missing
    assert missing["launch-time"].parameters["pairs"] == 1  # a launch is that of one pair


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"traffic": "video"}, "traffic: 'video' is none of requests, bulk"),
        ({"first": "price"}, "first: 'price' is none of p99, throughput, cpu, launch"),
        ({"matter": ["speed"]}, "matter: 'speed' is none of p99"),
        ({"pairs": 0}, "pairs: must be a whole number from 1 to 5000, not 0"),
        ({"hosts": 1.5}, "hosts: must be a whole number from 1 to 64, not 1.5"),
    ],
)
def test_a_question_with_a_bad_value_is_refused(given, words):
    with pytest.raises(BadInput, match=words):
        Question(**given)


def test_numbers_have_the_unit_that_suits_them_and_long_latencies_are_in_ms():
    found = advice(requests("a", 2.5e-3), bulk("b", 12, 0.03))
    texts = shown.table(found, "netns")
    assert texts.loc["a", "p99 latency"].startswith("2.5")
    assert " ms (" in texts.loc["a", "p99 latency"]
    assert " Gbit/s (" in texts.loc["b", "Throughput"]
    assert texts.loc["b", "p99 latency"] == "–"


def test_html_greys_what_is_dominated_links_each_run_and_escapes(tmp_path):
    runs = [replace(run, path=tmp_path / "runs" / "latency" / run.key) for run in requests("a", 100e-6)]
    found = advice(runs, requests("b", 200e-6), known=[network("a", needs="<b>root</b>"), network("b")])
    page = shown.html(found, seen_from=tmp_path / "notebooks")
    assert page.count('style="opacity: 0.5"') == 1
    assert page.count(f'href="../runs/latency/{runs[0].key}/"') == 1
    assert "&lt;b&gt;root" in page


def test_programs_get_values_conditions_and_the_runs_behind_them():
    found = shown.as_dict(advice(requests("a", 100e-6)))
    (cell,) = (each["cells"]["p99"] for each in found["networks"] if each["network"] == "a")
    assert (len(cell["runs"]), cell["n"], cell["as_asked"], cell["unit"]) == (5, 5, True, "s")
    (empty,) = (each["cells"]["launch"] for each in found["networks"] if each["network"] == "b")
    assert (empty["value"], empty["runs"], empty["gap"]) == (None, [], "not measured")
