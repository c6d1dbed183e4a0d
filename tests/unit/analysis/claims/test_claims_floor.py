"""Verdicts beside a host's noise floor: an effect below it decides nothing."""

import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from pairlab.analysis.claims import effect as effects
from pairlab.analysis.claims import judgement, report, verdicts
from pairlab.analysis.comparison import noise_floor
from pairlab.cli import main
from pairlab.statistics import power
from pairlab.statistics.intervals import PERCENT, Student
from pairlab.store.dataset import Runs, load_runs
from tests.support.claimed import REPETITIONS, cells_of, claim_of, rare
from tests.support.synthetic import FACTS, write_campaign


def calibrated(spread, *, measure="total_bps", pairs=range(1, 101), backend="netns"):
    """A record of that noise within repetitions, and none between them, with each of these numbers of pairs."""
    ratios = np.linspace(-1, 1, 20)
    second = np.exp(spread * np.sqrt(2) * ratios / ratios.std(ddof=1))
    told = {"driver": "bridge", "workload": "flowgen", "duration_s": 2.0, "measure": measure}
    when = datetime(2024, 5, 1, tzinfo=UTC)
    return noise_floor.Calibration(
        schema=1,
        host=FACTS["host"]["fingerprint"],
        backend=backend,
        pairlab="0.1.0",
        measured_from=when,
        measured_to=when,
        cells=[noise_floor.Cell(**told, pairs=each, first=(1.0,) * 20, second=tuple(second)) for each in pairs],
    )


def verdict_above(floor, name, cells, **claim):
    found = verdicts.evaluate(
        Runs(tuple(cells)), claims=[claim_of(name, **claim)], calibrations={"netns": floor} if floor else {}
    )
    return found.iloc[0]


def test_an_effect_below_the_noise_floor_decides_nothing_and_says_what_would():
    cells = cells_of("drivers_change", 0.08, 0.001)
    assert verdict_above(None, "drivers_change", cells)["verdict"] == "holds"
    quiet, noisy = (verdict_above(calibrated(each), "drivers_change", cells) for each in (0.01, 0.1))
    assert quiet["verdict"] == "holds"
    # A ratio of two cells that spread by 1 % at n = 5: 1.682 standard deviations of the differences.
    assert quiet["floor"] == pytest.approx(100 * np.expm1(1.682 * 0.01 * np.sqrt(2)), rel=1e-3)
    assert quiet["notes"] == "noise floor 2.4 % at n = 5"
    assert noisy["verdict"] == "undecided"
    assert noisy["notes"] == "below the noise floor of this host, 26.9 % at n = 5"
    assert report.why_undecided(noisy) == "below the noise floor of 27 %"
    assert noisy["repetitions_needed"] == power.repetitions_needed(0.08, 0.1 * np.sqrt(2)) > REPETITIONS
    assert verdict_above(calibrated(0.1), "drivers_change", cells, claimed="less")["verdict"] == "undecided"


def test_no_difference_is_shown_only_where_one_of_the_margin_would_have_been_seen():
    cells = cells_of("drivers_change", 0.0, 0.001)
    for claimed, verdict in (("equal", "holds"), ("more", "contradicted")):
        seen, unseen = (
            verdict_above(calibrated(each), "drivers_change", cells, claimed=claimed) for each in (0.01, 0.1)
        )
        assert (seen["verdict"], unseen["verdict"]) == (verdict, "undecided")


def test_a_floor_is_that_of_the_measure_and_of_how_many_cells_the_effect_is_made():
    cells = cells_of("drivers_change", 0.08, 0.001)
    of_fct = verdict_above(calibrated(0.1, measure="fct_mean_s"), "drivers_change", cells)
    assert (of_fct["verdict"], np.isnan(of_fct["floor"]), of_fct["notes"]) == ("holds", True, "")
    floor = calibrated(0.02, measure="fct_mean_s")
    ratio, gap = (
        verdict_above(floor, name, cells_of(name, 0.3, 0.001))["floor"]
        for name in ("core_ratio_change", "core_ratio_gap")
    )
    assert np.log1p(gap / 100) == pytest.approx(np.sqrt(2) * np.log1p(ratio / 100))
    trend = verdict_above(calibrated(0.02), "message_size_trend", cells_of("message_size_trend", 0.1, 0.001))["floor"]
    # The slope through 0, 3 and 6 doublings has the weights -1/6, 0 and 1/6.
    assert np.log1p(trend / 100) == pytest.approx(np.log1p(ratio / 100) / 6)


@pytest.mark.parametrize("name", ["share", "correlation", "drivers_spread", "core_ratio_gap_ms"])
def test_what_no_calibration_measures_is_judged_by_its_interval(name):
    row = verdict_above(calibrated(5.0), name, cells_of(name, 0.15, 0.005))
    assert (row["verdict"], np.isnan(row["floor"])) == ("holds", True)


def test_effects_of_nothing_are_called_decided_less_often_than_by_their_interval_alone():
    """Four repetitions often come out closer together than they are; a calibration knows the spread better."""
    random, tries, by_interval, above = np.random.default_rng(4), 1000, 0, 0
    claim = claim_of("drivers_change", margin=0.0)
    contrast = effects.Contrast("total_bps", float(np.sqrt(2)), (5,))
    floor = calibrated(0.03).floor(contrast, "flowgen", 4)
    for _ in range(tries):
        made = random.normal(0, 0.03 * np.sqrt(2), 4)
        effect = effects.Found(Student.of(made, PERCENT), "made up", contrast=contrast)
        by_interval += judgement.judge(claim, effect)["verdict"] == "holds"
        above += judgement.judge(claim, effect, floor_of=lambda part: floor)["verdict"] == "holds"
    assert above < by_interval / 2
    assert by_interval / tries < rare(tries)


@pytest.mark.whole
def test_the_floor_beside_the_runs_is_told_once_and_without_one_the_verdicts_are_as_they_were(tmp_path):
    root = write_campaign(tmp_path / "runs", drivers=("bridge",))
    before = load_runs(root)
    without = verdicts.evaluate(before)
    assert without["floor"].isna().all()
    assert "docker: none recorded, so intervals alone decide" in report.floor_remark(without, before)
    noise_floor.write(calibrated(0.2, pairs=(2, 5)), root)
    runs = load_runs(root)
    found = verdicts.evaluate(runs)
    docker = found["backend"] == "docker"
    pd.testing.assert_frame_equal(found[docker], without[docker])
    assert found.loc[~docker, "notes"].str.contains("below the noise floor of this host").any()
    remark = report.floor_remark(found, runs)
    assert remark.count("none recorded") == 1
    assert "netns: measured 2024-05-01 under made-up (flowgen at 2 pairs, flowgen at 5 pairs)" in remark
    told = report.values(found, runs)
    assert "none recorded" in told["noise-floor"]
    assert told["total-rises-bridge/netns-flowgen/floor"].endswith(r"\%")
    shown = CliRunner().invoke(main, ["claims", "--runs", str(root)]).output
    assert shown.count("Noise floor of this host") == 1
    assert (
        json.loads(CliRunner().invoke(main, ["claims", "--runs", str(root), "--json"]).output)["noise_floor"] == remark
    )
