"""Paper S' modes of one host over made-up runs: what is planted comes out, and a reason where it is not."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions.modes import by_message, containerization
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from tests.support import claimed, synthetic
from tests.support.executed import Executed, figures, tables

#: By mode: what it carries up and down of 20 Gbit/s, and by how much longer a message takes.
MODES = {
    "process": (1.0, 1.0, 1.0),
    "host": (1.0, 1.0, 1.0),
    "container": (0.98, 1.0, 1.0),
    "bridge": (0.82, 0.7, 10.0),
}
REACHES_NOTHING = "cannot connect to 127.0.0.1:5201: Connection refused"


def write_modes(root, repetitions=5):
    random = np.random.default_rng(9)
    for repetition in range(repetitions):
        drift = random.normal(1, 0.1)  # of the machine: the same for all that is measured in this repetition
        for driver, (up, down, longer) in MODES.items():
            told = {"driver": driver, "repetition": repetition, "experiment": "single-host-modes"}
            for direction, part in (("up", up), ("down", down)):
                store.write(synthetic.run([20 * part * drift], direction=direction, **told), root)
            for size in (64, 1024, 65536):
                rate = 2 * size / 1024 * up * drift
                asked = {"message_bytes": size, "workload": "sockperf"}
                store.write(synthetic.run([rate], **asked, **told), root)
                store.write(synthetic.run([rate / 2], udp_share=1.0, **asked, **told), root)
                sizes = {"request_bytes": size, "response_bytes": size}
                store.write(synthetic.transacting({size * 1e-8 * longer * drift: 100}, **sizes, **told), root)
        made = synthetic.run([0.0], driver="none", repetition=repetition, experiment="single-host-modes")
        flows = table("flows", [{"pair": 0, "flow": 0, "status": "failed", "error": REACHES_NOTHING}])
        store.write(replace(made, flows=flows, facts={**made.facts, "links": {"client-0": ["lo"]}}), root)
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_modes(tmp_path_factory.mktemp("runs") / "modes")


@pytest.fixture(scope="module")
def repetitions(runs):
    return by_message.by_repetition(load_runs(runs, experiment="single-host-modes"))


@pytest.mark.ci
def test_each_mode_is_held_against_no_containers_in_the_same_direction(repetitions):
    found = by_message.against_bare(by_message.throughputs(repetitions), "total_bps", 0.95)
    found = found.set_index(["driver", "what", "size"])
    for driver, (up, down, _) in MODES.items():
        for what, part in (("upload", up), ("download", down)):
            if driver != "process":
                assert found.loc[(driver, what, 0), "value"] == pytest.approx(100 * (part - 1), abs=1e-6)
        if driver != "process":
            assert found.loc[(driver, "UDP", 1024), "value"] == pytest.approx(100 * (up - 1), abs=1e-6)


@pytest.mark.ci
def test_latencies_are_told_by_size(repetitions):
    found = by_message.against_bare(by_message.response_times(repetitions), "latency_mean_s", 0.95)
    of_bridge = found[found["driver"] == "bridge"].set_index("size")["value"]
    assert of_bridge.to_dict() == pytest.approx({64: 900, 1024: 900, 65536: 900}, abs=1)


def test_the_mode_without_a_network_is_a_fact_and_no_number(runs, repetitions):
    assert "none" not in set(repetitions["driver"])
    isolated = by_message.isolation(load_runs(runs, experiment="single-host-modes"))
    assert (isolated["tried"].sum(), isolated["reached"].sum()) == (5, 0)
    assert by_message.in_words(isolated) == (
        f"netns-flowgen, none: 5 connections tried, 0 reached their server; links: lo; {REACHES_NOTHING}"
    )


@pytest.mark.ci
def test_the_notebook_makes_its_figures_tables_and_values(runs, tmp_path):
    done = Executed("21-single-host-modes", runs, tmp_path)
    names = [
        f"single-host-modes-{name}" for name in ("changes", "throughput", "tcp-sizes", "udp-sizes", "latency-sizes")
    ]
    made = figures("modes", *names)
    made |= tables("modes", *(f"single-host-modes-throughput-netns-{tool}" for tool in ("flowgen", "sockperf")))
    made |= tables("modes", "single-host-modes-latency-netns-rr")
    assert done.made == made | {"paper/values/modes/21-single-host-modes.tex"}
    values = done.values("21-single-host-modes")
    key = re.escape("{single-host-modes/netns-flowgen/bridge/download/0/against-process}{\\textminus{}")
    (fall,) = re.findall(rf"{key}([\d.]+)", values)
    assert float(fall) == pytest.approx(30)
    assert "{single-host-modes/isolated/reached}{0}" in values
    assert "no number is missing" in done.told("estimates")


def test_without_its_experiment_the_notebook_says_so_and_draws_nothing(campaign, tmp_path):
    done = Executed("21-single-host-modes", campaign, tmp_path)
    assert done.made == {"paper/values/campaign/21-single-host-modes.tex"}
    assert r"{single-host-modes/missing}{there are no runs of 'single-host-modes'" in done.values(
        "21-single-host-modes"
    )


#: By network, on one host: how many times as long operations take, and what it carries of 20 Gbit/s.
CONTAINED = {"process": (1.0, 1.0), "host": (1.0, 0.99), "bridge": (1.25, 0.6)}


def write_contained(root, repetitions=4):
    random = np.random.default_rng(4)
    for repetition in range(repetitions):
        drift = random.normal(1, 0.1)
        for driver, (longer, carried) in CONTAINED.items():
            told = {"driver": driver, "repetition": repetition}
            store.write(claimed.computing(longer * drift, **told), root)
            for share in (0.0, 1.0):
                asked = {"experiment": "containerization", "udp_share": share, **told}
                store.write(synthetic.run([20 * carried * drift], **asked), root)
    return root


@pytest.fixture(scope="module")
def contained(tmp_path_factory):
    return write_contained(tmp_path_factory.mktemp("runs") / "contained")


def test_slower_is_less_than_nothing_whether_it_is_a_time_or_a_rate(contained):
    repetitions = containerization.by_repetition(load_runs(contained, experiment="containerization"))
    found = containerization.against_bare(repetitions, 0.95).set_index(["driver", "what"])["value"]
    assert found["bridge", "CPU"] == pytest.approx(-20)
    assert found["host", "CPU"] == pytest.approx(0, abs=1e-9)
    assert found["bridge", "TCP"] == found["bridge", "UDP"] == pytest.approx(-40)
    assert found["host", "TCP"] == pytest.approx(-1)


def test_the_notebook_on_containers_makes_its_figure_tables_and_values(contained, tmp_path):
    done = Executed("20-containerization", contained, tmp_path)
    made = figures("contained", "containerization")
    made |= tables("contained", *(f"containerization-netns-{tool}" for tool in ("flowgen", "stress-ng-cpu")))
    assert done.made == made | {"paper/values/contained/20-containerization.tex"}
    assert "no number is missing" in done.told("estimates")
    assert "{containerization/netns-stress-ng-cpu/bridge/one-host/cpu/cpu}" in done.values("20-containerization")


def test_without_containers_measured_the_notebook_says_so(campaign, tmp_path):
    done = Executed("20-containerization", campaign, tmp_path)
    assert done.made == {"paper/values/campaign/20-containerization.tex"}
