import os
from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from pairlab import paths, store
from pairlab.analysis.figures import files
from pairlab.analysis.output import latex
from pairlab.analysis.output.provenance import (
    Stamp,
    conditions,
    facts_of,
    origin_of,
    stamp_of,
    what_was_read,
    write_atomically,
)
from pairlab.errors import BadInput, StoreError
from pairlab.model.environment import Environment
from pairlab.model.records import SCHEMA, Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs, digest_of, load_runs
from tests.support.runs import made_up
from tests.support.synthetic import run


def test_the_account_names_every_run_that_does_not_count_by_reason(tmp_path):
    store.write(run([1]), tmp_path)
    for repetition in (1, 2):
        late = {"status": "invalid", "reasons": ("the clients started too late",)}
        store.write(run([1], repetition=repetition, **late), tmp_path)
    damaged = store.write(run([1], repetition=3), tmp_path)
    (damaged.path / "flows.parquet").unlink()
    newer = store.write(run([1], repetition=4), tmp_path)
    head = newer.path / "run.json"
    head.write_text(head.read_text().replace(f'"schema": {SCHEMA}', '"schema": 99'))
    told = what_was_read(load_runs(tmp_path)).splitlines()
    assert told[:2] == ["5 runs read, 1 count, 4 left out", "  2 invalid: the clients started too late"]
    assert [line.startswith("    throughput: flowgen over bridge") for line in told[2:4]] == [True, True]
    assert told[4].startswith(f"  damaged: {damaged.path} is not a whole run")
    assert told[5].startswith(f"  newer: {newer.path} was written by a newer pairlab")
    assert len(told) == 6


def test_skipped_runs_are_one_line_each_reason(tmp_path):
    for pairs in (2, 4):
        for driver in ("ovs", "ipip"):
            why = (f"no {driver} here" if driver == "ovs" else f"needs {pairs} cores",)
            store.write(run([1] * pairs, driver=driver, pairs=pairs, status="skipped", reasons=why), tmp_path)
    assert what_was_read(load_runs(tmp_path)).splitlines() == [
        "4 runs read, 0 count, 4 left out",
        "  2 skipped: needs … cores",
        "  2 skipped: no ovs here",
    ]


def test_conditions_say_of_how_many_runs_nobody_knows_whether_they_were_steady(tmp_path):
    for repetition, shift in enumerate([None, None, 0.01]):
        store.write(replace(run([1], repetition=repetition), checks={"shift": shift}), tmp_path)
    assert "steadiness unknown of 2 of 3 runs" in conditions(load_runs(tmp_path))
    steady = load_runs(tmp_path).where(lambda each: not each.steadiness_unknown)
    assert "steadiness" not in conditions(steady)
    store.write(replace(run([1], repetition=3), checks={"shift": 0.3}), tmp_path)
    assert "1 of 4 runs unsteady" in conditions(load_runs(tmp_path))


def test_conditions_name_the_congestion_control_the_seconds_and_the_datapath_of_each_switch(tmp_path):
    for backend, driver, path in [("netns", "ovs", "netdev"), ("uml", "ovs", "system"), ("netns", "bridge", "")]:
        made = run([1], backend=backend, driver=driver, duration_s=10.0)
        network = {"tcp_congestion_control": "bbr", "datapath": path}
        facts = made.facts | {"network": network, "congestion_control": {"in_force": "cubic", "by": "route"}}
        store.write(replace(made, facts=facts), tmp_path)
    runs = load_runs(tmp_path)
    assert conditions(runs) == "TCP cubic, 10 s each, 2 CPUs, ovs in user space (netns), ovs in the kernel (uml)"
    assert conditions(runs.where(backend="uml")) == "TCP cubic, 10 s each, 2 CPUs, ovs in the kernel"
    assert origin_of(runs, tmp_path).conditions == conditions(runs)
    assert conditions(runs.where(driver="bridge")) == "TCP cubic, 10 s each, 2 CPUs"


def test_conditions_name_the_backends_that_were_measured_on_different_machines(tmp_path):
    fast, slow = (Environment(f"{name}, 2 CPUs", f"machine-{name}", "6.18") for name in ("fast", "slow"))
    for backend, environment in (("docker", slow), ("netns", fast), ("uml", fast)):
        store.write(made_up(backend=backend, environment=environment), tmp_path)
    assert "docker and netns/uml on different machines" in conditions(load_runs(tmp_path))
    assert "machines" not in conditions(load_runs(tmp_path).where(lambda run: run.spec.backend != "docker"))
    store.write(made_up(backend="netns", repetition=1, environment=slow), tmp_path)
    assert "docker/netns and netns/uml on different machines" in conditions(load_runs(tmp_path, environment="all"))


def test_conditions_of_a_figure_are_those_of_the_runs_that_it_draws(tmp_path):
    fast, slow = (Environment(f"{name}, 2 CPUs", f"machine-{name}", "6.18") for name in ("fast", "slow"))
    shared = {"hosts": [{"name": "h", "kind": "namespace"}] * 2}
    for environment, backend, hosts, seconds in [
        (slow, "docker", 1, 5),
        (fast, "netns", 1, 10),
        (fast, "netns", 2, 10),
    ]:
        made = made_up(environment=environment, backend=backend, hosts=hosts, duration_s=seconds)
        store.write(replace(made, facts=made.facts | shared) if hosts > 1 else made, tmp_path)
    runs = load_runs(tmp_path)
    every = "5 s (docker) or 10 s (netns) each, 2 CPUs, 2 hosts that share a kernel"
    assert conditions(runs) == f"{every}, docker and netns on different machines"
    of_netns = pd.DataFrame({"backend": ["netns"], "workload": [Spec().workload], "value": [1.0]})
    assert conditions(runs, of_netns) == "10 s each, 2 CPUs, 2 hosts that share a kernel"
    assert conditions(runs, of_netns.assign(hosts=1)) == "10 s each, 2 CPUs"


