"""Which network for what: who is dominated, what stands in, and what is missing, on runs whose truth is known."""

from dataclasses import replace
from datetime import timedelta
from zlib import crc32

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.advice import answer, shown
from pairlab.analysis.advice.cells import Cell, Setting
from pairlab.analysis.advice.question import Network, Question
from pairlab.analysis.advice.ranking import Differences
from pairlab.analysis.comparison.twins import Noise
from pairlab.errors import BadInput, UnknownName
from pairlab.model.tables import table
from pairlab.statistics.intervals import mean_interval
from pairlab.store.dataset import Runs
from tests.support import synthetic

ACROSS = {"hosts": 2, "placement": "across"}


def network(name, **known):
    usual = {"backend": "netns", "isolation": ("namespace", "one each"), "separates": True, "spans_hosts": True}
    return Network(name, **(usual | {"needs_hosts": False, "needs": "–"} | known))


def requests(driver, p99_s, *, spread=0.01, repetitions=5, **spec):
    """Of a hundred requests two take the time that the 99th percentile is to be."""
    random = np.random.default_rng(crc32(driver.encode()))
    for repetition in range(repetitions):
        late_s = p99_s * float(np.exp(random.normal(0, spread)))
        asked = {"driver": driver, "repetition": repetition, "experiment": "latency", **spec}
        yield synthetic.transacting({p99_s / 10: 98, late_s: 2}, **asked)


def bulk(driver, gbps, cost, *, repetitions=5, **spec):
    """Flows of so many Gbit/s in all, which cost so many CPUs per Gbit/s."""
    random = np.random.default_rng(crc32(driver.encode()))
    for repetition in range(repetitions):
        rate = gbps * float(np.exp(random.normal(0, 0.01)))
        made = synthetic.run([rate], driver=driver, repetition=repetition, experiment="networks", **spec)
        made.flows["flow_bytes"] = rate * 1e9 / 8 * made.spec.duration_s
        busy = rate * cost * float(np.exp(0.01 * (repetition - (repetitions - 1) / 2)))
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


def test_a_network_that_was_measured_after_all_runs_of_the_other_is_not_held_against_it():
    later = [
        replace(run, measured_at=run.measured_at + timedelta(hours=1), facts=run.facts | {"block": ""})
        for run in requests("b", 200e-6)
    ]
    found = advice(later, requests("a", 100e-6))
    assert [row.dominated_by for row in found.rows] == [(), ()]
    assert rows(found)["b"].rank == (None, "measured apart in time")
    assert "Without a rank: b (measured apart in time)." in shown.sentences(found, "netns")


def test_a_network_that_shares_no_block_with_one_that_it_is_held_against_is_named_and_what_does_is_not():
    in_turn = [
        replace(run, measured_at=run.measured_at + timedelta(seconds=1), facts=run.facts | {"block": ""})
        for run in requests("b", 200e-6)
    ]
    for other, unpaired in ((in_turn, ("a",)), (requests("b", 200e-6), ())):
        found = advice(other, requests("a", 100e-6))
        assert rows(found)["b"].dominated_by == ("a",)
        assert [row.unpaired_with for row in found.rows] == [(), unpaired]
        words = "Compared unpaired, as no block has both of them: b with a."
        assert (words in shown.sentences(found, "netns")) == bool(unpaired)
        assert shown.as_dict(found)["networks"][1]["unpaired_with"] == list(unpaired)


def test_a_difference_that_may_be_chance_is_a_tie():
    found = advice(requests("a", 100e-6, spread=0.3), requests("b", 120e-6, spread=0.3))
    assert [row.dominated_by for row in found.rows] == [(), ()]
    assert [row.rank.number for row in found.rows] == [1, 1]
    assert [*shown.table(found, "netns")["Rank"]] == ["1=", "1="]
    first, *_ = shown.sentences(found, "netns")
    assert first.endswith("share the first rank in p99 latency: their differences are within the interval.")


def test_a_difference_below_the_margin_is_a_tie_however_sure_it_is():
    runs = [*requests("a", 100e-6, spread=0.001), *requests("b", 104e-6, spread=0.001)]
    tie, told = (advice(runs, question=Question(pairs=1, margin_percent=margin)) for margin in (5, 2))
    assert [row.rank for row in tie.rows] == [(1, ""), (1, "below 5 %")]
    assert shown.sentences(tie, "netns")[0].endswith("their differences are below 5 %.")
    assert [row.rank.number for row in told.rows] == [1, 2]


