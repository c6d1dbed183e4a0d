"""The allocations of Mentz et al. (2020): what is said besides of what is planted (test_questions)."""

from dataclasses import replace

import pytest

from tests.support import asked, claimed


def test_rates_of_transactions_are_no_throughput_and_the_cpus_time_is_that_of_the_runs(ask):
    answer = ask("interference", asked.runs_of("interference", 2))
    assert answer["throughput"]["workload"].unique().tolist() == ["flowgen"]
    assert answer["latency"]["workload"].unique().tolist() == ["rr"]
    parts = {part: answer[part].set_index(["driver", "beside"])["value"] for part in ("usr", "sys", "softirq", "rest")}
    beside = {part: values["bridge", "2 busy loops"] for part, values in parts.items()}
    assert beside == pytest.approx({"usr": 0.3, "sys": 0.0, "softirq": 0.1, "rest": 0.0})


def test_the_smallest_flows_are_told_apart_from_all(ask):
    cells = ask("dc-simulation", asked.runs_of("dc-simulation", 3))["percentiles"].query("q == 0.5")
    medians = cells.set_index(["driver", "load", "sizes"])["value"]
    for load in ("1 Gbit/s or what is carried", "closed loop"):
        for driver, part in (("overlay", 0.5), ("nat", 1.0)):
            smallest, every = (medians[driver, load, sizes] for sizes in ("smallest fifth", "all"))
            assert smallest == pytest.approx(every * part, rel=0.1)


def test_each_backend_has_its_own_network_of_the_host(ask):
    runs = [
        claimed.traffic(factor * (1 + 0.001 * repetition), driver=driver, backend=backend, repetition=repetition)
        for repetition in range(3)
        for backend, host in (("docker", "host"), ("netns", "process"))
        for driver, factor in ((host, 1.0), ("overlay", 1.2))
    ]
    found = ask("dc-simulation", runs)["to host"].set_index("backend")["value"]
    assert found.to_dict() == {"docker": pytest.approx(20), "netns": pytest.approx(20)}


def test_a_failed_flow_makes_the_time_of_all_unknown(ask):
    first, *others = [claimed.traffic(1.0, repetition=repetition) for repetition in range(5)]
    flows = first.flows.assign(status=["failed", *first.flows["status"][1:]])
    cells = ask("dc-simulation", [replace(first, flows=flows), *others])["run time"]
    assert cells["gap"].to_list() == ["fct_all_s has no finite value in 1 of 5 repetitions"]


def test_without_the_pair_alone_congestion_has_no_changes_and_says_why(ask, capsys):
    spec = {"experiment": "congestion", "background_pairs": 1}
    answer = ask("congestion", [claimed.spending({"usr": 0.5}, 5.0, repetition=number, **spec) for number in range(3)])
    assert "there are no runs of 'placement' as this question needs them" in str(answer)
    answer.show("congestion-throughput")
    assert "nothing was measured with beside alone" in capsys.readouterr().out
    assert answer.figure("congestion-throughput") is not None
