"""The plan of a calibration, its order, what it keeps and what it says; with made-up measurements."""

import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from pairlab import cli, paths, store
from pairlab.analysis.comparison import noise_floor
from pairlab.apps import calibration
from pairlab.errors import BadInput, BadSpec, MeasurementFailed, NoRuns, Unavailable
from pairlab.measurement.estimate import OVERHEAD_S
from pairlab.model.records import Run
from pairlab.model.summaries import MEASURES
from pairlab.model.tables import table
from pairlab.statistics import changes, quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.store.dataset import load_runs
from pairlab.testbed import environment
from pairlab.testbed.host import facts
from tests.support.screen import on_a_terminal

PLAIN = {"workload": "flowgen", "pairs": (2,), "duration_s": 1.0}


class Host:
    """Measures nothing: runs whose throughput is that of the link, or 10 Gbit/s, with some noise of their own."""

    def __init__(self, noise=0.01, spoilt=lambda spec: None):
        self.noise, self.spoilt, self.asked = noise, spoilt, []

    def __call__(self, spec, *, root, fresh=False):
        stored = store.find(spec, root, environment.here(spec))
        if stored and stored.status == "ok" and not fresh:
            return stored
        self.asked.append(spec)
        random = np.random.default_rng(int(spec.key, 16))
        level = (spec.pairs * spec.link_rate_bps or 10e9) * np.exp(random.normal(0, self.noise))
        rows = [{"pair": pair, "flow": 0, "status": "ok"} for pair in range(spec.pairs)]
        for row in rows:
            row |= {"throughput_bps": level / spec.pairs}
            if spec.flow_bytes:
                row |= {"fct_s": spec.flow_bytes * 8 / level * (1 + row["pair"] / 10)}
        trouble = self.spoilt(spec)
        if isinstance(trouble, Exception):
            raise trouble
        status, reasons = ("invalid", (trouble,)) if trouble else ("ok", ())
        made = Run(spec, status, reasons, datetime.now(UTC), 0.0, facts={"host": facts.host()})
        return store.write(replace(made, flows=table("flows", rows)), root)


@pytest.fixture
def able(monkeypatch):
    """A host that can do everything."""
    monkeypatch.setattr(calibration, "check", lambda spec: None)


