"""`pairlab sweep`, with measurements that are made up."""

import json
import os
import re
import sys
from dataclasses import replace

import pytest

from pairlab import paths, store
from pairlab.base import units
from pairlab.batch import runner
from pairlab.errors import TestbedError, Unavailable
from pairlab.measurement import measure
from pairlab.measurement.estimate import FLOW_BYTES, OVERHEAD_S, RUN_BYTES, START_S
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.progress.describe import duration
from tests.support import runs
from tests.support.screen import on_a_terminal
from tests.unit.cli.helpers import made_up, sweep_file


@pytest.fixture
def measured_by(monkeypatch, any_host):
    """Has the command measure its sweeps by this executor."""
    run = runner.run

    def measured_by(execute):
        monkeypatch.setattr(runner, "run", lambda *given, **named: run(*given, **named, execute=execute))

    return measured_by


@pytest.fixture
def measured(measured_by):
    """Sweeps measure nothing: of two pairs the bridge breaks."""
    measured_by(broken_for_two)


def broken_for_two(spec):
    if spec.pairs == 2:
        raise TestbedError("the bridge broke")
    return made_up(**spec.model_dump())


def test_a_missing_sweep_file_lists_those_there_are(refused):
    status, said = refused("sweep", "sweeps/nowhere.yaml")
    assert status == 2
    assert said.startswith("sweeps/nowhere.yaml: No such file or directory; sweeps/ has: ")
    assert "smoke.yaml" in said


def test_a_sweep_with_a_mistake_measures_nothing(refused, no_notebook, tmp_path):
    status, said = refused("sweep", sweep_file(tmp_path, driver=["bridge", "bride"]))
    assert (status, "no driver 'bride'; did you mean 'bridge'? (there are: " in said) == (2, True)


def test_a_dry_run_shows_the_cells_and_measures_nothing(pairlab, no_notebook, runs_dir, tmp_path):
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]), "--dry-run")
    assert (status, err) == (0, "")
    assert out.count("throughput: flowgen over bridge") == 2
    space = units.with_prefix(2 * RUN_BYTES + 3 * FLOW_BYTES, "B", 2)
    assert out.splitlines()[-6:] == [
        "1 block of cells that are compared, the longest of 8 s",
        "with --backend docker: 2 cells, about 10 s",
        "with --backend uml: 2 cells, about 14 s",
        "time estimated of 2 cells by a rule of thumb: the traffic, 2 s",
        f"disk space: about {space}, estimated of 2 cells by a rule of thumb",
        "2 cells, about 8 s for those to be measured; stored: 0 of 2",
    ]
    assert not runs_dir.exists()


def test_a_dry_run_estimates_from_what_cells_of_that_network_have_cost_here(pairlab, no_notebook, runs_dir, tmp_path):
    times_s = {"up_s": 20.0, "traffic_s": 2.0, "down_s": 10.0}
    run = runs.made_up(host="", backend="docker", workload="flowgen", pairs=10, seed=7)
    place = store.write(replace(run, times_s=times_s)).path
    file = sweep_file(tmp_path, driver=["bridge", "host"], pairs=[1, 10])
    out = pairlab("sweep", file, "--backend", "docker", "--dry-run")[1]
    # Over the bridge 30 s of 10 pairs, and of one the share of that which one pair has by the rule of thumb.
    bridge_s = 2 * (2 + START_S) + 30 * (1 + 1.1 / 6.5)
    host_s = 2 * (2 + OVERHEAD_S) + 0.6 * 11
    stored_bytes = sum(path.stat().st_size for path in place.iterdir())
    one = (RUN_BYTES + FLOW_BYTES) / (RUN_BYTES + 10 * FLOW_BYTES)
    size = units.with_prefix(2 * stored_bytes * (1 + one), "B", 2)
    assert out.splitlines()[-3:] == [
        "time estimated of 2 cells from runs of this host over the same network; of 2 cells by a rule of thumb: the"
        " traffic, 2 s, 0.6 s for each pair, 1.6 s for each host where there are several",
        f"disk space: about {size}, estimated from runs of their experiments and workloads",
        f"4 cells, about {duration(bridge_s + host_s)} for those to be measured; stored: 0 of 4",
    ]


