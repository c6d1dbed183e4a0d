"""The record of a host's noise: kept whole, found by host and backend, and what it says of an effect."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy import stats

from pairlab import store
from pairlab.analysis.claims.effect import Contrast
from pairlab.analysis.comparison import noise_floor
from pairlab.errors import SchemaMismatch, StoreError
from pairlab.model.spec import Spec
from pairlab.model.summaries import MEASURES
from pairlab.statistics import power
from pairlab.store.dataset import load_runs
from tests.support.synthetic import FACTS, run

HOST = FACTS["host"]["fingerprint"]
WHEN = datetime(2024, 5, 1, 12, tzinfo=UTC)


def values(spread, *, seed=0, change=0.0, repetitions=20):
    first, second = np.exp(np.random.default_rng(seed).normal(23, spread, (2, repetitions)))
    return {"first": tuple(first), "second": tuple(second * (1 + change))}


def cell(spread=0.02, *, kind=noise_floor.Cell, seed=0, change=0.0, **told):
    told = {"driver": "bridge", "workload": "flowgen", "pairs": 5, "duration_s": 1.0, "measure": "total_bps"} | told
    return kind(**told, **values(spread, seed=seed, change=change))


def calibration(*cells, host=HOST, backend="netns", planted=(), when=WHEN):
    return noise_floor.Calibration(
        schema=1,
        host=host,
        backend=backend,
        pairlab="0.1.0",
        measured_from=when,
        measured_to=when,
        cells=cells or (cell(),),
        planted=tuple(planted),
    )


def test_a_record_is_read_as_it_was_written_and_tells_its_readers_what_was_found(tmp_path):
    planted = cell(0.003, kind=noise_floor.Planted, cost_percent=10.0, change=-0.1, link_rate_bps=1e8)
    written = calibration(cell(), planted=[planted])
    place = noise_floor.write(written, tmp_path)
    assert place == noise_floor.file_of(tmp_path, HOST, "netns")
    assert noise_floor.find(tmp_path, HOST, "netns") == written
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    told = json.loads(place.read_text())
    found = told["cells"][0]["found"]
    assert found["variation"] == pytest.approx(power.variation(written.cells[0].values), rel=1e-3)
    assert found["smallest_detectable_percent"]["5"] == pytest.approx(power.percent(cell().detectable(5)), rel=1e-3)
    assert found["a_against_a"]["difference"] is cell().change.differs()
    assert told["planted"][0]["found"]["in_interval"] is planted.in_interval is True


def test_a_calibration_under_special_parameters_leaves_the_plain_one_and_its_floor_as_they_were(tmp_path):
    link = {"kind": noise_floor.Planted, "cost_percent": 10.0, "change": -0.1, "link_rate_bps": 250e6}
    plain = calibration(cell(0.01), planted=[cell(0.003, **link)])
    quota = {"parameters": {"cpu_quota": 0.1}}
    noise_floor.write(plain, tmp_path)
    noise_floor.write(calibration(cell(0.2, **quota), planted=[cell(0.004, **link, **quota)]), tmp_path)
    found = noise_floor.find(tmp_path, HOST, "netns")
    assert [each.parameters for each in found.cells] == [each.parameters for each in found.planted] == [
        {}, {"cpu_quota": 0.1},
    ]  # fmt: skip
    ratio = Contrast("total_bps", float(np.sqrt(2)), (5,))
    assert found.floor(ratio, "flowgen", 5) == plain.floor(ratio, "flowgen", 5)
    under = found.floor(ratio, "flowgen", 5, {"cpu_quota": 0.1})
    assert under.spread == pytest.approx(np.sqrt(2) * cell(0.2).spread_within)
    assert found.floor(ratio, "flowgen", 5, {"cpu_quota": 0.2}) is None
    assert found.floor(ratio, "flowgen", 5, {"cpu_quota": 0.1, "cores": 1}) is None
    noise_floor.write(calibration(cell(0.1, **quota)), tmp_path)
    assert [each.parameters for each in noise_floor.find(tmp_path, HOST, "netns").cells] == [{}, {"cpu_quota": 0.1}]


def test_a_record_from_before_special_parameters_is_one_of_plain_runs(tmp_path):
    written = calibration(cell(), planted=[cell(0.003, kind=noise_floor.Planted, cost_percent=10.0, link_rate_bps=1e8)])
    place = noise_floor.write(written, tmp_path)
    told = json.loads(place.read_text())
    for each in (*told["cells"], *told["planted"]):
        del each["parameters"]
    place.write_text(json.dumps(told))
    assert noise_floor.find(tmp_path, HOST, "netns") == written
    assert written.floor(Contrast("total_bps", 1.0, (5,)), "flowgen", 5).spread == cell().spread_within


@pytest.mark.parametrize(
    ("asked", "special"),
    [
        ({}, {}),
        ({"driver": "ovs", "pairs": 9, "repetition": 3, "seed": 2, "max_skew_s": 1.0, "max_foreign_cpu": 1.0}, {}),
        ({"duration_s": 0.3, "interval_s": 0.3}, {}),
        ({"interval_s": 0.1}, {"interval_s": 0.1}),
        ({"cpu_quota": 1, "telemetry": False, "link_rate_bps": 1e8},
         {"cpu_quota": 1.0, "telemetry": False, "link_rate_bps": 1e8}),
    ],
)  # fmt: skip
def test_special_is_what_is_measured_in_another_way_than_by_default(asked, special):
    assert noise_floor.special(Spec(**asked)) == special


def test_hosts_and_backends_have_a_record_each(tmp_path):
    noise_floor.write(calibration(), tmp_path)
    noise_floor.write(calibration(backend="docker"), tmp_path)
    assert noise_floor.find(tmp_path, HOST, "docker").backend == "docker"
    assert noise_floor.find(tmp_path, "another machine", "netns") is None


def test_what_is_calibrated_again_takes_the_place_of_what_was_and_all_else_stays(tmp_path):
    noise_floor.write(calibration(cell(pairs=1), cell(0.5, pairs=5)), tmp_path)
    noise_floor.write(calibration(cell(0.01, pairs=5), when=WHEN.replace(hour=14)), tmp_path)
    found = noise_floor.find(tmp_path, HOST, "netns")
    assert [each.pairs for each in found.cells] == [1, 5]
    assert found.cells[1] == cell(0.01, pairs=5)
    assert (found.measured_from.hour, found.measured_to.hour) == (12, 14)


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"schema": 2}, SchemaMismatch, "newer pairlab, with schema 2, and this one knows up to 1: update pairlab"),
        ({"cells": [{}]}, StoreError, r"is no calibration \(cells.0.driver: Field required\): move it away"),
        ({"host": "renamed"}, StoreError, "is of renamed, netns: it was renamed"),
    ],
)
def test_a_record_that_is_newer_damaged_or_anothers_is_refused_by_name(tmp_path, change, error, told):
    place = noise_floor.write(calibration(), tmp_path)
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with pytest.raises(error, match=told):
        noise_floor.find(tmp_path, HOST, "netns")


@pytest.mark.parametrize("content", ["", "[1]", "{}", "\0", '{"schema": "one"}'])
def test_what_is_no_record_is_refused_with_the_command_that_makes_one(tmp_path, content):
    place = noise_floor.write(calibration(), tmp_path)
    place.write_text(content)
    with pytest.raises(StoreError, match=r"is no calibration .* pairlab calibrate --backend netns"):
        noise_floor.find(tmp_path, HOST, "netns")


def test_a_later_pairlabs_additions_are_read_over(tmp_path):
    place = noise_floor.write(calibration(), tmp_path)
    told = json.loads(place.read_text())
    told["cells"][0]["added"] = told["added"] = 1
    place.write_text(json.dumps(told))
    assert noise_floor.find(tmp_path, HOST, "netns") == calibration()


def test_loaded_runs_find_the_records_of_their_own_host_beside_them(tmp_path):
    for backend in ("netns", "docker"):
        store.write(run([1, 1], backend=backend), tmp_path)
    noise_floor.write(calibration(), tmp_path)
    noise_floor.write(calibration(host="another machine", backend="docker"), tmp_path)
    loaded = load_runs(tmp_path)
    assert len(loaded) == 2
    found = noise_floor.of_runs(loaded)
    assert list(found) == ["netns"]
    assert noise_floor.of_runs(loaded.where(lambda each: each.spec.backend == "netns")) == found
    told = noise_floor.remark(found, ["docker", "netns"])
    assert "docker: none recorded" in told
    assert f"netns: measured 2024-05-01 under {HOST} (flowgen at 5 pairs)" in told


def test_a_record_under_another_kernel_says_nothing_of_runs(tmp_path):
    made = run([1, 1])
    facts = made.facts | {"host": {"fingerprint": "A CPU, 2 CPUs, Linux 6.1"}}
    store.write(replace(made, facts=facts), tmp_path)
    loaded = load_runs(tmp_path)
    noise_floor.write(calibration(host="Another CPU, 2 CPUs, Linux 6.1"), tmp_path)
    assert noise_floor.of_runs(loaded) == {}
    noise_floor.write(calibration(host="A CPU, 2 CPUs, Linux 6.18"), tmp_path)
    assert noise_floor.of_runs(loaded) == {}
    noise_floor.write(calibration(host="A CPU, 2 CPUs, Linux 6.1"), tmp_path)
    assert noise_floor.of_runs(loaded)["netns"].host == "A CPU, 2 CPUs, Linux 6.1"


def test_runs_under_several_kernels_have_the_record_of_the_newest_and_those_of_other_cpus_none(tmp_path):
    def put(pairs, host, at):
        made = run([1, 1], experiment="placement" if pairs > 1 else "throughput")
        store.write(replace(made, facts=made.facts | {"host": {"fingerprint": host}}, measured_at=at), tmp_path)

    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    put(1, "A CPU, 2 CPUs, Linux 6.1", noon)
    put(2, "A CPU, 2 CPUs, Linux 6.18", noon + timedelta(hours=1))
    for kernel in ("6.1", "6.18"):
        noise_floor.write(calibration(host=f"A CPU, 2 CPUs, Linux {kernel}"), tmp_path)
    assert len(loaded := load_runs(tmp_path)) == 2
    assert noise_floor.of_runs(loaded)["netns"].host == "A CPU, 2 CPUs, Linux 6.18"
    put(1, "Another CPU, 8 CPUs, Linux 6.1", noon + timedelta(hours=2))
    assert noise_floor.of_runs(load_runs(tmp_path)) == {}


def test_claims_of_plain_runs_are_told_of_plain_noise_only():
    special = cell(pairs=7, parameters={"cpu_quota": 0.1})
    assert "none recorded" in noise_floor.remark({"netns": calibration(special)}, ["netns"])
    assert "(flowgen at 5 pairs)" in noise_floor.remark({"netns": calibration(special, cell())}, ["netns"])


def test_runs_whose_parameters_no_calibration_shares_are_told_of_it_with_the_command_that_does():
    asked = {"cpu_quota": 0.1, "telemetry": False}
    specs = [Spec(driver=driver, **asked) for driver in ("bridge", "ovs")]
    (told,) = noise_floor.not_covered({"netns": calibration()}, specs, "total_bps")
    assert "`pairlab calibrate --backend netns -p telemetry False -p cpu_quota 0.1`" in told
    covered = calibration(cell(parameters=asked))
    assert noise_floor.not_covered({"netns": covered}, specs, "total_bps") == []
    (told,) = noise_floor.not_covered({"netns": covered}, [Spec(flow_bytes=5, **asked)], "fct_max_s")
    assert "--flow-bytes 5 -p telemetry" in told
    assert noise_floor.not_covered({"netns": calibration()}, [Spec()], "total_bps") == []
    assert noise_floor.not_covered({}, specs, "total_bps") == []


def test_the_noise_of_an_effect_is_that_of_its_pairs_and_of_its_workload():
    many = calibration(
        cell(0.01, pairs=1), cell(0.04, pairs=50), cell(0.2, pairs=50, workload="iperf"), cell(0.1, measure="fct_max_s")
    )
    ratio = Contrast("total_bps", np.sqrt(2), (50, 50))
    assert many.spread(ratio, "flowgen") == pytest.approx(np.sqrt(2) * cell(0.04).spread_within)
    assert many.spread(ratio, "iperf") == pytest.approx(np.sqrt(2) * cell(0.2).spread_within)
    assert many.spread(ratio, "netcat") is None
    assert many.spread(Contrast("total_bps", np.sqrt(2), (50, 60)), "flowgen") is None
    apart = many.spread(Contrast("total_bps", 1.0, (1, 50)), "flowgen")
    assert apart == pytest.approx(np.hypot(cell(0.01).spread_within, cell(0.04).spread_within) / np.sqrt(2))
    assert many.spread(Contrast("fct_median_s", 1.0, (5,)), "flowgen") is None


def test_the_noise_of_shaped_links_is_not_that_of_the_host():
    assert calibration(cell(link_rate_bps=1e8)).spread(Contrast("total_bps", 1.0, (5,)), "flowgen") is None
    shaped = calibration(cell(link_rate_bps=1e8, parameters={"link_loss": 0.01}))
    asked = noise_floor.special(Spec(link_rate_bps=1e8, link_loss=0.01))
    assert shaped.spread(Contrast("total_bps", 1.0, (5,)), "flowgen", asked) == cell().spread_within


def test_the_floor_falls_with_repetitions_and_so_many_as_it_says_reach_an_effect():
    ratio = Contrast("total_bps", float(np.sqrt(2)), (5,))
    at = {n: calibration().floor(ratio, "flowgen", n) for n in (2, 3, 5, 20)}
    assert at[2].percent > at[3].percent > at[5].percent > at[20].percent > 0
    needed = at[3].repetitions_needed(at[5].effect)
    assert needed == 5
    assert calibration().floor(ratio, "flowgen", 1) is None


def test_a_calibration_is_trusted_if_equals_are_equal_and_what_was_planted_is_found():
    planted = {"kind": noise_floor.Planted, "cost_percent": 10.0, "link_rate_bps": 1e8}
    assert calibration(planted=[cell(0.003, change=-0.1, **planted)]).trustworthy
    assert not calibration(planted=[cell(0.003, change=0.1, **planted)]).trustworthy
    assert not calibration(planted=[cell(0.5, change=-0.1, **planted)]).trustworthy
    unequal = [cell(0.003, change=0.1, pairs=pairs) for pairs in (1, 2, 3)]
    assert not calibration(*unequal).trustworthy


@pytest.mark.whole
@pytest.mark.parametrize(("pairs", "tries"), [((1,), 300), ((1, 10, 50), 200)])
def test_a_sound_host_is_called_untrustworthy_no_more_often_than_the_stated_level(pairs, tries):
    """Whose flows' completion times are told by four measures, which of one flow are all the same."""
    random, names = np.random.default_rng(2), [name for name in MEASURES if name.startswith("fct")]
    refused = 0
    for _ in range(tries):
        cells = []
        for count in pairs:
            cells.append(cell(0.02, seed=random.integers(2**32), pairs=count))
            seed = random.integers(2**32)
            cells += [cell(0.02, seed=seed, pairs=count, flow_bytes=5_000_000, measure=name) for name in names]
        refused += not calibration(*cells).trustworthy
    assert refused <= stats.binom.ppf(0.999, tries, 0.001)


