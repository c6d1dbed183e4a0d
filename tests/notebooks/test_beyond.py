import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions import beyond, udp
from pairlab.errors import AnalysisError
from pairlab.store.dataset import load_runs
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed, figures, tables


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "beyond"
    return synthetic.write_udp(synthetic.write_beyond(place, repetitions=6), repetitions=6)


@pytest.fixture(scope="module")
def flows(runs):
    return load_runs(runs, experiment="throughput").flows


@pytest.mark.ci
def test_each_question_takes_only_runs_that_vary_its_own_setting(flows):
    settings = {
        question.name: beyond.answer(flows, question, 0.95).settings
        for question in (beyond.FLOWS, beyond.CONTROL, beyond.LIMITS, beyond.MTU)
    }
    assert settings == {
        "flows-per-pair": ["1", "4"],
        "congestion-control": ["default", "bbr"],
        "cpu-limits": ["no limit", "shares 512", "quota 0.2"],
        "mtu": ["default", "9,000 B"],
    }


def test_beside_the_papers_congestion_control_others_are_held_against_it(tmp_path):
    for repetition in range(3):
        for control, rate in (("cubic", 1.0), ("reno", 2.0)):
            store.write(synthetic.client_run([rate, rate], congestion_control=control, repetition=repetition), tmp_path)
        store.write(
            synthetic.client_run([1, 1], congestion_control="cubic", cpu_quota=0.5, repetition=repetition), tmp_path
        )
    loaded = load_runs(tmp_path)
    answer = beyond.answer(loaded.flows, beyond.CONTROL, 0.95)
    assert answer.settings == ["cubic", "reno"]
    assert list(answer.changes["total_bps"]["value"]) == pytest.approx([100])
    assert beyond.control_name(loaded) == "Congestion control"
    assert beyond.answer(loaded.flows, beyond.LIMITS, 0.95).settings == ["no limit", "quota 0.5"]


@pytest.mark.ci
def test_a_remedy_is_found_with_its_cost_and_one_that_does_nothing_is_not(flows):
    limits = beyond.answer(flows, beyond.LIMITS, 0.95)
    total = limits.changes["total_bps"].groupby("setting")["value"].mean()
    assert total["quota 0.2"] == pytest.approx(-20, abs=2)
    assert abs(total["shares 512"]) < 2
    jain = limits.changes["jain_index"]
    assert (jain.loc[jain["setting"] == "quota 0.2", "low"] > 0).all()
    told = [line for line in beyond.remedies(limits) if "quota" in line]
    assert len(told) == 6
    assert all("raises Jain's index" in line and "lowers max/min" in line for line in told)
    assert all("lowers the total (-" in line for line in told)
    assert beyond.summaries(limits)["netns-flowgen", "quota 0.2"].startswith("fairer in 3 of 3 cells, less fair in 0")


def test_what_priority_is_worth_is_found_within_runs_and_only_where_there_is_some(tmp_path):
    random = np.random.default_rng(5)
    for repetition in range(6):
        rates = [3.0, 3.0, 1.0, 1.0] * random.normal(1, 0.02, 4)
        named = {"columns": {"priority": ["high", "high", "normal", "normal"]}}
        special = {"priority_share": 0.5, "priority_cpu_shares": 4096}
        store.write(synthetic.client_run(rates, repetition=repetition, **named, **special), tmp_path)
        store.write(synthetic.client_run([2, 2, 2, 2], repetition=repetition), tmp_path)
    limits = beyond.answer(load_runs(tmp_path).flows, beyond.LIMITS, 0.95)
    assert limits.settings == ["no limit", "50 % with shares 4096"]
    found = limits.cells["priority_times"].set_index("setting")
    assert found["value"].isna().to_dict() == {"no limit": True, "50 % with shares 4096": False}
    row = found.loc["50 % with shares 4096"]
    assert row["low"] < 3 < row["high"] < 3.2
    assert row["n"] == 6
    assert len(told := beyond.priorities(limits)) == 1
    assert "clients with priority get 3.0" in told[0] or "clients with priority get 2.9" in told[0]


def test_each_question_without_priority_says_nothing_of_it(flows):
    assert beyond.priorities(beyond.answer(flows, beyond.LIMITS, 0.95)) == []


def test_flows_of_a_client_are_added_up_before_fairness_is_taken(tmp_path):
    for count in (1, 4):
        store.write(synthetic.client_run([1, 3], flows_per_pair=count), tmp_path)
    cells = beyond.answer(load_runs(tmp_path).flows, beyond.FLOWS, 0.95).cells
    assert list(cells["ratio"]["value"]) == pytest.approx([3, 3])
    assert list(cells["total_bps"]["value"]) == pytest.approx([4e9, 4e9])


def test_an_answer_knows_its_runs_and_no_others(runs):
    loaded = load_runs(runs, experiment="throughput")
    several = beyond.answer(loaded.flows, beyond.FLOWS, 0.95).of(loaded)
    assert {run.spec.flows_per_pair for run in several} == {1, 4}
    assert {(run.spec.congestion_control, run.spec.cpu_quota, run.spec.mtu_bytes) for run in several} == {("", 0, 0)}
    control = beyond.answer(loaded.flows, beyond.CONTROL, 0.95).of(loaded)
    assert {run.spec.congestion_control for run in control} == {"", "bbr"}


