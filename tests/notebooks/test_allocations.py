"""Paper M's allocations over made-up runs: what is planted comes out of the notebooks, and a reason where it is not."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions.allocations import placed, traffic
from pairlab.errors import AnalysisError
from pairlab.store.dataset import load_runs
from tests.support import claimed, synthetic
from tests.support.executed import Executed, figures, tables

#: By driver: its part of 20 Gbit/s alone on one host, and of it what is left beside busy loops.
PARTS = {"host": (1.0, 0.8), "bridge": (0.8, 0.5), "overlay": (0.9, 0.7)}
#: By driver: how long all traffic takes against host, and how long its smallest flows.
RUN_TIMES = {"process": (1.0, 1.0), "nat": (1.05, 1.0), "overlay": (1.2, 0.5)}


def write_placed(root, repetitions=5):
    random = np.random.default_rng(5)
    for repetition in range(repetitions):
        drift = random.normal(1, 0.1)  # of the machine: the same for all that is measured in this repetition
        for driver, (alone, left) in PARTS.items():
            for workers, part in ((0, alone), (2, alone * left)):
                spec = {"driver": driver, "repetition": repetition, "experiment": "placement"}
                if workers:
                    spec |= {"experiment": "interference", "interference_workers": workers}
                cpu = {"usr": 0.2 + 0.2 * workers, "sys": 0.3 * part, "softirq": 0.1}
                rate = part * drift * random.normal(1, 0.005)
                store.write(claimed.spending(cpu, 10 * rate, **spec), root)
                store.write(synthetic.transacting({20e-6 / rate: 100}, **spec), root)
        for driver, (longer, smallest) in RUN_TIMES.items():
            for load in (1e9, 0.0):
                factor = longer * drift * random.normal(1, 0.002)
                made = claimed.traffic(factor, smallest, driver, offered_load_bps=load, repetition=repetition)
                store.write(made, root)
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_placed(tmp_path_factory.mktemp("runs") / "placed")


@pytest.fixture(scope="module")
def repetitions(runs):
    return placed.by_repetition(load_runs(runs, experiment=["placement", "interference"]))


def value_of(text, key):
    (found,) = re.findall(rf"{re.escape('{' + key + '}{')}((?:\\textminus{{}}|\+)?[\d.]+)", text)
    return float(found.replace(r"\textminus{}", "-"))


@pytest.mark.ci
def test_what_busy_loops_take_is_found_against_the_pair_alone_over_each_driver(repetitions):
    found = placed.against_alone(repetitions, "total_bps", 0.95).set_index("driver")
    assert set(found["beside"]) == {"2 busy loops"}
    for driver, (_, left) in PARTS.items():
        assert found.loc[driver, "value"] == pytest.approx(100 * (left - 1), abs=1)
        assert found.loc[driver, "high"] - found.loc[driver, "low"] < 5  # the drift of the machine has cancelled
    longer = placed.against_alone(repetitions, "latency_mean_s", 0.95).set_index("driver")
    for driver, (_, left) in PARTS.items():
        assert longer.loc[driver, "value"] == pytest.approx(100 * (1 / left - 1), abs=3)


@pytest.mark.ci
def test_drivers_are_held_against_host_beside_the_same(repetitions):
    found = placed.against_host(repetitions, "total_bps", 0.95).set_index(["beside", "driver"])
    assert set(found.index.get_level_values("driver")) == {"bridge", "overlay"}
    for driver in ("bridge", "overlay"):
        alone, left = PARTS[driver]
        assert found.loc[("alone", driver), "value"] == pytest.approx(100 * (alone - 1), abs=1)
        assert found.loc[("2 busy loops", driver), "value"] == pytest.approx(100 * (alone * left / 0.8 - 1), abs=1)


def test_rates_of_transactions_are_no_throughput(repetitions):
    assert placed.of(repetitions, "total_bps")["workload"].unique().tolist() == ["flowgen"]
    assert placed.of(repetitions, "latency_mean_s")["workload"].unique().tolist() == ["rr"]


def test_the_parts_of_the_cpus_time_are_those_of_the_runs(repetitions):
    cells = placed.cpu_cells(repetitions, 0.95)
    of_bridge = {part: frame.set_index(["driver", "beside"])["value"] for part, frame in cells.items()}
    beside = {part: values["bridge", "2 busy loops"] for part, values in of_bridge.items()}
    assert beside == pytest.approx({"usr": 0.6, "sys": 0.12, "softirq": 0.1, "rest": 0.0})


def test_two_runs_of_one_repetition_are_not_pooled():
    """By seed, of which a cell knows nothing."""
    twice = [claimed.spending({"usr": 0.5}, seed=seed) for seed in (0, 1)]
    with pytest.raises(AnalysisError, match=r"claim to be repetition 0 of .*, allocation 1, beside alone"):
        placed.by_repetition(twice)


@pytest.mark.ci
@pytest.mark.parametrize("name", ["16-placement", "17-interference"])
def test_the_notebooks_make_their_figures_tables_and_values(name, runs, tmp_path):
    topic = name[3:]
    done = Executed(name, runs, tmp_path)
    drawn = ["throughput", "latency", "cpu"]
    drawn += [f"{each}-change" for each in ("throughput", "latency")] if topic == "interference" else []
    systems = {"throughput": "netns-flowgen", "latency": "netns-rr", "cpu": "netns-flowgen"}
    made = figures("placed", *(f"{topic}-{each}" for each in drawn))
    made |= tables("placed", *(f"{topic}-{each}-{system}" for each, system in systems.items()))
    assert done.made == made | {f"paper/values/placed/{name}.tex"}
    text = done.values(name)
    lead = value_of(text, f"{topic}/netns-flowgen/bridge/1/alone/against-host")
    assert lead == pytest.approx(-20, abs=1)
    if topic == "interference":
        lost = value_of(text, "interference/netns-flowgen/bridge/1/2-busy-loops/against-alone")
        assert lost == pytest.approx(-50, abs=1)
    assert "no number is missing" in done.told("throughput")


@pytest.mark.ci
def test_all_traffic_takes_as_much_longer_as_was_planted_and_the_smallest_flows_less(runs, tmp_path):
    done = Executed("19-dc-simulation", runs, tmp_path)
    made = figures("placed", "dc-simulation-run-time", "dc-simulation-fct")
    made |= tables("placed", "dc-simulation-run-time-netns-traffic", "dc-simulation-fct-netns-traffic")
    assert done.made == made | {"paper/values/placed/19-dc-simulation.tex"}
    text = done.values("19-dc-simulation")
    for load in ("1-gbit-s", "closed-loop"):
        base = f"dc-simulation/netns-traffic/overlay/{load}"
        assert value_of(text, f"{base}/against-host") == pytest.approx(20, abs=1)
        smallest, every = (value_of(text, f"{base}/{sizes}/p50") for sizes in ("smallest-fifth", "all"))
        assert smallest == pytest.approx(every / 2, rel=0.1)
    assert r"{dc-simulation/m/heavy/overlay/over-host}{+20.1 \%}" in text


def test_a_failed_flow_makes_the_time_of_all_unknown(runs):
    found = load_runs(runs, experiment="dc-simulation")
    flows = found[0].flows.copy()
    flows.loc[0, "status"] = "failed"
    broken = [replace(found[0], flows=flows), *(run for run in found if run.key != found[0].key)]
    cells = traffic.cells(traffic.by_repetition(broken), 0.95)["run_s"]
    spec = found[0].spec
    mine = cells[(cells["driver"] == spec.driver) & (cells["load"] == traffic.load_text(spec.offered_load_bps))]
    assert mine["gap"].to_list() == ["run_s has no finite value in 1 of 5 repetitions"]


@pytest.mark.parametrize(("name", "experiment"), [
    ("16-placement", "placement"),
    ("17-interference", "interference"),
    ("18-congestion", "congestion"),
    ("19-dc-simulation", "dc-simulation"),
])  # fmt: skip
def test_without_its_experiment_a_notebook_says_so_and_draws_nothing(name, experiment, campaign, tmp_path):
    done = Executed(name, campaign, tmp_path)
    assert done.made == {f"paper/values/campaign/{name}.tex"}
    assert f"{{{experiment}/missing}}{{there are no runs of '{experiment}'" in done.values(name)


@pytest.mark.ci
def test_without_the_pair_alone_congestion_has_no_changes_and_says_why(tmp_path):
    for repetition in range(3):
        spec = {"experiment": "congestion", "background_pairs": 1, "repetition": repetition}
        store.write(claimed.spending({"usr": 0.5}, 5.0, **spec), tmp_path / "only")
    done = Executed("18-congestion", tmp_path / "only", tmp_path)
    assert "there are no runs of 'placement' as this question needs them" in done.told("load")
    assert "no repetition also has beside alone" in done.told("throughput")
    assert not any("change" in name for name in done.made)