def test_a_difference_that_twins_have_too_is_a_tie_and_a_larger_one_is_not():
    noise = [
        store.with_spec(run, run.spec.replace(twin=True)) for run in requests("a", 100e-6, spread=0.1, repetitions=8)
    ]
    first = list(requests("a", 100e-6, spread=0.001, repetitions=8))
    for other_s, number in ((108e-6, 1), (300e-6, 2)):
        found = advice(first, noise, requests("b", other_s, spread=0.001, repetitions=8))
        assert rows(found)["b"].rank.number == number
        assert ("below the noise of" in rows(found)["b"].rank.why) == (number == 1)
    assert "8 are twins" in " ".join(shown.runs_used(found))


def test_a_rank_counts_the_networks_that_are_better_for_sure_and_ties_share_it():
    truth = {"a": 100e-6, "b": 101e-6, "c": 200e-6, "d": 202e-6, "e": 400e-6}
    parts = [requests(name, value_s) for name, value_s in truth.items()]
    found = advice(*parts, names=tuple(truth))
    assert [row.network.name for row in found.rows] == ["a", "b", "c", "d", "e"]
    assert [*shown.table(found, "netns")["Rank"]] == ["1=", "1=", "3=", "3=", "5"]
    assert [each["rank"] for each in shown.as_dict(found)["networks"]] == [1, 1, 3, 3, 5]


def drawn(random, effects, repetitions=5, spread=0.05, drift=0.1):
    """The cells of networks with these effects (as logarithms), measured in blocks of a machine that drifts."""
    like = next(requests("a", 1e-4))
    logs = random.normal(0, spread, (len(effects), repetitions)) + random.normal(0, drift, repetitions)
    for values in 1e-4 * np.exp(logs + np.array(effects)[:, None]):
        blocks = {f"2026-01-01T0{block}:00:00.0Z": value for block, value in enumerate(values)}
        yield Cell("p99", mean_interval(values), Setting.of(like), True, (like,), blocks)


@pytest.mark.whole
@pytest.mark.parametrize(("effect", "least", "most"), [(0.0, 0.0, 0.05), (0.35, 0.9, 1.0)])
def test_equal_networks_are_ranked_behind_as_seldom_as_it_says_and_a_real_difference_is_found(effect, least, most):
    random, behind, draws = np.random.default_rng(3), [], 300
    for _ in range(draws):
        cells = list(drawn(random, [0.0, 0.0, 0.0, effect]))
        differences = Differences("p99", len(cells) - 1, 5, Noise(Runs(())))
        best = min(cells, key=lambda cell: cell.found.value)
        behind.append(differences.ranks(cells, best)[-1].number > 1)
    error = 3 * (0.05 * 0.95 / draws) ** 0.5
    assert least - error <= np.mean(behind) <= most + error


def test_without_an_interval_nothing_is_sure():
    found = advice(requests("a", 100e-6, repetitions=2), requests("b", 900e-6, repetitions=2))
    assert [row.dominated_by for row in found.rows] == [(), ()]
    assert [row.rank.number for row in found.rows] == [None, None]
    assert "Without a rank: a, b (too few repetitions)." in shown.sentences(found, "netns")


def test_whoever_is_better_in_anything_that_matters_is_not_dominated():
    fast_and_costly, slow_and_cheap = bulk("a", 20, 0.04), bulk("b", 10, 0.02)
    question = Question(pairs=1, traffic="bulk")
    found = advice(fast_and_costly, slow_and_cheap, question=question)
    assert [row.dominated_by for row in found.rows] == [(), ()]
    assert found.rows[0].cells["cpu-bulk"].found.value == pytest.approx(4, rel=1e-3)  # % of a CPU per Gbit/s
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
    assert "Without a rank: b (measured otherwise)." in shown.sentences(found, "netns")
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


LOADED = {"background_pairs": 4, "experiment": "congestion"}


def test_runs_beside_other_load_or_behind_a_slow_link_are_counted_and_say_nothing_of_a_network():
    slowed = [
        *requests("a", 1e-3, link_rate_bps=1e9, cores=2),
        *requests("a", 1e-3, interference_workers=2, repetitions=3),
        *requests("a", 1e-3, **LOADED, repetitions=4),
    ]
    found = advice(slowed, requests("b", 100e-6))
    assert rows(found)["a"].cells["p99"].found is None
    told = shown.runs_used(found)
    assert told[0] == "These numbers are of 5 of 17 runs. Of the others,"
    with_load = "have other load, limits or options"
    assert [line.strip() for line in told[1:]] == [
        f"5 {with_load}: cores, link_rate_bps (cores=2 link_rate_bps=1e+09 asks for such)",
        f"4 {with_load}: background_pairs (background_pairs=4 asks for such)",
        f"3 {with_load}: interference_workers (interference_workers=2 asks for such)",
    ]
    data = shown.as_dict(found)
    assert data["runs"] == {"read": 17, "used": 5}
    assert [(each["n"], len(each["runs"])) for each in data["left_out"]] == [(5, 5), (4, 4), (3, 3)]


