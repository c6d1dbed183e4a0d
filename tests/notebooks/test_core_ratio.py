import numpy as np
import pandas as pd
import pytest

from pairlab.analysis.questions import cores
from tests.support import asked
from tests.support.synthetic import client_run


@pytest.fixture
def answer(ask):
    """Of 2, 4 and 8 pairs on both of the host's cores, and of 4 on one; ovs has 2 and 4 on both, where bridge slows."""
    others = [
        client_run([1.0] * pairs, experiment="core-ratio", cores=number, repetition=repetition)
        for pairs, number in ((8, 0), (4, 1))
        for repetition in range(3)
    ]
    return ask("core-ratio", [*asked.runs_of("core-ratio", 3), *others])


def test_the_ratio_counts_both_ends_and_all_cpus_where_no_number_of_cores_is_asked_for(answer):
    found = answer.repetitions.groupby(["pairs", "cores"])["ratio"].unique().map(list)
    assert found.to_dict() == {(2, 2.0): [2.0], (4, 1.0): [8.0], (4, 2.0): [4.0], (8, 2.0): [8.0]}
    # One ratio that came about in two ways stays two cells.
    assert cores.places(answer["client"]) == ["2\n2/2", "4\n4/2", "8\n4/1", "8\n8/2"]


def test_the_gap_between_drivers_widens_as_put_in_and_leaves_the_baseline_out(answer):
    wide, change = (answer[name].set_index("place").loc["4\n4/2"] for name in ("client gap", "client gap change"))
    assert wide["value"] == pytest.approx(1 / asked.LESS, rel=0.05)
    assert change["low"] > 0
    rates = cores.bulk(answer.repetitions)
    host = rates[rates["driver"] == "ovs"].assign(driver="host", client_bps=1e12)
    assert cores.gaps(pd.concat([rates, host]), "client_bps").equals(cores.gaps(rates, "client_bps"))


def test_only_repetitions_with_all_drivers_have_a_gap(answer):
    rates = cores.bulk(answer.repetitions)
    odd = (rates["driver"] == "ovs") & (rates["repetition"] == 1)
    assert set(cores.gaps(rates[~odd], "client_bps")["repetition"]) == {0, 2}
    assert cores.gaps(rates[rates["driver"] == "ovs"], "client_bps").empty


def test_where_a_flow_failed_the_mean_completion_time_is_a_gap_and_so_is_its_change(ask):
    told = {"experiment": "core-ratio", "flow_bytes": 5_000_000, "duration_s": 30.0}
    runs = [
        client_run([1, 1, 1], columns={"fct_s": [0.1, 0.3, 9.0]}, failed=failed, cores=number, repetition=at, **told)
        for number, failed, at in ((1, 1, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1))
    ]
    answer = ask("core-ratio", runs)
    row = answer.repetitions[answer.repetitions["failed_flows"] > 0].squeeze()
    assert np.isnan(row["fct_mean_s"])
    assert (row["flows"], row["failed_flows"]) == (3, 1)
    gaps = answer["fct"].set_index("cores")["gap"]
    assert gaps.to_dict() == {1: "fct_mean_s has no finite value in 1 of 2 repetitions", 2: ""}
    (change,) = answer["fct change"].itertuples()
    assert change.gap == "the change has no finite value in 1 of 4 repetitions"


def test_without_completion_times_the_rest_is_drawn_and_the_reason_told(ask, out, capsys):
    answer = ask("core-ratio", [run for run in asked.runs_of("core-ratio", 1) if not run.spec.flow_bytes])
    assert answer.figure("core-ratio-throughput") is not None
    answer.draw("core-ratio-fct")
    assert "no completion times" in capsys.readouterr().out
    assert answer.values["missing"].startswith("no run of 'core-ratio' has flows with an end")