def test_of_a_set_of_runs_one_measure_counts():
    apart = [cell(0.003, change=0.1, measure=name) for name in MEASURES]
    assert calibration(*apart).differences == 2
    assert "reported in 2 of 2 comparisons, one of each set of runs" in noise_floor.summary(calibration(*apart))


def test_the_tables_say_what_varies_what_can_be_found_and_what_was_planted():
    planted = [cell(0.003, kind=noise_floor.Planted, cost_percent=10.0, change=-0.1, link_rate_bps=1e8)]
    noise_table, detectable, found = noise_floor.tables(calibration(planted=planted)).values()
    assert noise_table.loc[0, "cell"] == "flowgen over bridge, 5 pairs, 1 s"
    special = noise_floor.tables(calibration(cell(parameters={"cpu_quota": 0.1})))
    assert next(iter(special.values())).loc[0, "cell"] == "flowgen over bridge, 5 pairs, 1 s, cpu quota 0.1"
    assert noise_table.loc[0, "variation"] == f"{100 * power.variation(cell().values):.2f} %"
    assert detectable.loc[0, "n = 5"].startswith(f"{power.percent(cell().detectable(5)):.1f} % (")
    assert found.loc[0, ["planted", "within"]].to_list() == ["-10 %", "yes"]
    told = noise_floor.summary(calibration(planted=planted))
    assert "reported in 0 of 1 comparisons" in told
    assert "1 of 1 found, 1 with the true size in the interval" in told
