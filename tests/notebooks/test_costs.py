"""What networks cost in CPU time, and what busy processes take, over made-up runs: what is planted comes out."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions.costs import service_demand
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from tests.support import claimed
from tests.support.executed import Executed, figures, tables

#: By network between two hosts: the CPU time of a transaction in µs, and what of its throughput busy loops leave.
NETWORKS = {"process": (60.0, 0.6), "nat": (75.0, 0.6), "overlay": (102.0, 0.4)}


#: Of 60 samples on busy CPUs over each network, those of VXLAN; 30 are UDP's, and the rest copies.
TUNNEL_SAMPLES = {"process": 0, "nat": 0, "overlay": 15}


def profiled(made, driver):
    """The same with a profile."""
    tunnel = TUNNEL_SAMPLES[driver]
    stacks = {
        "flowgen;do_syscall_64;udp_sendmsg": 30,
        "flowgen;do_syscall_64;udp_sendmsg;_copy_from_iter": 30 - tunnel,
        "flowgen;do_syscall_64;udp_sendmsg;vxlan_xmit": tunnel,
        "swapper;do_idle;default_idle": 500,
    }
    rows = [{"stack": stack, "samples": samples} for stack, samples in stacks.items() if samples]
    return replace(made, spec=made.spec.replace(profile=True), profile=table("profile", rows))


def write(root, repetitions=4):
    random = np.random.default_rng(8)
    for repetition in range(repetitions):
        drift = random.normal(1, 0.05)  # of the machine: the same for all that is measured in this repetition
        for driver, (cost_us, left) in NETWORKS.items():
            made = claimed.costing(1e-6 * cost_us * drift, driver, repetition=repetition, udp_share=1.0)
            store.write(made, root)
            store.write(profiled(made, driver), root)
            told = {"experiment": "interference", "driver": driver, "repetition": repetition, **claimed.ACROSS}
            store.write(claimed.placed(drift, **told), root)
            for load, rest in ((1.0, left), (0.1, 0.9)):
                beside = {"interference_workers": 5, "interference_where": "server", "interference_load": load}
                store.write(claimed.placed(drift * rest, **beside, **told), root)
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write(tmp_path_factory.mktemp("runs") / "costs")


def test_a_transaction_costs_so_much_more_than_without_containers(runs):
    plain = [run for run in load_runs(runs, experiment="cpu-overhead") if not run.spec.profile]
    repetitions = service_demand.repetitions(plain)
    cells = service_demand.cells(repetitions, 0.95)["service_demand_s"].set_index("driver")["value"]
    assert cells["overlay"] / cells["process"] == pytest.approx(1.7, rel=1e-3)
    found = service_demand.changes(repetitions, 0.95).set_index("driver")["value"]
    assert found.to_dict() == pytest.approx({"nat": 25, "overlay": 70}, rel=1e-2)


def test_a_layers_part_is_its_share_of_busy_samples_times_the_demand(runs):
    by_layer = service_demand.repetitions_by_layer(load_runs(runs, experiment="cpu-overhead"))
    cells = service_demand.layer_cells(by_layer, 0.95).set_index(["driver", "layer"])["value"]
    assert cells["overlay", "VXLAN"] / cells["overlay", "UDP"] == pytest.approx(0.5)
    assert (cells["process", "VXLAN"], cells["nat", "VXLAN"]) == (0, 0)
    assert cells["overlay", "UDP"] / cells["process", "UDP"] == pytest.approx(1.7, rel=1e-3)
    whole = cells.groupby("driver").sum()
    assert whole["overlay"] / whole["process"] == pytest.approx(1.7, rel=1e-3)


def test_the_published_table_has_the_changes_of_both_sides_together():
    told = service_demand.stated_changes()
    assert (told["overlay"], told["flannel-vxlan"], told["bgp"]) == ("+73", "+111", "+66")
    assert service_demand.published_table().loc["weave", "Client (µs)"] == 150.7


@pytest.mark.ci
def test_the_notebook_on_the_cost_makes_its_figures_table_and_values(runs, tmp_path):
    done = Executed("26-cpu-overhead", runs, tmp_path)
    names = ("cpu-overhead-demand", "cpu-overhead-change", "cpu-overhead-layers")
    written = ("cpu-overhead-netns-flowgen", "cpu-overhead-layers-netns-flowgen")
    made = figures("costs", *names) | tables("costs", *written)
    assert done.made == made | {"paper/values/costs/26-cpu-overhead.tex"}
    assert "no number is missing" in done.told("estimates")
    assert "{cost/netns-flowgen/overlay/2/1/change}{+70" in done.values("26-cpu-overhead")
    assert "{cost/netns-flowgen/overlay/2/1/vxlan-demand}" in done.values("26-cpu-overhead")


@pytest.mark.ci
def test_the_notebook_on_busy_processes_holds_each_network_against_itself_alone(runs, tmp_path):
    done = Executed("25-interference-by-network", runs, tmp_path)
    names = ("interference-by-network-throughput", "interference-by-network-change")
    made = figures("costs", *names) | tables("costs", "interference-by-network-netns-flowgen")
    assert done.made == made | {"paper/values/costs/25-interference-by-network.tex"}
    values = done.values("25-interference-by-network")
    assert "overlay/2/5-busy-loops-by-the-servers/against-alone}{\\textminus{}60" in values
    assert "process/2/5-busy-loops-by-the-servers/against-alone}{\\textminus{}40" in values
    assert "process/2/5-loops-at-10---by-the-servers/against-alone}{\\textminus{}10" in values


def test_what_runs_by_the_servers_is_not_paper_m_s(runs, tmp_path):
    done = Executed("17-interference", runs, tmp_path)
    assert done.made == {"paper/values/costs/17-interference.tex"}


@pytest.mark.parametrize("name", ["25-interference-by-network", "26-cpu-overhead"])
def test_without_such_runs_the_notebook_says_so_and_draws_nothing(campaign, tmp_path, name):
    done = Executed(name, campaign, tmp_path)
    assert done.made == {f"paper/values/campaign/{name}.tex"}