def test_beside_other_load_the_runs_with_that_load_answer_and_those_without_are_counted():
    plain = [*requests("a", 100e-6), *requests("b", 200e-6)]
    loaded = [*requests("a", 900e-6, **LOADED), *requests("b", 300e-6, **LOADED)]
    more = requests("b", 5e-3, **LOADED | {"background_pairs": 16})
    runs = [*plain, *loaded, *more]
    assert [row.network.name for row in advice(runs).rows] == ["a", "b"]
    beside = advice(runs, question=Question(pairs=1, where={"background_pairs": "4"}))
    assert [(row.network.name, row.rank.number) for row in beside.rows] == [("b", 1), ("a", 2)]
    assert rows(beside)["b"].cells["p99"].found.value == pytest.approx(300e-6, rel=0.05)
    assert "beside 4 background pairs of flowgen" in str(rows(beside)["b"].cells["p99"].setting)
    assert shown.runs_used(beside)[1].strip() == "15 do not have background_pairs=4"
    assert str(beside.question).startswith("1 request/response pair on one host, background_pairs=4, p99")


def test_a_congestion_control_is_the_one_in_force_whether_a_run_asked_for_it_or_not():
    asked = {"in_force": "bbr", "by": "default"}
    by_default = [
        replace(run, facts=run.facts | {"congestion_control": asked}) for run in requests("a", 300e-6, repetitions=4)
    ]
    runs = [*requests("a", 100e-6), *by_default, *requests("b", 200e-6, congestion_control="bbr")]
    found = advice(runs, question=Question(pairs=1, where={"congestion_control": ["bbr"]}))
    assert {row.network.name: len(row.cells["p99"].runs) for row in found.rows} == {"a": 4, "b": 5}
    assert shown.runs_used(found)[1].strip() == "5 do not have congestion_control=bbr"


def test_each_run_is_behind_a_number_or_left_out_for_one_reason():
    parts = [
        requests("a", 100e-6),
        requests("a", 1e-4, **ACROSS),
        requests("c", 1e-4),
        requests("a", 1e-4, pairs=9),
        [replace(run, status="invalid", reasons=("late",)) for run in requests("b", 1e-4, seed=3)],
        [synthetic.ending([0.1], driver="bridge")],
        requests("a", 1e-4, workload="all-to-all", experiment="all-to-all"),
        bulk("a", 9, 0.1, message_bytes=64),
    ]
    found = advice(*parts, names=("a", "b", "bridge"))
    (*reasons,) = (each.why for each in found.left_out)
    assert sorted(reasons) == [
        "are between several hosts",
        "are farther from what is asked than others of their network, or in fewer networks",
        "are invalid",
        "are of networks or backends that the answer is not about",
        "have bulk transfers in messages of a given size",
        "have flows that end by themselves",
        "have rounds of messages between all containers",
    ]
    left_out = [run for each in found.left_out for run in each.runs]
    behind = [run for row in found.rows for run in row.cells["p99"].runs]
    assert len({id(run) for run in left_out + behind}) == len(left_out) + len(behind) == len(found.runs)


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
        ({"margin_percent": -1}, "margin: must be a number of percent from 0, not -1"),
        ({"where": {"hosts": 2}}, "hosts: is no filter here, but an option of its own: --hosts"),
        ({"where": {"background_pairs": "many"}}, "background_pairs: 'many' is not a number"),
    ],
)
def test_a_question_with_a_bad_value_is_refused(given, words):
    with pytest.raises(BadInput, match=words):
        Question(**given)


def test_a_filter_that_runs_do_not_have_is_refused():
    with pytest.raises(UnknownName, match="runs have no 'background_pair'; did you mean 'background_pairs'"):
        advice(requests("a", 1e-4), question=Question(where={"background_pair": 4}))


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


def test_what_a_network_cannot_do_stands_beside_its_speed():
    known = [network("bridge"), network("macvlan", cannot="reach its own host")]
    found = advice(requests("bridge", 2e-4), requests("macvlan", 1e-4), known=known)
    first, second, *_ = shown.sentences(found, "netns")
    assert "macvlan has the shortest p99 latency" in first
    assert second == "macvlan cannot reach its own host."
    assert dict(shown.table(found, "netns")["Cannot"]) == {"macvlan": "reach its own host", "bridge": ""}
    assert "<td>reach its own host</td>" in shown.html(found)
    assert {each["network"]: each["cannot"] for each in shown.as_dict(found)["networks"]} == {
        "bridge": None,
        "macvlan": "reach its own host",
    }