def test_conditions_of_launches_name_no_seconds(tmp_path):
    store.write(run([1], experiment="launch-time", launches=2), tmp_path)
    assert conditions(load_runs(tmp_path)) == "TCP cubic, 2 CPUs"


def test_conditions_of_udp_alone_name_no_congestion_control(tmp_path):
    store.write(run([1], udp_share=1.0), tmp_path)
    assert conditions(load_runs(tmp_path)) == "udp share 1, 2 s each, 2 CPUs"


def test_the_testbeds_congestion_control_is_that_of_the_runs_that_do_not_vary_it(tmp_path):
    for repetition, control in enumerate(("cubic", "reno")):
        store.write(run([1], repetition=repetition, congestion_control=control), tmp_path)
    assert facts_of(load_runs(tmp_path))["congestion-control"] == "cubic"


def test_the_origin_counts_what_counts_and_tells_the_days_of_measuring(campaign):
    found = origin_of(load_runs(campaign), campaign)
    assert found.label == "campaign"
    assert found.runs == 70
    assert str(found).startswith("70 runs of campaign, measured 2024-05-01, keys ")


def test_other_runs_have_another_digest(tmp_path):
    store.write(run([1]), tmp_path)
    one = origin_of(load_runs(tmp_path), tmp_path)
    again = origin_of(load_runs(tmp_path), tmp_path)
    store.write(run([1], repetition=1), tmp_path)
    two = origin_of(load_runs(tmp_path), tmp_path)
    assert one == again
    assert one.digest != two.digest


def test_a_part_of_the_runs_keeps_the_digest_of_all_that_was_loaded(tmp_path):
    for repetition in (0, 1):
        store.write(run([1], repetition=repetition), tmp_path)
    loaded = load_runs(tmp_path)
    part = loaded.where(lambda each: each.spec.repetition == 0)
    assert len(part) == 1
    assert part.digest == loaded.digest != digest_of(part)


def test_a_file_carries_the_stamp_of_its_experiments_and_runs(tmp_path, out):
    store.write(run([1]), tmp_path)
    store.write(run([1], experiment="fct"), tmp_path)
    loaded = load_runs(tmp_path, experiment=["throughput", "fct"])
    whole, of_both = origin_of(load_runs(tmp_path), tmp_path), origin_of(loaded, tmp_path)
    one = origin_of(load_runs(tmp_path, experiment="fct"), tmp_path)
    digest = loaded.digest
    axes = plt.subplots(figsize=(2, 2))[1]
    axes.plot([0, 1], [0, 1])
    for origin, experiments in ((whole, ()), (of_both, ("throughput", "fct")), (one, ("fct",))):
        written = files.save(axes.figure, "some_(figure)", origin)
        values = latex.Values("some")
        values.number("key", 1, 0)
        written.append(values.write("01-some", origin))
        for file in written:
            assert stamp_of(file) == Stamp(experiments, digest if experiments != ("fct",) else one.digest), file
    (tmp_path / "other.tex").write_text("made by hand")
    assert stamp_of(tmp_path / "other.tex") is None
    assert one.digest == digest_of(loaded, ["fct"]) != digest


def test_the_sweep_names_the_label_and_a_folder_inside_the_checkout_is_told_relative(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STUDY", tmp_path)
    store.write(run([1]), tmp_path / "runs" / "my runs")
    runs = load_runs(tmp_path / "runs" / "my runs")
    assert origin_of(runs, "runs/my runs", "smoke").label == "smoke"
    assert origin_of(runs, "runs/my runs").label == "my-runs"
    assert origin_of(runs, "runs/my runs").folder == "runs/my runs"


def test_a_folder_without_a_name_cannot_label_anything(tmp_path):
    store.write(run([1]), tmp_path)
    with pytest.raises(BadInput, match="no name to label"):
        origin_of(load_runs(tmp_path), "/")


def test_the_testbed_is_told_from_the_facts_and_what_is_missing_is_said(tmp_path):
    store.write(run([1]), tmp_path)
    runs = load_runs(tmp_path)
    assert facts_of(runs)["memory"] == "4.0 GiB"
    assert facts_of(runs)["congestion-control"] == "cubic"
    object.__setattr__(runs.runs[0], "facts", {"host": None})
    assert set(facts_of(runs).values()) == {"not recorded"}


def test_who_may_read_a_written_file_is_what_the_umask_says(tmp_path):
    before = os.umask(0o077)
    try:
        written = write_atomically(tmp_path / "values.tex", b"1")
    finally:
        os.umask(before)
    assert written.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_a_clear_error_and_leaves_no_draft(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(StoreError, match="could not be written: Is a directory"):
        write_atomically(tmp_path / "taken", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_runs_left_out_for_one_kind_of_reason_are_told_together_each_with_its_numbers():
    load = [f"other processes took {share}% of the CPU time, and max_foreign_cpu is 0.1" for share in ("12.5", "80.0")]
    hung = "3 clients hung"
    invalid = [Run(Spec(seed=seed), "invalid", (why,)) for seed, why in enumerate([*load, hung, hung])]
    told = what_was_read(Runs(tuple(invalid)))
    lines = told.splitlines()
    assert lines[0] == "4 runs read, 0 count, 4 left out"
    assert "  2 invalid: 3 clients hung" in lines
    assert "  2 invalid: other processes took … of the CPU time, and max_foreign_cpu is …" in lines
    assert sum(line.endswith(tuple(load)) for line in lines) == 2