def test_a_dry_run_tells_what_a_fraction_of_a_factorial_design_cannot_tell_apart(pairlab, no_notebook, tmp_path):
    axes = {"driver": ["bridge", "host"], "pairs": [1, 2], "flows_per_pair": [1, 4], "mtu_bytes": [1500, 9000]}
    file = sweep_file(tmp_path, fraction="1/2", **axes)
    out = pairlab("sweep", file, "--dry-run")[1]
    design = (
        "2^(4-1) design of resolution IV, 8 of 16 combinations; generators: mtu_bytes = driver × pairs × flows_per_pair"
    )
    aliased = [["driver × pairs", "flows_per_pair × mtu_bytes"], ["driver × flows_per_pair", "pairs × mtu_bytes"]]
    aliased.append(["driver × mtu_bytes", "pairs × flows_per_pair"])
    assert out.count("throughput: flowgen over") == 8
    assert f"throughput: {design}\n" + "".join(f"  aliased: {' = '.join(group)}\n" for group in aliased) in out
    _, told, *_ = map(json.loads, pairlab("sweep", file, "--dry-run", "--json")[1].splitlines())
    known = {"experiment": "throughput", "design": design, "resolution": 4, "aliased": aliased}
    assert told == {"event": "design"} | known


def test_a_dry_run_tells_how_often_cells_may_be_repeated(pairlab, no_notebook, runs_dir, tmp_path):
    until = {"estimate": "total_throughput_bps", "within": 0.05, "at_least": 3, "at_most": 20}
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2], until=until), "--dry-run")
    assert (status, err) == (0, "")
    assert [out.splitlines()[-4], out.splitlines()[-1]] == [
        "2 of these cells, each repeated 3 to 20 times, until total_throughput_bps is within 5 % (95 % confidence)",
        "6 to 40 cells, about 24 s to 2 min 40 s for those to be measured; stored: 0 of 6",
    ]
    assert not runs_dir.exists()


def test_a_sweep_tells_what_it_does_not_know_closely_enough(pairlab, measured_by, tmp_path):
    def execute(spec):
        flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 1e9 * (1 + spec.repetition)}])
        return store.write(Run(spec, "ok", flows=flows))

    measured_by(execute)
    until = {"estimate": "total_throughput_bps", "within": 0.05, "at_least": 2, "at_most": 3}
    status, out, err = pairlab("sweep", sweep_file(tmp_path, until=until))
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("sweep small: 2 to 3 cells, about ")
    assert out.splitlines()[1].startswith("   1/~2 done ")
    assert out.splitlines()[-1].startswith(
        "  not as precise as asked: throughput: flowgen over bridge, 2 pairs, 2 s (netns)"
    )
    # Of 1, 2 and 3 Gbit/s, on a log scale: exp(4.303 * (1 / sqrt(3)) / 2) - 1.
    assert "total_throughput_bps is ± 246.3 % after 3 repetitions" in out


def test_a_sweep_that_stops_at_a_failure_says_so(pairlab, measured_by, tmp_path):
    def execute(spec):
        raise TestbedError("the bridge broke")

    measured_by(execute)
    status, out, _ = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]), "--stop-on-failure")
    assert status == 3  # none is done
    assert "stopped at the first failure, as asked" in out
    assert "0 done, 0 skipped, 1 not done" in out


def test_a_sweep_that_is_not_done_names_the_cells_and_ends_with_status_1(pairlab, measured, tmp_path):
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]))
    assert (status, err) == (1, "")
    assert "1 done, 0 skipped, 1 not done" in out
    assert "failed   throughput: flowgen over bridge, 2 pairs, 2 s, repetition 0 (netns): the bridge broke" in out
    assert "  1 failed: the bridge broke" in out
    assert out.splitlines()[-1].endswith(f" sweep {tmp_path / 'small.yaml'} --retry")
    again = ["sweep", sweep_file(tmp_path, pairs=[1, 2]), "--backend", "netns"]
    assert "repetition 0 (netns): kept from before (the bridge broke)" in pairlab(*again)[1]
    assert pairlab(*again)[1].splitlines()[-1].endswith("small.yaml --backend netns --retry")
    status, out, _ = pairlab("sweep", sweep_file(tmp_path, pairs=[1]))
    assert (status, "1 done, 0 skipped, 0 not done" in out) == (0, True)