def test_a_median_is_of_all_flows_of_a_calibration_as_where_runs_are_compared(able, tmp_path):
    plan = calibration.plan(**PLAIN | {"pairs": (5,)}, repetitions=4, flow_bytes=1_000_000, costs_percent=())
    made = calibration.run(plan, root=tmp_path, execute=Host(noise=0.3))
    median, mean, p99 = (
        next(cell for cell in made.cells if cell.measure == f"fct_{name}_s") for name in ("median", "mean", "p99")
    )
    runs = load_runs(tmp_path / ".calibration").where(flow_bytes=1_000_000)
    sides = [
        Clusters.of(flows["fct_s"], flows["repetition"] // 2)
        for _, flows in runs.flows.groupby(runs.flows["repetition"] % 2)
    ]
    expected = quantiles.percent_change(*sides, 0.5)
    assert median.change[:3] == pytest.approx(expected.estimate()[:3])
    assert median.spread_within == pytest.approx(expected.spread / np.sqrt(2))
    assert mean.change.change_percent == pytest.approx(changes.change(mean.first, mean.second).change_percent)
    assert (mean.pooled, p99.pooled) == (None, None)  # 20 flows have no p99


def test_every_repetition_visits_each_cell_twice_and_each_link_once_in_an_order_of_its_own(able):
    plan = calibration.plan(**PLAIN | {"pairs": (1, 2)}, repetitions=8, flow_bytes=1_000_000)
    assert [(cell.pairs, cell.flow_bytes) for cell in plan.cells] == [(1, 0), (2, 0), (1, 1_000_000), (2, 1_000_000)]
    order = list(calibration.visits(plan))
    assert len(set(order)) == len(order) == 8 * 8 + calibration.PLANTED_REPETITIONS * 4
    repetitions = [spec.repetition // (1 if spec.link_rate_bps else 2) for spec in order]
    assert repetitions == sorted(repetitions)
    for cell in plan.cells:
        asked = [spec.repetition for spec in order if spec.replace(repetition=0) == cell]
        assert sorted(asked) == list(range(16))
        firsts = [repetition % 2 for repetition in asked[::2]]
        assert {0, 1} == set(firsts)  # now the one comes first, now the other
    links = {spec.link_rate_bps for spec in order if spec.link_rate_bps}
    assert links == {250e6, 237.5e6, 225e6, 200e6}
    assert order == list(calibration.visits(plan))
    assert order != list(calibration.visits(plan, seed=1))


def test_what_is_measured_is_recorded_apart_from_all_other_runs(able, tmp_path):
    plan = calibration.plan(**PLAIN, repetitions=4, flow_bytes=1_000_000)
    found = calibration.run(plan, root=tmp_path, execute=Host())
    assert noise_floor.find(tmp_path, facts.host()["fingerprint"], "netns") == found
    assert [cell.measure for cell in found.cells] == [name for name, each in MEASURES.items() if each.of in ("", "fct")]
    assert {len(cell.first) for cell in found.cells} == {4}
    assert found.cells[0].first[0] == pytest.approx(10e9, rel=0.1)
    assert found.cells[1].first[0] == pytest.approx(1.05 * 0.8e-3, rel=0.1)  # the median of two
    assert [cell.cost_percent for cell in found.planted] == [5, 10, 20]
    assert found.planted[2].change.change_percent == pytest.approx(-20, abs=3)
    with pytest.raises(NoRuns):
        load_runs(tmp_path)
    assert list(store.leftovers(tmp_path)) == []
    assert len(load_runs(tmp_path / noise_floor.FOLDER)) == len(list(calibration.visits(plan)))


@pytest.mark.whole
def test_what_is_measured_under_special_parameters_stands_beside_the_plain_and_replaces_none_of_it(able, tmp_path):
    quiet = calibration.run(calibration.plan(**PLAIN, repetitions=4), root=tmp_path, execute=Host(0.001))
    plan = calibration.plan(**PLAIN, repetitions=4, more={"cpu_quota": 0.1, "link_rate_bps": 1e8})
    noisy = calibration.run(plan, root=tmp_path, execute=Host(0.1))
    found = noise_floor.find(tmp_path, quiet.host, "netns")
    assert found.cells == quiet.cells + noisy.cells
    assert found.planted == quiet.planted + noisy.planted
    assert noisy.cells[0].special == {"link_rate_bps": 1e8, "cpu_quota": 0.1}
    assert {each.link_rate_bps for each in found.planted} == {250e6}
    assert [each.parameters for each in found.planted] == 3 * [{}] + 3 * [{"cpu_quota": 0.1}]
    lenient = calibration.plan(**PLAIN, repetitions=4, more={"max_foreign_cpu": 1.0})
    again = calibration.run(lenient, root=tmp_path, execute=Host(0.001))  # what only judges makes nothing special
    assert again.cells[0] not in quiet.cells
    assert noise_floor.find(tmp_path, quiet.host, "netns").cells == noisy.cells + again.cells


@pytest.mark.whole
def test_an_interrupted_calibration_goes_on_where_it_was_and_fresh_begins_anew(able, tmp_path):
    plan = calibration.plan(**PLAIN, repetitions=3)
    order = list(calibration.visits(plan))

    def interrupted(spec):
        if spec == order[4]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibration.run(plan, root=tmp_path, execute=Host(spoilt=interrupted))
    host = Host()
    first = calibration.run(plan, root=tmp_path, execute=host)
    assert host.asked == order[4:]
    assert calibration.run(plan, root=tmp_path, execute=host) == first
    assert host.asked == order[4:]
    calibration.run(plan, root=tmp_path, execute=host, fresh=True)
    assert host.asked == order[4:] + order


def test_runs_of_another_host_are_measured_again(able, tmp_path, monkeypatch):
    plan = calibration.plan(**PLAIN, repetitions=3, costs_percent=())
    calibration.run(plan, root=tmp_path, execute=Host())
    monkeypatch.setattr(facts, "host", lambda: {"fingerprint": "another machine"})
    host = Host()
    assert calibration.run(plan, root=tmp_path, execute=host).host == "another machine"
    assert len(host.asked) == 6
    assert len(list((tmp_path / noise_floor.FOLDER).glob("*.json"))) == 2


def test_the_time_left_is_that_of_what_is_not_measured_yet(able, tmp_path):
    plan = calibration.plan(**PLAIN, repetitions=3, costs_percent=())
    left_s = []
    calibration.run(plan, root=tmp_path, execute=Host(), tell=lambda *each: left_s.append(each[4]))
    assert len(left_s) == 6
    assert 0 == left_s[-1] < left_s[0] < 5 * (1 + OVERHEAD_S)  # five of 1 s of traffic, which cost nothing here
    larger = calibration.plan(**PLAIN, repetitions=4, costs_percent=())
    left_s.clear()
    calibration.run(larger, root=tmp_path, execute=Host(), tell=lambda *each: left_s.append(each[4]))
    assert left_s[:6] == 6 * [2 * (1 + OVERHEAD_S)]  # as nothing has been measured that could tell more


@pytest.mark.parametrize("trouble", ["other load on the host", MeasurementFailed("the network went away")])
def test_a_visit_that_does_not_count_is_made_again_and_then_its_repetition_is_left_out(able, tmp_path, trouble):
    plan = calibration.plan(**PLAIN, repetitions=5, costs_percent=())
    host = Host(spoilt=lambda spec: trouble if spec.repetition == 3 else None)
    told = []
    found = calibration.run(plan, root=tmp_path, execute=host, tell=lambda *each: told.append(each[3]))
    assert len(found.cells[0].first) == 4
    assert sum(spec.repetition == 3 for spec in host.asked) == calibration.ATTEMPTS
    assert [text for text in told if str(trouble) in text]


def test_with_too_few_repetitions_nothing_is_recorded_and_the_reason_is_told(able, tmp_path):
    plan = calibration.plan(**PLAIN, repetitions=5, costs_percent=())
    host = Host(spoilt=lambda spec: "other load on the host" if spec.repetition < 6 else None)
    with pytest.raises(
        MeasurementFailed, match=r"2 complete repetitions, .* 3 are needed: invalid: other load on the host\. "
    ):
        calibration.run(plan, root=tmp_path, execute=host)
    assert not list((tmp_path / noise_floor.FOLDER).glob("*.json"))


def test_completion_times_that_failed_flows_hide_are_no_noise_and_that_is_told(able, tmp_path):
    class Losing(Host):
        def __call__(self, spec, **how):
            made = super().__call__(spec, **how)
            if not spec.flow_bytes:
                return made
            return replace(made, flows=made.flows.assign(status=["ok", "failed"], fct_s=[0.1, np.nan]))

    plan = calibration.plan(**PLAIN, repetitions=3, costs_percent=(), flow_bytes=1_000_000)
    with pytest.raises(MeasurementFailed, match=r"0 complete repetitions, and at least 3 are needed: 6 flows failed\."):
        calibration.run(plan, root=tmp_path, execute=Losing())


def test_what_a_tool_does_not_tell_of_its_transactions_is_left_out(able, tmp_path):
    """As netperf, which has no median latency: the rest is calibrated all the same."""

    class Counting(Host):
        def __call__(self, spec, **how):
            made = super().__call__(spec, **how)
            return replace(made, flows=made.flows.assign(transactions=1000.0, transactions_lost=0.0, duration_s=1.0))

    plan = calibration.plan(**PLAIN, repetitions=3, costs_percent=())
    floor = calibration.run(plan, root=tmp_path, execute=Counting())
    assert {cell.measure for cell in floor.cells} == {"total_bps", "transactions_per_s"}


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ({"repetitions": 2}, BadInput, "at least 3 are needed to estimate the noise, not 2"),
        ({"pairs": ()}, BadInput, "one number or several different ones"),
        ({"pairs": (2, 2)}, BadInput, "one number or several different ones"),
        ({"costs_percent": (100,)}, BadInput, "between 0 and 100 %, not 100"),
        ({"pairs": (0,)}, BadSpec, "pairs: input should be greater than or equal to 1"),
        ({"more": {"repetition": 1}}, BadInput, "repetition: has an option of its own, or is set by the calibration"),
        ({"more": {"link_rate": 1}}, BadSpec, "no parameter 'link_rate'; did you mean 'link_rate_bps'"),
        ({"backend": "podman"}, BadSpec, "no backend 'podman'"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_before_anything_is_measured(asked, error, told):
    with pytest.raises(error, match=told):
        calibration.plan(**PLAIN | asked)


def test_where_links_cannot_be_shaped_the_noise_is_measured_all_the_same_and_it_is_told(monkeypatch, runs_dir, capsys):
    def check(spec):
        if spec.link_rate_bps:
            raise Unavailable("this kernel has no token bucket filter")

    monkeypatch.setattr(calibration, "check", check)
    monkeypatch.setattr(calibration.run, "__kwdefaults__", calibration.run.__kwdefaults__ | {"execute": Host()})
    status, out, _ = pairlab(capsys, "calibrate", "--workload", "flowgen", "--repetitions", "3")
    assert status == 0
    assert "no differences were planted: this kernel has no token bucket filter" in out
    assert "Planted differences" not in out


def pairlab(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words), prog_name="pairlab")
    return ended.value.code or 0, *capsys.readouterr()


@pytest.mark.whole
def test_the_command_shows_the_floor_says_where_it_is_kept_and_gives_json_to_programs(
    able, monkeypatch, runs_dir, capsys
):
    monkeypatch.setattr(calibration.run, "__kwdefaults__", calibration.run.__kwdefaults__ | {"execute": Host(0.003)})
    words = ["calibrate", "--workload", "flowgen", "--pairs", "1", "--pairs", "5", "--repetitions", "6"]
    status, out, _ = pairlab(capsys, *words)
    assert status == 0
    assert "flowgen over bridge, 5 pairs, 2 s" in out
    assert "3 of 3 found" in out
    place = noise_floor.file_of(paths.runs(), facts.host()["fingerprint"], "netns")
    assert f"recorded in {paths.shown(place)}" in out
    status, out, _ = pairlab(capsys, *words, "--json")
    assert status == 0
    assert json.loads(out)["schema"] == noise_floor.SCHEMA
    assert [cell["pairs"] for cell in json.loads(out)["cells"]] == [1, 5]


#: The command line with made-up measurements, each with a phase that is seen for a while.
SLOW = """
import sys, time
from pairlab import cli
from pairlab.apps import calibration
from tests.unit.apps.test_calibration import Host
host = Host(0.003)
def measure(spec, *, progress, **how):
    progress("measuring (s)", 0.5, 1.0)
    time.sleep(0.3)
    return host(spec, **how)
calibration.measure, calibration.check = measure, lambda spec: None
cli.main(sys.argv[1:], prog_name="pairlab")
"""


@pytest.mark.whole
def test_on_a_terminal_bars_show_what_is_left_and_what_is_at_work(runs_dir):
    words = ["calibrate", "--workload", "flowgen", "--duration", "1", "--repetitions", "3", "--no-plant"]
    shown = on_a_terminal([sys.executable, "-c", SLOW, *words])
    assert shown.status == 0
    assert any(re.search(r"━ \d+ s left +[1-5] of 6 measurements", line) for line in shown.drawn)
    assert any("measuring 0.5/1 s" in line for line in shown.drawn)
    assert [line[:7] for line in shown.left[:6]] == [f"   {number}/6 " for number in range(1, 7)]
    assert "━" not in "".join(shown.left)


def test_the_command_fails_where_what_was_planted_is_not_found(able, monkeypatch, runs_dir, capsys):
    monkeypatch.setattr(calibration.run, "__kwdefaults__", calibration.run.__kwdefaults__ | {"execute": Host(0.5)})
    status, out, _ = pairlab(capsys, "calibrate", "--workload", "flowgen", "--repetitions", "6", "--plant", "5")
    assert (status, "0 of 1 found" in out) == (1, True)


def test_bad_input_is_one_line(runs_dir, capsys):
    status, out, err = pairlab(capsys, "calibrate", "--repetitions", "1")
    assert (status, out) == (2, "")
    assert err == "pairlab: repetitions: at least 3 are needed to estimate the noise, not 1\n"
    assert not runs_dir.exists()
