"""`pairlab compare`."""

import json
from datetime import timedelta

import pytest

from tests.unit.cli.helpers import WHEN, made_up


def on(kernel):
    return {"host": {"cpu_model": "a CPU", "cpus": 2, "kernel": kernel}}


def test_kernel_against_kernel_is_one_command(pairlab):
    for kernel, rates in (("6.1", (4.0e9, 4.1e9, 4.2e9)), ("6.18", (5.0e9, 5.1e9, 5.3e9))):
        for repetition, rate_bps in enumerate(rates):
            made_up(pairs=50, repetition=repetition, rate_bps=rate_bps, facts=on(kernel))
    made_up(pairs=5, facts=on("6.18"))
    status, out, _ = pairlab("compare", "--by", "kernel", "driver=bridge", "pairs=5e1")
    assert status == 0
    assert out.startswith("kernel 6.18 is 25 % faster than kernel 6.1, 95 % interval ")
    (found,) = json.loads(pairlab("compare", "--by", "kernel", "pairs=50", "--base", "6.18", "--json")[1])[
        "comparisons"
    ]
    assert (found["base"], found["other"], found["n"], found["verdict"]) == ("6.18", "6.1", [3, 3], "worse")


def test_drivers_are_compared_over_the_hosts_that_shared_a_sweep(pairlab):
    for host, rate_bps in enumerate((4.0e9, 8.0e9, 6.0e9)):
        facts = {"host": {"cpu_model": f"CPU {host}", "cpus": 2, "kernel": "6.1"}}
        for driver, times in (("bridge", 1.0), ("macvlan", 1.25)):
            made_up(repetition=host, driver=driver, rate_bps=rate_bps * times, facts=facts)
    status, out, _ = pairlab("compare", "--over", "host")
    assert status == 0
    assert out.startswith("macvlan is 25.00 % faster than bridge, 95 % interval 25.00 to 25.00 % (n = 3 hosts)")
    (found,) = json.loads(pairlab("compare", "--over", "host", "--json")[1])["comparisons"]
    assert (found["n"], found["unit"]) == ([3, 3], "host")


@pytest.mark.whole
def test_claims_are_checked_for_each_kernel_apart(pairlab):
    for kernel in ("6.1", "6.18"):
        made_up(pairs=50, facts=on(kernel))
    status, out, _ = pairlab("claims", "--by", "kernel")
    assert (status, [line for line in out.splitlines() if line.startswith("kernel ")]) == (
        0,
        ["kernel 6.1", "kernel 6.18"],
    )
    assert "1 runs read" in out
    assert set(json.loads(pairlab("claims", "--by", "kernel", "--json")[1])) == {"6.1", "6.18"}


def test_what_cannot_be_compared_is_said(pairlab, runs_dir):
    made_up(pairs=5, facts=on("6.18"))
    assert pairlab("compare", "--by", "kernel")[2].startswith("pairlab: a comparison needs two runs that are ok")
    for words, why in (
        (["bridge"], "'bridge' is no NAME=VALUE"),
        (["pairs=1:30"], "pairs: '1:30' is not a number"),
        (["skew_s=small"], "skew_s: 'small' is not a number"),
        (["pair=5"], "runs have no 'pair'; did you mean 'pairs'?"),
        (["--by", "colour"], "'colour' is nothing that runs differ by; there are: experiment"),
    ):
        status, _, err = pairlab("compare", *words)
        assert (status, why in err) == (2, True), err