def test_a_sweep_tells_which_share_of_its_measurements_did_not_count_and_why(pairlab, measured_by, tmp_path):
    stolen = [["the hypervisor took 10.1 % of the CPU time"], ["the hypervisor took 12.3 % of the CPU time"]]
    made = {1: [[]], 2: [stolen[0], []], 3: [stolen[1], ["clients started apart"], stolen[0]]}

    def execute(spec):
        attempts = [{"measured_at": "", "reasons": reasons} for reasons in made[spec.pairs]]
        *_, last = made[spec.pairs]
        return store.write(Run(spec, "invalid" if last else "ok", tuple(last), facts={"attempts": attempts}))

    measured_by(execute)
    file = sweep_file(tmp_path, pairs=[1, 2, 3])
    status, out, err = pairlab("sweep", file)
    assert (status, err) == (1, "")
    lines = out.splitlines()
    at = lines.index("4 of 6 measurements (67%) did not count:")
    assert sorted(lines[at + 1 : at + 3]) == [
        "  1: clients started apart",
        "  3: the hypervisor took 10.1 % of the CPU time",
    ]
    again = json.loads(pairlab("sweep", file, "--json")[1].splitlines()[-1])
    assert (again["measurements"], again["spoilt"]) == (0, {})  # those of an earlier call are not counted again


def test_a_sweep_of_which_nothing_is_done_tells_each_reason_once_and_ends_with_status_3(pairlab, monkeypatch, tmp_path):
    def check(spec):
        raise Unavailable(f"no {spec.driver} here: get one")

    monkeypatch.setattr(measure, "check", check)
    file = sweep_file(tmp_path, driver=["bridge", "host"], pairs=[1, 2, 3])
    status, out, err = pairlab("sweep", file)
    assert (status, err) == (3, "pairlab: nothing was measured, so there is nothing to report\n")
    assert out.splitlines()[-3] == "0 done, 6 skipped, 0 not done"
    assert sorted(out.splitlines()[-2:]) == [
        "  3 skipped: no bridge here: get one",
        "  3 skipped: no host here: get one",
    ]
    assert len(out.splitlines()) == 4  # with the sweep's own line: none for each cell


def test_skipped_cells_whose_reasons_differ_in_numbers_only_are_one_line(pairlab, monkeypatch, tmp_path):
    def check(spec):
        raise Unavailable(f"needs at least {spec.pairs} cores; 0 available")

    monkeypatch.setattr(measure, "check", check)
    out = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2, 3]))[1]
    (line,) = [line for line in out.splitlines() if "needs at least" in line]
    assert line.startswith("  3 skipped: needs at least ")


def test_programs_are_told_of_each_cell_and_of_the_end_a_json_object_a_line(pairlab, measured, tmp_path):
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]), "--json")
    assert (status, err) == (1, "")
    begun, *cells, end = map(json.loads, out.splitlines())
    counted = {"cells": 2, "cells_at_most": 2, "estimate_s": 8.0, "estimate_at_most_s": 8.0}
    counted |= {"estimate_bytes": 2 * RUN_BYTES + 3 * FLOW_BYTES}
    assert begun == {"event": "sweep", "name": "small"} | counted
    assert {cell["event"] for cell in cells} == {"cell"}
    assert [(cell["number"], cell["total"], cell["total_at_most"]) for cell in cells] == [(1, 2, 2), (2, 2, 2)]
    assert {cell["spec"]["pairs"]: cell["state"] for cell in cells} == {1: "done", 2: "failed"}
    assert all(Spec(**cell["spec"]).key == cell["key"] for cell in cells)
    assert cells[0]["left_s"] > cells[1]["left_s"] == 0
    (not_done,) = end.pop("not_done")
    assert not_done.endswith("repetition 0 (netns): the bridge broke")
    known = {"done": 1, "skipped": {}, "imprecise": [], "stopped": False, "measurements": 0, "spoilt": {}}
    assert end == {"event": "end", **known, "good": False}


def test_programs_are_told_the_plan(pairlab, no_notebook, runs_dir, tmp_path):
    status, out, err = pairlab("sweep", sweep_file(tmp_path, pairs=[1, 2]), "--dry-run", "--json")
    assert (status, err) == (0, "")
    begun, *cells = map(json.loads, out.splitlines())
    assert begun["cells"] == len(cells) == 2
    assert [(cell["event"], cell["number"], cell["stored"]) for cell in cells] == [("planned", n, None) for n in (1, 2)]
    assert not runs_dir.exists()


#: The command line with measurements that are made up, and a clock: each is seen for a while, and takes six seconds.
SLOW = """
import sys, time
from functools import partial
from pairlab import cli
from pairlab.batch import runner
from pairlab.progress import terminal
from tests.unit.cli.test_sweep import broken_for_two
class Clock:
    now = 0.0
    def monotonic(self):
        return self.now
def execute(spec, progress):
    for done in range(3):
        progress("measuring (s)", done, 2)
        time.sleep(0.6)  # longer than until the bars are drawn anew
    clock.now += 6
    return broken_for_two(spec)
clock = runner.time = terminal.time = Clock()
run = runner.run
runner.run = lambda *given, progress, **named: run(*given, **named, execute=partial(execute, progress=progress))
runner.check = lambda spec: None
cli.main(sys.argv[1:], prog_name="pairlab")
"""


