import re
from dataclasses import replace

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions import networks
from pairlab.store.dataset import load_runs
from tests.support import synthetic
from tests.support.executed import Executed, figures, tables

#: What each network carries of its place's limit, in two places: within a host and across two.
PARTS = {1: {"p2p": 1.0, "bridge": 0.9, "overlay": 0.7}, 2: {"process": 1.0, "overlay": 0.6, "nat": 1.0}}
NAMESPACES = [{"name": f"host-{number}", "kind": "namespace", "on": "machine"} for number in (0, 1)]


def write_networks(root, parts=PARTS, repetitions=5):
    random = np.random.default_rng(3)
    for repetition in range(repetitions):
        for hosts, of_limit in parts.items():
            place = {"hosts": hosts, "placement": "across" if hosts > 1 else "same-host"}
            drift = random.normal(1, 0.1)  # of the machine: the same for all that is measured in this repetition
            for driver, part in of_limit.items():
                for pairs in (1, 4):
                    rates = [20 * part * drift * random.normal(1, 0.01) / pairs] * pairs
                    asked = {"driver": driver, "repetition": repetition, "experiment": "networks", **place}
                    made = synthetic.run(rates, **asked)
                    kinds = {"hosts": NAMESPACES} if hosts > 1 else {}
                    store.write(replace(made, facts={**made.facts, **kinds}), root)
                store.write(transactions(driver, part, drift, repetition, place), root)
    return root


def transactions(driver, part, drift, repetition, place):
    """Of a hundred, two took ten times as long as the median: 10 µs over the limit, and more where less is carried."""
    usual_s = 10e-6 * drift / part
    asked = {"driver": driver, "repetition": repetition, "experiment": "latency", **place}
    return synthetic.transacting({usual_s: 98, 10 * usual_s: 2}, **asked)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_networks(tmp_path_factory.mktemp("runs") / "nets")


@pytest.fixture(scope="module")
def changes(runs):
    found = networks.changes(networks.repetitions(load_runs(runs, experiment="networks").flows), 0.95)
    return found.set_index(["driver", "hosts", "pairs"])


@pytest.mark.parametrize(
    ("driver", "hosts", "percent"), [("bridge", 1, -10), ("overlay", 1, -30), ("overlay", 2, -40), ("nat", 2, 0)]
)
def test_what_a_network_takes_is_found_against_the_limit_of_its_own_place(changes, driver, hosts, percent):
    for pairs in (1, 4):
        found = changes.loc[driver, hosts, pairs]
        assert found["value"] == pytest.approx(percent, abs=2)
        assert found["low"] <= percent <= found["high"]
        assert found["high"] - found["low"] < 5  # the drift of the machine has cancelled


def test_latencies_are_those_of_each_place_and_wander_with_the_machine(runs):
    repetitions = networks.latency_repetitions(load_runs(runs, experiment="latency"))
    cells = {
        name: each.set_index(["driver", "hosts"]) for name, each in networks.latency_cells(repetitions, 0.95).items()
    }
    for (driver, hosts), median in cells["latency_p50_s"].iterrows():
        assert median["low"] <= 10e-6 / PARTS[hosts][driver] <= median["high"]
        assert cells["latency_p99_s"].loc[(driver, hosts), "value"] == pytest.approx(10 * median["value"])
    assert set(cells["latency_p50_s"].index) == {(driver, hosts) for hosts in PARTS for driver in PARTS[hosts]}
    fastest = networks.fastest_first(
        ["nat", "overlay"],
        cells["latency_p50_s"].loc[(slice(None), 2), :].reset_index(),
        measure=networks.LATENCIES["latency_p50_s"],
    )
    assert fastest == ["nat", "overlay"]


def test_the_limits_are_held_against_nothing(changes):
    assert {(driver, hosts) for driver, hosts, _ in changes.index} == {
        *(("bridge", 1), ("overlay", 1)),
        *(("overlay", 2), ("nat", 2)),
    }


def test_where_the_limit_was_not_measured_a_change_has_a_gap(tmp_path):
    made = write_networks(tmp_path / "alone", {2: {"overlay": 0.6, "nat": 1.0}}, repetitions=3)
    found = networks.changes(networks.repetitions(load_runs(made, experiment="networks").flows), 0.95)
    assert found["value"].isna().all()
    assert set(found["gap"]) == {"no repetition also has driver process"}


@pytest.mark.ci
def test_the_notebook_makes_its_figure_tables_and_values(runs, tmp_path):
    done = Executed("15-networks", runs, tmp_path)
    made = figures("nets", "networks", "network-latencies")
    made |= tables("nets", "networks-netns-flowgen", "network-latencies-netns-rr")
    assert done.made == made | {"paper/values/nets/15-networks.tex"}
    key = re.escape("{networks/netns-flowgen/overlay/2/4/change}{\\textminus{}")
    (fall,) = re.findall(rf"{key}([\d.]+)", done.values("15-networks"))
    assert float(fall) == pytest.approx(40, abs=2)
    assert "no number is missing" in done.told("table")
    key = re.escape("{networks/netns-rr/overlay/2/1/p50}{")
    (median,) = re.findall(rf"{key}([\d.]+)", done.values("15-networks"))
    assert float(median) == pytest.approx(10 / 0.6, rel=0.2)


@pytest.mark.ci
def test_a_figure_of_namespaces_says_that_they_share_a_kernel(runs, tmp_path):
    Executed("15-networks", runs, tmp_path)
    (table,) = (tmp_path / "out").rglob("networks-netns-flowgen.tex")
    assert "2 hosts that share a kernel" in table.read_text()


def test_without_its_experiment_the_notebook_says_so_and_draws_nothing(campaign, tmp_path):
    done = Executed("15-networks", campaign, tmp_path)
    assert done.made == {"paper/values/campaign/15-networks.tex"}
    missing = r"{networks/missing}{there are no runs of 'networks' as this question needs them; "
    assert missing in done.values("15-networks")
