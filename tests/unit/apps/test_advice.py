"""The networks that an answer is about, and the sweep that fills its empty cells."""

from dataclasses import replace

import pytest

from pairlab import store
from pairlab.analysis.advice.question import Question
from pairlab.apps import advice
from pairlab.batch import experiments, sweep_file
from pairlab.testbed import registry
from pairlab.testbed.contracts import ISOLATIONS
from tests.support import synthetic


def test_every_driver_says_how_far_it_isolates_and_means_what_it_does():
    for name in registry.drivers.names():
        driver = registry.drivers.get(name)
        assert driver.isolation in ISOLATIONS, name
        assert (driver.isolation == "none") == (not driver.isolated), name
        assert (driver.isolation == "pair") == driver.pair_shares_namespace, name
        assert driver.spans_hosts or driver.isolation not in ("routed", "published", "encrypted"), name


def test_the_networks_of_a_backend_are_those_that_carry_traffic_there_with_what_they_need():
    netns, docker = ({each.name: each for each in advice.networks(name)} for name in ("netns", "docker"))
    assert "none" not in netns
    assert "overlay-encrypted" not in netns
    assert docker["overlay-encrypted"].needs == "Docker (swarm), root"
    assert (netns["bridge"].needs, docker["bridge"].needs, docker["nat"].needs) == ("–", "Docker", "Docker, root")
    assert netns["nat"].needs == "nftables"
    assert (netns["host"].separates, netns["container"].separates, netns["bridge"].separates) == (False, False, True)


@pytest.fixture
def runs(tmp_path):
    for repetition in range(6):
        made = synthetic.transacting(
            {10e-6: 98, 90e-6: 2}, experiment="latency", driver="macvlan", repetition=repetition, seed=9, warmup_s=1.0
        )
        store.write(made, tmp_path / "runs")
    return tmp_path / "runs"


def test_the_sweep_fills_exactly_the_empty_cells_as_the_others_were_measured(runs, tmp_path):
    question = Question(pairs=1)
    found = advice.advise(question, runs)
    file = tmp_path / "fill.yaml"
    assert advice.write_sweep(found, file)
    assert "# not measured: p2p by launch-time: launches: driver 'p2p' connects" in file.read_text()
    sweep = sweep_file.load(file)
    cells = sweep_file.rules(sweep)
    measured = {(spec.experiment, spec.driver) for spec in cells}
    open_to = [row.network.name for row in found.rows if not row.ruled_out]
    assert {name for experiment, name in measured if experiment == "networks"} == set(open_to)
    latency = {spec.driver: spec for spec in cells if spec.experiment == "latency"}
    assert {spec.seed for name, spec in latency.items() if spec.pairs == 1} == {9}
    assert {spec.warmup_s for spec in latency.values()} == {1.0}
    assert {spec.duration_s for spec in latency.values()} == {1.0}
    assert max(cells.values()) == 6
    assert not {experiment for experiment, _ in measured} - set(experiments.notebooks())


def test_the_launches_that_are_missing_are_measured_as_the_others_were():
    asked = {"pairs": 1, "hosts": 2, "placement": "across", "launches": 5, "workload": "flowgen"}
    missing = advice.Missing("launch", "launch-time", "netns", ("overlay",), asked, 5)
    assert advice._experiment(missing) == ("launch-time", "")
    loaded = replace(missing, parameters=asked | {"background_pairs": 4})
    assert advice._experiment(loaded) == ("", "experiment 'launch-time' has no background_pairs")
    assert advice._experiment(replace(loaded, of="bulk", parameters={"background_pairs": 4}))[0] == "congestion"


def test_without_runs_all_is_told_but_numbers_and_all_can_be_measured(tmp_path):
    found = advice.advise(Question(pairs=20, hosts=2), tmp_path)
    assert {row.network.backend for row in found.rows} == {"netns"}
    text = advice.sweep_text(found)
    (tmp_path / "all.yaml").write_text(text)
    specs = sweep_file.rules(sweep_file.load(tmp_path / "all.yaml"))
    assert {(spec.pairs, spec.hosts, spec.placement) for spec in specs if spec.experiment == "latency"} == {
        (20, 2, "across")
    }
    both = advice.advise(Question(), tmp_path, backend="docker")
    assert {row.network.backend for row in both.rows} == {"docker"}