@pytest.mark.whole
def test_on_a_terminal_bars_show_the_cells_that_are_left_and_the_one_at_work(runs_dir, tmp_path):
    file = sweep_file(tmp_path, pairs=[1, 3, 2])
    shown = on_a_terminal(
        [sys.executable, "-c", SLOW, "sweep", file], environment={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert shown.status == 1
    whole = [re.search(r"━ (\d+) s left +(\d) of 3 cells", line) for line in shown.drawn]
    seen = [(int(found[2]), int(found[1])) for found in whole if found]
    assert {done for done, _ in seen} == {0, 1, 2}
    most = [max(left for done, left in seen if done == number) for number in range(3)]
    assert most == [12, 12, 6]  # at first three times 2 s of traffic and 2 s around it; then as a cell has taken
    assert any(re.search(r"━ \d s left +measuring 1/2 s", line) for line in shown.drawn)
    cells = [re.match(r" +(\d)/3 (\w+)", line) for line in shown.left[1:4]]
    assert [cell[1] for cell in cells] == ["1", "2", "3"]
    assert sorted(cell[2] for cell in cells) == ["done", "done", "failed"]
    assert shown.left[4] == "2 done, 0 skipped, 1 not done"
    assert "━" not in "".join(shown.left)


def test_a_part_of_a_sweep_is_measured_and_more_repetitions_of_it(pairlab, measured_by, tmp_path):
    measured = []

    def execute(spec):
        measured.append((spec.driver, spec.pairs, spec.repetition))
        flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 1e9}])
        return store.write(Run(spec, "ok", flows=flows))

    measured_by(execute)
    file = sweep_file(tmp_path, driver=["bridge", "macvlan"], pairs=[1, 2])
    assert pairlab("sweep", file, "--where", "driver=macvlan", "--where", "pairs=2")[0] == 0
    assert measured == [("macvlan", 2, 0)]
    assert len(store.keys_of_sweep("small")) == 4  # the sweep still has all of its cells
    assert pairlab("sweep", file, "--where", "pairs=2", "--repetitions", "+2")[0] == 0
    assert sorted(measured[1:]) == [
        ("bridge", 2, 0),
        ("bridge", 2, 1),
        ("bridge", 2, 2),
        ("macvlan", 2, 1),
        ("macvlan", 2, 2),
    ]
    assert pairlab("sweep", file, "--repetitions", "1", "--dry-run")[1].endswith("stored: 2 of 4\n")
    for words, why in (
        (["--where", "pairs"], "'pairs' is no NAME=VALUE, such as driver=bridge"),
        (["--where", "pair=2"], "--where: no parameter 'pair'; did you mean 'pairs'?"),
        (["--where", "pairs=7"], "no cell of sweep 'small' has pairs=7"),
        (["--repetitions", "some"], "'some' is no number, such as 8, or +5"),
    ):
        status, _, err = pairlab("sweep", file, *words)
        assert (status, why in err) == (2, True), err


def test_fewer_repetitions_once_take_nothing_from_the_sweep(pairlab, measured_by, tmp_path):
    def execute(spec):
        flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 1e9}])
        return store.write(Run(spec, "ok", flows=flows))

    measured_by(execute)
    file = tmp_path / "thrice.yaml"
    file.write_text(json.dumps({"name": "thrice", "repetitions": 3, "experiments": {"throughput": {"pairs": 1}}}))
    assert pairlab("sweep", str(file))[0] == 0
    assert pairlab("sweep", str(file), "--repetitions", "1")[0] == 0
    assert len(store.keys_of_sweep("thrice")) == 3
    assert pairlab("sweep", str(file), "--repetitions", "+2")[0] == 0
    assert len(store.keys_of_sweep("thrice")) == 5


def test_a_sweep_of_the_checkout_goes_by_its_name(pairlab, no_notebook, runs_dir):
    status, out, _ = pairlab("sweep", "smoke", "--dry-run")
    assert status == 0
    assert out.splitlines()[:-1] == pairlab("sweep", str(paths.SWEEPS / "smoke.yaml"), "--dry-run")[1].splitlines()[:-1]


def test_a_number_of_attempts_below_one_is_refused(pairlab, tmp_path):
    status, _, said = pairlab("sweep", sweep_file(tmp_path), "--attempts", "0")
    assert (status, "0 is not in the range 1<=x<=100" in said) == (2, True)
