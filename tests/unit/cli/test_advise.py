"""`pairlab advise`."""

import json

from pairlab import store
from pairlab.base import safe_yaml
from tests.support import synthetic


def measured(driver, p99_s, repetitions=4, **spec):
    for repetition in range(repetitions):
        late_s = p99_s * (1 + repetition / 100)
        asked = {"experiment": "latency", "driver": driver, "repetition": repetition} | spec
        store.write(synthetic.transacting({late_s / 9: 98, late_s: 2}, **asked))


def test_one_command_says_which_network_and_which_others_are_worse(pairlab, runs_dir):
    measured("macvlan", 50e-6)
    measured("bridge", 90e-6)
    status, out, _ = pairlab("advise", "--pairs", "1", "--isolation", "--show-runs")
    assert status == 0
    assert "netns: macvlan has the shortest p99 latency, 50.7 [49.7, 51.8] µs." in out
    (line,) = (line for line in out.splitlines() if line.split()[:2] == ["bridge", "2"])
    assert line.rstrip().endswith("worse than macvlan")
    assert "macvlan cannot reach its own host" in out
    assert "These numbers are of 8 of 8 runs." in out
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


def test_other_load_is_asked_for_and_measured_beside(pairlab, runs_dir, tmp_path):
    measured("macvlan", 50e-6)
    measured("macvlan", 400e-6, background_pairs=4, experiment="congestion")
    status, out, _ = pairlab("advise", "--pairs", "1", "background_pairs=4")
    assert (status, "macvlan has the shortest p99 latency, 40" in out, "4 do not have background_pairs=4" in out) == (
        0,
        True,
        True,
    )
    file = tmp_path / "fill.yaml"
    assert pairlab("advise", "--pairs", "1", "background_pairs=4", "--write-sweep", str(file))[0] == 0
    grids = safe_yaml.read(file)["experiments"]
    assert {grid["background_pairs"] for its in grids.values() for grid in its} == {4}
    assert "# not measured: " in file.read_text()  # nothing launches beside such load
    status, _, err = pairlab("advise", "bridge")
    assert (status, "'bridge' is no NAME=VALUE, such as driver=bridge" in err) == (2, True)


def test_only_named_networks_are_told_of(pairlab, runs_dir):
    measured("macvlan", 50e-6)
    measured("bridge", 90e-6)
    found = json.loads(pairlab("advise", "--pairs", "1", "driver=bridge", "--json")[1])
    assert [each["network"] for each in found["networks"]] == ["bridge"]
    assert [(each["n"], each["why"]) for each in found["left_out"]] == [(4, "do not have driver=bridge")]
    assert pairlab("advise", "driver=brigde")[0] == 2