def test_what_looks_like_a_value_is_one_also_where_a_folder_has_that_name(pairlab, runs_dir, tmp_path, monkeypatch):
    for driver in ("bridge", "ovs"):
        for number in range(2):
            made_up(driver=driver, repetition=number)
    (tmp_path / "pairs=1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert pairlab("compare", "pairs=1")[1] == pairlab("compare")[1] != ""
    assert f"no runs in {tmp_path}/pairs=1" in pairlab("compare", "./pairs=1", runs_dir.name)[2]


@pytest.mark.parametrize(("change", "verdict", "expected"), [(1.0, "passes", 0), (0.5, "fails", 1)])
def test_a_gate_ends_with_the_status_that_its_verdict_has(pairlab, runs_dir, change, verdict, expected):
    for number in range(4):
        for label, rate_bps in (("before", 1e9), ("after", change * 1e9)):
            at = WHEN + timedelta(seconds=60 * number + (label == "after"))
            made_up(at=at, rate_bps=rate_bps * (1 + number / 1000), repetition=number, facts={"label": label})
    status, out, err = pairlab("compare", "before", "after", "--fail-if", "throughput worse 5 %")
    assert (status, err) == (expected, "")
    assert f"{verdict}: throughput worse 5 %" in out
    status, out, _ = pairlab("compare", "before", "after", "--fail-if", "throughput worse 5 %", "--json")
    (row,) = json.loads(out)["comparisons"]
    assert (status, row["gate"], row["base"], row["other"]) == (expected, verdict, "before", "after")


def test_a_gate_that_is_not_decided_ends_with_status_3(pairlab, runs_dir):
    for label, hours in (("before", 0), ("after", 9)):
        for number in range(3):
            at = WHEN + timedelta(hours=hours, minutes=number)
            made_up(at=at, repetition=number, facts={"label": label, "block": f"{at:%Y-%m-%dT%H:%M:%S.%fZ} x"})
    status, out, _ = pairlab("compare", "before", "after", "--fail-if", "throughput worse 5 %")
    assert status == 3
    assert "undecided: throughput worse 5 %" in out
    assert pairlab("compare", "before")[0] == 2


def test_a_run_that_is_on_both_sides_is_refused(pairlab, runs_dir, tmp_path):
    """As where a pack of a whole experiment is the baseline, and has the runs of the other label, too."""
    for label, hours in (("before", 0), ("after", 1)):
        made_up(at=WHEN + timedelta(hours=hours), facts={"label": label})
    assert pairlab("pack", "throughput", "--to", str(tmp_path / "baseline"))[0] == 0
    status, _, err = pairlab("compare", f"{tmp_path}/baseline/", "after", "--fail-if", "throughput worse 5 %")
    assert status == 2
    assert "1 of the runs of after are those of" in err


def test_a_cell_that_only_one_side_has_leaves_the_gate_undecided(pairlab, runs_dir):
    """As where a change breaks a network in some cells: none of its runs is ok there."""
    for number in range(5):
        for pairs, label in ((1, "before"), (1, "after"), (5, "before")):
            at = WHEN + timedelta(seconds=60 * number + (label == "after"))
            rate_bps = 1e9 * (1 + (number + (label == "after")) / 1000)
            made_up(at=at, rate_bps=rate_bps, pairs=pairs, repetition=number, facts={"label": label})
    status, out, _ = pairlab("compare", "before", "after", "--fail-if", "throughput worse 5 %")
    assert status == 3
    assert "passes: " in out
    assert "undecided: throughput worse 5 %: throughput, netns, bridge, 5 pairs, auto: nothing but before" in out
    assert pairlab("compare", "after", "before", "--fail-if", "throughput worse 5 %")[0] == 0  # a cell that is new


@pytest.mark.parametrize("option", ["--by", "--base", "--sweep"])
def test_beside_two_sides_nothing_else_says_what_is_compared(pairlab, runs_dir, option):
    status, _, err = pairlab("compare", "before", "after", option, "driver")
    assert (status, f"leave out {option}" in err) == (2, True)


def test_of_several_comparisons_it_is_said_what_is_left_after_holms_correction(pairlab, runs_dir):
    for number in range(5):
        for driver, times in (("bridge", 1.0), ("macvlan", 1.5), ("ovs", 1.0 + (-1) ** number / 100)):
            made_up(repetition=number, driver=driver, rate_bps=1e9 * times * (1 + number / 1000))
    _, out, _ = pairlab("compare")
    assert "All: throughput, netns, 1 pair" in out
    assert "After Holm's correction for 2 comparisons, 1 of 1 difference is left." in out
    rows = json.loads(pairlab("compare", "--json")[1])["comparisons"]
    assert [row["p_holm"] < 0.05 for row in rows] == [True, False]


def test_two_values_of_a_parameter_are_sides_and_a_measure_that_is_not_there_decides_nothing(pairlab, runs_dir):
    for number in range(4):
        for driver, rate_bps in (("bridge", 1e9), ("ovs", 0.5e9), ("macvlan", 2e9)):
            made_up(rate_bps=rate_bps * (1 + number / 1000), repetition=number, driver=driver)
    words = ["compare", "driver=bridge", "driver=ovs", "pairs=1", "--fail-if", "throughput worse 5 %"]
    status, out, _ = pairlab(*words)
    assert status == 1
    assert out.startswith("ovs is 50.00 % slower than bridge")
    status, _, err = pairlab("compare", "driver=bridge", "driver=ovs", "--fail-if", "p99 worse 5 %")
    assert (status, "p99 worse 5 % is not decided" in err) == (3, True)
