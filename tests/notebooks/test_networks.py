"""Suo et al. (2018), and networks in other places: what the questions say besides what is planted (test_questions)."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis.questions import modes, networks
from tests.support import asked, claimed

NAMESPACES = [{"name": f"host-{number}", "kind": "namespace", "on": "machine"} for number in (0, 1)]


def test_the_limits_are_held_against_nothing_and_without_them_a_change_has_a_gap(ask):
    runs = asked.runs_of("networks", 2)
    found = ask("networks", runs)["change"]
    cells = {*zip(found["driver"], found["hosts"], strict=True)}
    assert cells == {("bridge", 1), ("ovs", 1), ("overlay", 2), ("nat", 2)}
    found = ask("networks", [run for run in runs if run.spec.driver != "process"])["change"].query("hosts == 2")
    assert found["value"].isna().all()
    assert set(found["gap"]) == {"nothing was measured with driver process"}


def test_a_figure_of_namespaces_says_that_they_share_a_kernel(ask):
    runs = [
        replace(run, facts={**run.facts, "hosts": NAMESPACES[: run.spec.hosts]}) for run in asked.runs_of("networks", 1)
    ]
    note = ask("networks", runs).figure("networks").get_supxlabel()
    assert "2 hosts that share a kernel" in note.replace("\n", " ")


def test_a_layers_part_is_its_share_of_busy_samples_times_the_demand(ask):
    cost = ask("cost", asked.runs_of("cost", 2))
    cells = cost["by layer"].set_index(["driver", "layer"])["value"]
    assert cells["overlay", "VXLAN"] / cells["overlay", "UDP"] == pytest.approx(0.5)
    assert (cells["process", "VXLAN"], cells["nat", "VXLAN"]) == (0, 0)
    assert cells.groupby("driver").sum().to_dict() == pytest.approx(
        cost["service_demand_s"].set_index("driver")["value"].to_dict()
    )


def test_the_published_table_has_the_changes_of_both_sides_together():
    told = networks.stated_changes()
    assert (told["overlay"], told["flannel-vxlan"], told["bgp"]) == ("+73", "+111", "+66")
    assert networks.published_table().loc["weave", "Client (µs)"] == 150.7


def test_what_the_paper_states_of_messages_stands_beside(ask):
    stated = ask("packet-size", asked.runs_of("packet-size", 1)).table("packet-size-throughput")["Paper S (%)"]
    by_name = {(what, size, driver): text for (_, what, size, driver), text in stated.items()}
    assert by_name["TCP", "256 B", "overlay"] == "-82"
    assert by_name["UDP", "256 B", "nat"] == "-24"
    assert by_name["TCP", "1 KiB", "overlay"] == "–"


def test_hosts_of_one_kind_answer_nothing_whatever_they_are_called(ask):
    kinds = [claimed.sending(1.0, experiment="virtualization", host_kind=kind) for kind in ("physical", "virtual")]
    answer = ask("virtualization", [replace(run, facts={**run.facts, "hosts": NAMESPACES}) for run in kinds])
    assert str(answer).startswith("not comparable: all hosts are of one kind (namespaces)")
    assert answer["throughput"].empty
    assert answer["change"].empty


def test_hosts_of_a_kind_that_no_table_names_are_called_by_that_kind(ask):
    """As those of a backend from elsewhere are."""

    def elsewhere(run):
        hosts = [{**each, "kind": "vm"} for each in run.facts["hosts"]]
        return replace(run, facts={**run.facts, "hosts": hosts}) if run.spec.backend == "uml" else run

    runs = [elsewhere(run) for run in asked.runs_of("virtualization", 2)]
    answer = ask("virtualization", runs)
    assert set(answer["throughput"]["kind"]) == {"namespaces", "vm"}
    assert "vm" in answer.table("virtualization").index.get_level_values("Hosts")
    alone = ask("virtualization", [run for run in runs if run.spec.backend == "uml"])
    assert str(alone).startswith("not comparable: all hosts are of one kind (vm)")


def test_the_mode_without_a_network_is_a_fact_and_no_number(ask):
    answer = ask("single-host-modes", asked.runs_of("single-host-modes", 2))
    assert "none" not in set(answer.repetitions["driver"])
    told = "netns-flowgen, none: 2 connections tried, 0 reached their server; links: lo; "
    assert modes.isolated(answer.found).startswith(told)


def test_a_run_whose_transactions_all_failed_is_a_latency_without_a_number_and_no_throughput(ask):
    def spoilt(run):
        if not (run.spec.request_bytes and run.spec.driver == "bridge"):
            return run
        lost = run.flows.assign(status="failed", error="broke", transactions=np.nan, throughput_bps=np.nan)
        return replace(run, flows=lost, transactions=run.transactions.iloc[:0])

    answer = ask("single-host-modes", map(spoilt, asked.runs_of("single-host-modes", 2)))
    assert set(answer["throughput"]["workload"]) == {"flowgen"}
    bridge = answer["latency"].query("driver == 'bridge'")
    assert bridge["gap"].to_list() == ["latency_mean_s has no finite value in 2 of 2 repetitions"] * 2
    assert answer["latency change"].query("driver == 'bridge'")["gap"].ne("").all()


def test_what_runs_beside_loops_by_the_servers_is_not_of_mentz_et_al(ask):
    assert ask("interference", asked.runs_of("by-network", 1)).gap.startswith("there are no runs of 'interference'")


def test_an_odd_number_of_containers_is_a_number_of_its_own(ask):
    found = ask("all-to-all", [claimed.exchanging(1, pairs=2, ranks=3)])["round"]
    assert found["containers"].to_list() == [3]
    assert found["value"].to_list() == pytest.approx([100e-6])
