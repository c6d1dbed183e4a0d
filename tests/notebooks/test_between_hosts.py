"""Paper S' networks between hosts over made-up runs: what is planted comes out, and a reason where there is nothing."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions.modes import by_message, cores, virtualization
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from tests.support import claimed, synthetic
from tests.support.executed import Executed, figures, tables

#: By network: what it carries of 2 Gbit/s by TCP and by UDP, by how much longer a message takes, and on virtual hosts.
NETWORKS = {"process": (1.0, 1.0, 1.0, 0.58), "nat": (0.64, 0.76, 1.3, 0.4), "overlay": (0.172, 0.62, 1.55, 0.3)}


def write(root, repetitions=4):
    random = np.random.default_rng(6)
    for repetition in range(repetitions):
        drift = random.normal(1, 0.05)  # of the machine: the same for all that is measured in this repetition
        for driver, (tcp, udp, longer, virtual) in NETWORKS.items():
            told = {"driver": driver, "repetition": repetition}
            store.write(claimed.sending(tcp * drift, experiment="multi-host", **told), root)
            asked = {"experiment": "multi-host", "request_bytes": 16, "response_bytes": 16, **claimed.ACROSS}
            store.write(synthetic.transacting({5e-5 * longer * drift: 100}, **asked, **told), root)
            for size in (256, 1024):
                for share, part in ((0.0, tcp), (1.0, udp)):
                    made = claimed.sending(part * drift * size / 256, message_bytes=size, udp_share=share, **told)
                    store.write(with_cpus(made), root)
            for kind, part in (("physical", tcp), ("virtual", virtual)):
                made = claimed.sending(part * drift, experiment="virtualization", host_kind=kind, **told)
                store.write(made, root)
    return root


def with_cpus(made):
    """The run, in which one of two CPUs has no time left."""
    shares = [{"usr": 0.2, "softirq": 0.8}, {"usr": 0.1, "idle": 0.9}]
    rows = [{"cpu": cpu, "start_s": 0.0, "end_s": 2.0, **parts} for cpu, parts in enumerate(shares)]
    return replace(made, cpu=table("cpu", rows).fillna(0.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write(tmp_path_factory.mktemp("runs") / "between")


def changes_of(runs, experiment, value="total_bps"):
    found = by_message.by_repetition(load_runs(runs, experiment=experiment))
    mine = by_message.throughputs(found) if value == "total_bps" else by_message.response_times(found)
    return by_message.against_bare(mine, value, 0.95).set_index(["driver", "what", "size"])["value"]


@pytest.mark.ci
def test_networks_are_held_against_none_with_messages_of_the_same_size(runs):
    found = changes_of(runs, "packet-size")
    for size in (256, 1024):
        assert found["overlay", "TCP", size] == pytest.approx(-82.8)
        assert found["nat", "UDP", size] == pytest.approx(-24)
    assert changes_of(runs, "multi-host", "latency_mean_s")["overlay", "latency", 16] == pytest.approx(55, abs=0.1)


def test_what_the_paper_states_stands_beside(runs):
    repetitions = by_message.throughputs(by_message.by_repetition(load_runs(runs, experiment="packet-size")))
    estimates = (
        by_message.cells(repetitions, "total_bps", 0.95),
        by_message.against_bare(repetitions, "total_bps", 0.95),
    )
    stated = by_message.table(*estimates, by_message.TOTAL, "packet-size")["Paper S (%)"]
    by_name = {(what, size, driver): text for (_, what, size, driver), text in stated.items()}
    assert by_name["TCP", "256 B", "overlay"] == "-82"
    assert by_name["UDP", "256 B", "nat"] == "-24"
    assert by_name["TCP", "1 KiB", "overlay"] == "–"


@pytest.mark.ci
def test_a_cpu_that_is_overloaded_is_told_from_those_that_idle(runs):
    found = cores.cells(cores.by_repetition(load_runs(runs, experiment="packet-size")), 0.95)
    assert found["busiest_share"]["value"].to_numpy() == pytest.approx(1.0)
    assert found["others_share"]["value"].to_numpy() == pytest.approx(0.1)
    assert found["softirq_share"]["value"].to_numpy() == pytest.approx(0.8)


def test_both_kinds_of_hosts_are_held_against_physical_ones_without_containers(runs):
    repetitions = by_message.throughputs(by_message.by_repetition(load_runs(runs, experiment="virtualization")))
    found = virtualization.changes(repetitions, 0.95).set_index(["driver", "host_kind"])["value"]
    assert found["process", "virtual"] == pytest.approx(-42)
    assert found["overlay", "virtual"] == pytest.approx(-70)
    assert found["overlay", "physical"] == pytest.approx(-82.8)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "drawn", "tabled"),
    [
        (
            "22-multi-host",
            ("multi-host-throughput", "multi-host-changes", "multi-host-latency", "multi-host-latency-changes"),
            ("multi-host-throughput-netns-sockperf", "multi-host-latency-netns-rr"),
        ),
        (
            "23-packet-size",
            ("packet-size-tcp", "packet-size-udp"),
            ("packet-size-throughput-netns-sockperf", "packet-size-cpu-netns-sockperf"),
        ),
        (
            "24-virtualization",
            ("virtualization-throughput", "virtualization-changes"),
            ("virtualization-netns-sockperf",),
        ),
    ],
)
def test_each_notebook_makes_its_figures_tables_and_values(runs, tmp_path, name, drawn, tabled):
    done = Executed(name, runs, tmp_path)
    made = figures("between", *drawn) | tables("between", *tabled)
    assert done.made == made | {f"paper/values/between/{name}.tex"}
    assert "no number is missing" in done.told("estimates")


@pytest.mark.parametrize("name", ["22-multi-host", "23-packet-size", "24-virtualization"])
def test_without_such_runs_the_notebook_says_so_and_draws_nothing(campaign, tmp_path, name):
    done = Executed(name, campaign, tmp_path)
    assert done.made == {f"paper/values/campaign/{name}.tex"}
