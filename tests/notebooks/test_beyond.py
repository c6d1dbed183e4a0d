import numpy as np
import pytest

from pairlab.analysis.questions import beyond
from pairlab.errors import AnalysisError
from tests.support import asked
from tests.support.synthetic import client_run


@pytest.fixture
def answer(ask):
    return ask("beyond", asked.runs_of("beyond", 2))


def test_each_question_takes_only_runs_that_vary_its_own_setting(answer):
    assert {varied.name: varied.settings(answer) for varied in beyond.ALL} == {
        "flows-per-pair": ["1", "2"],
        "congestion-control": ["default", "bbr"],
        "cpu-limits": ["no limit", "quota 0.2"],
        "mtu": ["default", "1,400 B", "9,000 B"],
    }
    several, _ = beyond.FLOWS.used(answer)
    assert {run.spec.flows_per_pair for run in several} == {1, 2}
    assert {(run.spec.congestion_control, run.spec.cpu_quota, run.spec.mtu_bytes) for run in several} == {("", 0, 0)}
    assert beyond.priorities(answer) == []


def test_beside_the_papers_congestion_control_others_are_held_against_it(ask):
    cells = [([1, 1], {}), ([2, 2], {"congestion_control": "reno"}), ([1, 1], {"cpu_quota": 0.5})]
    runs = [
        client_run(rates, **{"congestion_control": "cubic", "repetition": repetition} | spec)
        for repetition in range(3)
        for rates, spec in cells
    ]
    answer = ask("beyond", runs)
    assert beyond.CONTROL.settings(answer) == ["cubic", "reno"]
    assert list(answer["congestion-control total_bps change"]["value"]) == pytest.approx([100])
    drawn = answer.figure("beyond-congestion-control")
    assert [axes.get_xlabel() for axes in drawn.axes] == ["Congestion control"]
    assert beyond.LIMITS.settings(answer) == ["no limit", "quota 0.5"]


def test_a_remedy_is_found_with_its_cost_and_one_that_does_nothing_is_not(ask):
    """A quota evens out what the clients get and costs a fifth of the total; shares do nothing."""
    random = np.random.default_rng(7)
    runs = [
        client_run(20 * factor * random.normal(1, 0.01) * random.dirichlet([evenness] * 6), **spec, **told)
        for told in [{"driver": driver, "repetition": at} for driver in ("bridge", "macvlan", "ovs") for at in range(6)]
        for factor, evenness, spec in ((1.0, 20, {}), (0.8, 4000, {"cpu_quota": 0.2}), (1.0, 20, {"cpu_shares": 512}))
    ]
    answer = ask("beyond", runs)
    total = answer["cpu-limits total_bps change"].groupby("setting")["value"].mean()
    assert total["quota 0.2"] == pytest.approx(-20, abs=2)
    assert abs(total["shares 512"]) < 2
    jain = answer["cpu-limits jain_index change"]
    assert (jain.loc[jain["setting"] == "quota 0.2", "low"] > 0).all()
    told = [line for line in beyond.remedies(answer) if "quota" in line]
    assert len(told) == 3
    assert all("raises Jain's index" in line and "lowers max/min" in line for line in told)
    assert all("lowers the total (-" in line for line in told)
    assert beyond.summaries(answer)["netns-flowgen", "quota 0.2"].startswith("fairer in 3 of 3 cells, less fair in 0")


def test_what_priority_is_worth_is_found_within_runs_and_only_where_there_is_some(ask):
    random, runs = np.random.default_rng(5), []
    for repetition in range(6):
        rates = [3.0, 3.0, 1.0, 1.0] * random.normal(1, 0.02, 4)
        named = {"columns": {"priority": ["high", "high", "normal", "normal"]}}
        special = {"priority_share": 0.5, "priority_cpu_shares": 4096}
        runs.append(client_run(rates, repetition=repetition, **named, **special))
        runs.append(client_run([2, 2, 2, 2], repetition=repetition))
    answer = ask("beyond", runs)
    assert beyond.LIMITS.settings(answer) == ["no limit", "50 % with shares 4096"]
    found = answer["cpu-limits priority_times"].set_index("setting")
    assert found["value"].isna().to_dict() == {"no limit": True, "50 % with shares 4096": False}
    row = found.loc["50 % with shares 4096"]
    assert row["low"] < 3 < row["high"] < 3.2
    assert row["n"] == 6
    assert len(told := beyond.priorities(answer)) == 1
    assert "clients with priority get 3.0" in told[0] or "clients with priority get 2.9" in told[0]


def test_flows_of_a_client_are_added_up_before_fairness_is_taken(ask):
    answer = ask("beyond", [client_run([1, 3], flows_per_pair=count) for count in (1, 4)])
    assert list(answer["flows-per-pair most_over_least"]["value"]) == pytest.approx([3, 3])
    assert list(answer["flows-per-pair total_bps"]["value"]) == pytest.approx([4e9, 4e9])


def test_plain_runs_of_other_pairs_or_times_are_not_compared_with(ask):
    runs = [client_run([1, 1], cpu_quota=0.5), client_run([1, 1, 1]), client_run([1, 1], duration_s=9.0)]
    answer = ask("beyond", runs)
    assert beyond.gaps(answer)["cpu-limits"].startswith("no plain run of 'throughput' has the pairs and times")
    assert beyond.LIMITS.settings(answer) == ["quota 0.5"]
    assert answer["cpu-limits total_bps change"]["value"].isna().all()


def test_special_runs_of_different_times_are_refused(ask):
    runs = [client_run([1, 1], cpu_quota=0.5), client_run([1, 1], cpu_quota=0.5, duration_s=9.0, repetition=1)]
    with pytest.raises(AnalysisError, match="differ in asked_duration_s"):
        _ = ask("beyond", runs)["cpu-limits total_bps"]


def test_without_special_runs_there_is_a_gap_and_no_number(ask):
    answer = ask("beyond", asked.runs_of("throughput", 1))
    for varied in beyond.ALL:
        assert beyond.gaps(answer)[varied.name].startswith("no run of 'throughput' varies")
        assert answer[f"{varied.name} total_bps"].empty


def test_loss_is_of_what_was_sent_and_reordering_of_what_came(ask):
    repetitions = ask("udp", asked.runs_of("udp", 1)).repetitions
    sent = repetitions[repetitions["protocol"] == "udp"]
    assert sent["lost_share"].tolist() == pytest.approx([0.02] * 2)
    assert sent["reordered_share"].tolist() == pytest.approx([0.001] * 2)
    assert repetitions.loc[repetitions["protocol"] == "tcp", "lost_share"].isna().all()


def test_what_tcp_loses_beside_udp_is_told_against_tcp_alone(answer):
    told = [line for line in beyond.sentences_beside(answer) if "50 % UDP at full rate" in line]
    assert told[0].startswith("netns-flowgen, bridge, 4 pairs, 50 % UDP at full rate: a TCP client's throughput")


def test_a_failed_udp_flow_counts_as_zero(ask):
    columns = {"protocol": ["udp", "udp"], "datagrams_sent": [10, 10], "datagrams_lost": [5, 0]}
    found = ask("udp", [client_run([2, 2], experiment="udp", udp_share=1.0, failed=1, columns=columns)]).repetitions
    assert found["client_bps"].sum() == 2e9
    assert found["failed_flows"].sum() == 1