def test_plain_runs_of_other_pairs_or_times_are_not_compared_with(tmp_path):
    store.write(synthetic.client_run([1, 1], cpu_quota=0.5), tmp_path)
    store.write(synthetic.client_run([1, 1, 1]), tmp_path)
    store.write(synthetic.client_run([1, 1], duration_s=9.0), tmp_path)
    limits = beyond.answer(load_runs(tmp_path).flows, beyond.LIMITS, 0.95)
    assert limits.gap.startswith("no plain run of 'throughput' has the pairs and times")
    assert limits.settings == ["quota 0.5"]
    assert limits.changes["total_bps"]["value"].isna().all()


def test_special_runs_of_different_times_are_refused(tmp_path):
    store.write(synthetic.client_run([1, 1], cpu_quota=0.5), tmp_path)
    store.write(synthetic.client_run([1, 1], cpu_quota=0.5, duration_s=9.0, repetition=1), tmp_path)
    with pytest.raises(AnalysisError, match="differ in asked_duration_s"):
        beyond.answer(load_runs(tmp_path).flows, beyond.LIMITS, 0.95)


def test_without_special_runs_there_is_a_gap_and_no_number(campaign):
    for question in (beyond.FLOWS, beyond.CONTROL, beyond.LIMITS):
        answer = beyond.answer(load_runs(campaign).flows, question, 0.95)
        assert answer.gap.startswith("no run of 'throughput' varies")
        assert answer.cells["total_bps"].empty


def test_loss_is_of_what_was_sent_and_reordering_of_what_came(runs):
    repetitions = udp.repetitions(load_runs(runs, experiment="udp").flows)
    sent = repetitions[repetitions["protocol"] == "udp"]
    assert sent["lost_share"].tolist() == pytest.approx([0.02] * len(sent))
    assert sent["reordered_share"].tolist() == pytest.approx([0.001] * len(sent))
    assert repetitions.loc[repetitions["protocol"] == "tcp", "lost_share"].isna().all()


def test_what_tcp_loses_beside_udp_is_told_against_tcp_alone(runs):
    changes = udp.changes(udp.repetitions(load_runs(runs, experiment="udp").flows), 0.95)
    assert changes["value"].tolist() == pytest.approx([-33.3] * 6, abs=4)
    assert (changes["high"] < 0).all()
    assert udp.beside(changes)[0].startswith("docker-flowgen, bridge, 4 pairs, 50 % UDP at full rate: a TCP client's")


def test_a_failed_udp_flow_counts_as_zero(tmp_path):
    columns = {"protocol": ["udp", "udp"], "datagrams_sent": [10, 10], "datagrams_lost": [5, 0]}
    store.write(synthetic.client_run([2, 2], experiment="udp", udp_share=1.0, failed=1, columns=columns), tmp_path)
    found = udp.repetitions(load_runs(tmp_path).flows)
    assert found["client_bps"].sum() == 2e9
    assert found["failed_flows"].sum() == 1


@pytest.mark.ci
def test_the_notebook_makes_every_part_from_two_backends(runs, tmp_path):
    executed = Executed("10-beyond", runs, tmp_path)
    parts = ("flows-per-pair", "congestion-control", "cpu-limits", "mtu", "udp")
    names = [f"beyond-{part}-{backend}-flowgen" for part in parts for backend in synthetic.BACKENDS]
    drawn = figures("beyond", *(f"beyond-{part}" for part in (*parts, "cpu-limits-cost")))
    assert executed.made == drawn | tables("beyond", "beyond-changes", *names) | {"paper/values/beyond/10-beyond.tex"}
    values = executed.values("10-beyond")
    assert "{beyond/cpu-limits/netns-flowgen/quota-0.2/told}{fairer in 3 of 3 cells" in values
    assert r"{beyond/udp/netns-flowgen/bridge/4/50-0/udp/lost}{2.00\,\%}" in values
    assert "beyond/missing" not in values
    assert "{beyond/congestion-control/default}{cubic}" in values


def test_each_part_that_was_not_measured_is_named(campaign, tmp_path):
    executed = Executed("10-beyond", campaign, tmp_path)
    assert executed.made == {"paper/values/campaign/10-beyond.tex"}
    values = executed.values("10-beyond")
    for part in ("flows-per-pair", "congestion-control", "cpu-limits", "mtu", "udp"):
        assert f"{{beyond/{part}/missing}}" in values


@pytest.mark.ci
def test_one_repetition_of_one_remedy_is_shown_and_nothing_is_claimed_of_it(tmp_path):
    how = {"backends": ("netns",), "drivers": ("bridge",), "controls": (), "flows": (), "mtus": (), "repetitions": 1}
    synthetic.write_beyond(tmp_path / "few", remedies=({}, {"cpu_quota": 0.2}), **how)
    executed = Executed("10-beyond", tmp_path / "few", tmp_path)
    assert figures("few", "beyond-cpu-limits", "beyond-cpu-limits-cost") <= executed.made
    assert "Jain's index changes in one repetition (" in executed.told("limits")
    assert "fairer in 0 of 1 cells" in executed.values("10-beyond")
