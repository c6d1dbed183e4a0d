"""`pairlab advise`."""

import json

from pairlab import store
from tests.support import synthetic


def measured(driver, p99_s, repetitions=4):
    for repetition in range(repetitions):
        late_s = p99_s * (1 + repetition / 100)
        store.write(
            synthetic.transacting(
                {late_s / 9: 98, late_s: 2}, experiment="latency", driver=driver, repetition=repetition
            )
        )


def test_one_command_says_which_network_and_which_others_are_worse(pairlab, runs_dir):
    measured("macvlan", 50e-6)
    measured("bridge", 90e-6)
    status, out, _ = pairlab("advise", "--pairs", "1", "--isolation", "--show-runs")
    assert status == 0
    assert "netns: macvlan has the shortest p99 latency, 50.7 [49.7, 51.8] µs." in out
    (line,) = (line for line in out.splitlines() if line.strip().startswith("bridge "))
    assert line.rstrip().endswith("worse than macvlan")
    (listed,) = (line for line in out.splitlines() if line.startswith("netns macvlan, p99 latency: "))
    assert len(listed.partition(": ")[2].split()) == 4
    found = json.loads(pairlab("advise", "--pairs", "1", "--json")[1])
    by_name = {each["network"]: each for each in found["networks"]}
    assert by_name["bridge"]["dominated_by"] == ["macvlan"]


def test_what_is_missing_becomes_a_sweep_that_can_be_measured(pairlab, runs_dir, tmp_path):
    file = tmp_path / "fill.yaml"
    status, out, _ = pairlab("advise", "--hosts", "2", "--write-sweep", str(file))
    assert (status, file.exists()) == (0, True)
    assert f"to measure what is missing: pairlab sweep {file}" in out
    status, out, _ = pairlab("sweep", str(file), "--dry-run")
    assert status == 0
    assert "overlay" in out


def test_a_word_that_is_none_of_the_known_is_wrong_input(pairlab, runs_dir):
    status, _, err = pairlab("advise", "--first", "price")
    assert (status, "first: 'price' is none of p99, throughput, cpu, launch" in err) == (2, True)
