"""The store: a run comes back as it was written, alone and among many."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from zipfile import ZipFile

import pandas as pd
import pytest

from pairlab import paths, store
from pairlab.errors import DamagedRun, NoRuns, UnknownName
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES, table
from pairlab.store.dataset import Runs, load_runs
from pairlab.store.paths import untagged
from tests.support.runs import WHEN, files_below, made_up, rate_of

# --- writing and reading again


def test_a_run_comes_back_as_it_was_written(tmp_path):
    run = made_up(5e9, driver="ovs", raw={"client-0.out": "naïve\r\nline\n", "server-0.err": "x"})
    stored = store.write(run, tmp_path)
    assert (stored.path.parent, untagged(stored.path.name)) == (tmp_path / "throughput", run.key)
    assert (stored.spec, stored.status, stored.reasons, stored.measured_at) == (run.spec, "ok", (), WHEN)
    assert (stored.skew_s, stored.harness_cpu_s, stored.times_s) == (0.001, 0.02, {"up_s": 0.25})
    assert stored.facts == run.facts
    assert sorted(stored.raw) == ["client-0.out", "server-0.err"]
    assert stored.raw["client-0.out"] == "naïve\r\nline\n"
    assert ZipFile(stored.path / "raw.zip").read("client-0.out") == "naïve\r\nline\n".encode()
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(stored, name), getattr(run, name))


def test_the_tools_output_of_an_older_run_is_in_files_of_their_own(tmp_path):
    stored = store.write(made_up(5e9, raw={"client-0.out": "new"}), tmp_path)
    (stored.path / "raw.zip").unlink()
    assert dict(store.read(stored.path).raw) == {}
    (stored.path / "raw").mkdir()
    (stored.path / "raw" / "client-0.out").write_text("old\r\n", newline="")
    assert dict(store.read(stored.path).raw) == {"client-0.out": "old\r\n"}


def test_the_same_output_is_stored_as_the_same_bytes(tmp_path):
    raw = {"client-0.out": "x" * 1000, "server-0.out": "y"}
    one, two = (store.write(made_up(5e9, raw=raw), tmp_path / name).path / "raw.zip" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_size < 500


def test_captured_packets_come_back_as_bytes_from_a_folder_and_from_a_pack(tmp_path):
    raw = {"client-0.out": "said", "client-0.pcap": bytes(range(256))}
    stored = store.write(made_up(5e9, raw=raw), tmp_path)
    assert dict(stored.raw) == raw
    pack = store.pack("throughput", tmp_path, tmp_path / "packs").path
    (packed,) = load_runs(pack.parent)
    assert dict(packed.raw) == raw


def test_a_profile_comes_back_too_and_is_missed_where_it_was(tmp_path):
    rows = [{"stack": "iperf;tcp_sendmsg", "samples": 7}, {"stack": "iperf;[user]", "samples": 2}]
    run = replace(made_up(profile=True), profile=table("profile", rows))
    stored = store.write(run, tmp_path)
    pd.testing.assert_frame_equal(stored.profile, run.profile)
    joined = load_runs(tmp_path).select("profile", ["driver", "stack", "samples"])
    assert joined["samples"].to_list() == [7, 2]
    assert joined["stack"].to_list() == ["iperf;tcp_sendmsg", "iperf;[user]"]
    (stored.path / "profile.parquet").unlink()
    with pytest.raises(DamagedRun, match=r"profile\.parquet has 0 rows and should have 2"):
        store.read(stored.path)


def test_runs_with_a_profile_and_without_are_joined(tmp_path):
    store.write(made_up(pairs=1), tmp_path)
    store.write(replace(made_up(pairs=2), profile=table("profile", [{"stack": "x", "samples": 1}])), tmp_path)
    assert load_runs(tmp_path).select("profile", ["pairs", "stack"]).to_numpy().tolist() == [[2, "x"]]


def test_what_was_not_measured_comes_back_as_missing(tmp_path):
    stored = store.write(Run(Spec(), "skipped", ("no such thing here",)), tmp_path)
    assert (stored.measured_at, stored.reasons) == (None, ("no such thing here",))
    assert stored.skew_s != stored.skew_s
    assert json.loads((stored.path / "run.json").read_text())["skew_s"] is None
    assert (len(stored.flows), dict(stored.raw)) == (0, {})


def test_a_stored_run_holds_just_the_files_that_the_design_names(tmp_path):
    run = store.write(made_up(raw={"client-0.out": "x"}), tmp_path)
    assert re.fullmatch(f"{Spec(duration_s=2).key}-[0-9a-f]{{8}}", run.path.name)
    assert files_below(tmp_path) == [
        f"throughput/{run.path.name}/{name}"
        for name in ("cpu.parquet", "flows.parquet", "intervals.parquet", "raw.zip", "run.json")
    ]


def test_a_relative_pairlab_runs_counts_from_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAIRLAB_RUNS", "runs/elsewhere")
    assert store.directory_of(Spec()) == tmp_path / "runs" / "elsewhere" / "throughput" / Spec().key
    monkeypatch.delenv("PAIRLAB_RUNS")
    assert paths.runs() == paths.ROOT / "runs"


def test_a_relative_folder_of_runs_is_that_of_the_current_directory_else_of_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store.write(made_up(), tmp_path / "theirs")
    assert load_runs("theirs").root == tmp_path / "theirs"
    assert paths.existing("runs/reference") == paths.REFERENCE  # as notebooks name it
    (tmp_path / "runs" / "reference").mkdir(parents=True)
    assert paths.existing("runs/reference") == tmp_path / "runs" / "reference"


def test_where_there_are_no_runs_the_message_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoRuns, match=f"^no runs in {tmp_path}/mine or {paths.ROOT}/mine: measure some"):
        load_runs("mine")
    (tmp_path / "mine").mkdir()
    with pytest.raises(NoRuns, match=f"^no runs in {tmp_path}/mine: measure some"):
        load_runs("mine")


def test_a_process_that_is_started_elsewhere_sees_the_folders_that_relative_variables_name(tmp_path):
    program = "import os, pairlab.paths; os.chdir('/'); print(os.environ['PAIRLAB_RUNS'], pairlab.paths.runs())"
    environment = os.environ | {"PAIRLAB_RUNS": "mine"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == 2 * [f"{tmp_path}/mine"]


def test_a_run_that_is_not_ok_makes_room_for_the_next_one_and_is_kept(tmp_path):
    old = store.write(made_up(1e9, status="invalid", reasons=("apart",)), tmp_path)
    new = store.write(made_up(2e9), tmp_path)
    assert old.path == new.path
    assert rate_of(store.read(new.path)) == 2e9
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert kept.name.startswith(f"{old.key}-")
    assert rate_of(store.read(kept)) == 1e9
    assert len(load_runs(tmp_path)) == 1


def test_a_run_measured_again_stays_as_a_repetition_of_its_cell(tmp_path):
    first = store.write(made_up(1e9), tmp_path)
    other = store.write(made_up(7e9, repetition=4), tmp_path)
    second = store.write(made_up(2e9, at=WHEN + timedelta(hours=1)), tmp_path)
    third = store.write(made_up(3e9, at=WHEN + timedelta(hours=2)), tmp_path)
    names = [untagged(run.path.name) for run in (first, second, third)]
    assert names == [first.key, f"{first.key}.2", f"{first.key}.3"]
    assert second.key == f"{first.key}.2"
    found = load_runs(tmp_path)
    rates = {run.spec.repetition: rate_of(run) for run in found}
    assert rates == {0: 3e9, 4: 7e9, 5: 1e9, 6: 2e9}  # the newest keeps its number
    assert set(found.flows["repetition"]) == {0, 4, 5, 6}
    assert found.index["key"].is_unique
    assert rate_of(found[second.key]) == 2e9
    assert rate_of(store.find(first.spec, tmp_path)) == 3e9
    assert len(found.where(key=other.key)) == 1


def test_a_run_that_is_not_ok_never_hides_one_that_is(tmp_path):
    store.write(made_up(1e9), tmp_path)
    spoilt = store.write(made_up(2e9, status="invalid", reasons=("apart",), at=WHEN + timedelta(hours=1)), tmp_path)
    assert rate_of(store.find(spoilt.spec, tmp_path)) == 1e9
    assert store.status(spoilt.spec, tmp_path) == "ok"
    assert store.latest(spoilt.spec, tmp_path).path == spoilt.path
    assert load_runs(tmp_path).index.set_index("status")["repetition"].to_dict() == {"ok": 0, "invalid": 1}
    store.write(made_up(3e9), tmp_path)
    names = [untagged(place.name) for place in store.directories_of(spoilt.spec, tmp_path)]
    assert names == [spoilt.spec.key, spoilt.key]


def test_a_run_on_another_environment_lies_beside_the_older_one_and_each_is_found_on_its_own(tmp_path):
    old, new = (Environment(host="a machine, 2 CPUs", kernel=kernel) for kernel in ("6.1", "6.18"))
    first = store.write(made_up(1e9, status="failed", reasons=("no",), environment=old), tmp_path)
    store.write(made_up(2e9, environment=new), tmp_path)
    assert store.read(first.path).status == "failed"
    assert rate_of(store.find(first.spec, tmp_path, new)) == 2e9
    assert (store.status(first.spec, tmp_path, old), store.status(first.spec, tmp_path, new)) == ("failed", "ok")
    assert store.find(first.spec, tmp_path, Environment(kernel="6.12")) is None
    store.write(made_up(3e9, environment=old), tmp_path)
    assert rate_of(store.find(first.spec, tmp_path, old)) == 3e9
    assert store.find(first.spec, tmp_path, old).path == first.path


def test_an_executed_notebook_is_kept_beside_its_run(tmp_path):
    run = store.write(made_up(), tmp_path / "runs")
    notebook = tmp_path / "executed.ipynb"
    notebook.write_text("{}")
    store.attach_notebook(run, notebook)
    assert (run.path / "notebook.ipynb").read_text() == "{}"
    assert store.read(run.path).status == "ok"


# --- loading many


def test_no_runs_names_the_folder_and_how_to_get_some(tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NoRuns, match=f"no runs in {place}: measure some, for instance with `pairlab run thr"):
            load_runs(place)
    store.write(made_up(), tmp_path)
    for strange in ("fct", "/tmp", "*", "../.."):
        with pytest.raises(NoRuns, match="no runs of"):
            load_runs(tmp_path, experiment=strange)


def test_runs_of_one_experiment_are_picked_by_its_whole_name(tmp_path):
    store.write(made_up(), tmp_path)
    store.write(made_up(experiment="through"), tmp_path)
    assert [run.spec.experiment for run in load_runs(tmp_path, experiment="through")] == ["through"]
    assert len(load_runs(tmp_path)) == 2


def test_only_runs_that_are_ok_are_in_the_tables_and_the_others_are_told(tmp_path):
    store.write(made_up(1e9, pairs=1), tmp_path)
    store.write(made_up(2e9, pairs=2, status="invalid", reasons=("started too far apart",)), tmp_path)
    store.write(made_up(pairs=3, status="failed", reasons=("no server", "no client")), tmp_path)
    store.write(made_up(pairs=4, status="skipped", reasons=("no ovs here",)), tmp_path)
    found = load_runs(tmp_path)
    assert list(found.flows["throughput_bps"]) == [1e9]
    assert list(found.flows["pairs"]) == [1]
    left_out = found.left_out.set_index("pairs")
    assert dict(left_out["status"]) == {2: "invalid", 3: "failed", 4: "skipped"}
    assert left_out["reasons"][3] == "no server; no client"
    assert len(found.index) == len(found) == 4


def test_runs_of_which_none_is_ok_make_no_table_and_say_why(tmp_path):
    store.write(made_up(status="failed", reasons=("no server",)), tmp_path)
    with pytest.raises(NoRuns, match="none of the 1 runs is ok: no server"):
        load_runs(tmp_path).flows  # noqa: B018


def test_tables_carry_the_spec_of_each_row(tmp_path):
    store.write(made_up(1e9, driver="ovs", pairs=1), tmp_path)
    store.write(made_up(2e9, driver="bridge", pairs=2), tmp_path)
    flows = load_runs(tmp_path).flows
    asked = {name: f"asked_{name}" if name in TABLES["flows"] else name for name in Spec.model_fields}
    assert list(flows.columns) == ["key", *asked.values(), "host", "kernel", "block", *TABLES["flows"]]
    assert list(flows["asked_duration_s"]) == [2.0, 2.0]
    assert dict(zip(flows["driver"], flows["throughput_bps"], strict=True)) == {"ovs": 1e9, "bridge": 2e9}


def test_columns_that_came_after_a_run_was_written_are_missing_and_the_others_are_as_they_were(tmp_path):
    old = store.write(made_up(1e9, pairs=1), tmp_path)
    store.write(made_up(2e9, pairs=2), tmp_path)
    file = old.path / "flows.parquet"
    assert "protocol" not in pd.read_parquet(file)  # as if it had come later: what says nothing is not stored
    found = load_runs(tmp_path)
    assert list(found.flows["protocol"]) == ["", ""]
    assert found.flows["fct_s"].isna().all()
    assert sorted(found.flows["throughput_bps"]) == [1e9, 2e9]
    for run in found:
        assert dict(run.flows.dtypes) == dict(table("flows").dtypes)


def test_chosen_columns_are_those_of_the_whole_table_with_texts_as_categories_and_numbers_as_such(tmp_path):
    for driver, pairs in (("ovs", 1), ("bridge", 2)):
        store.write(made_up(pairs * 1e9, driver=driver, pairs=pairs), tmp_path)
    store.write(made_up(status="invalid", reasons=("apart",), pairs=3), tmp_path)
    found = load_runs(tmp_path)
    file = found.runs[0].path / "flows.parquet"
    pd.read_parquet(file).drop(columns=["role", "fct_s"], errors="ignore").to_parquet(file, index=False)
    wanted = ["key", "throughput_bps", "status", "pairs", "driver", "role", "asked_duration_s", "fct_s", "pair"]
    chosen = found.select("flows", wanted)
    assert list(chosen) == wanted
    plain = {name for name in chosen if chosen[name].dtype != "category"}
    assert plain == {"throughput_bps", "fct_s", "pair", "pairs", "asked_duration_s"}
    assert (chosen["pairs"] > 0).all()
    pd.testing.assert_frame_equal(chosen.astype(dict(found.flows[wanted].dtypes)), found.flows[wanted])


def test_a_column_that_there_is_not_is_named_with_those_that_there_are(tmp_path):
    store.write(made_up(), tmp_path)
    with pytest.raises(KeyError, match=r"cpu has no column fct_s, speed; there are: key, .*usr, sys"):
        load_runs(tmp_path).select("cpu", ["usr", "fct_s", "speed"])


def test_runs_in_memory_and_runs_on_disk_are_joined_alike(tmp_path):
    stored, fresh = store.write(made_up(1e9, pairs=1), tmp_path), made_up(2e9, pairs=2)
    found = Runs((stored, fresh))
    assert list(found.flows["throughput_bps"]) == [1e9, 2e9]
    assert list(found.select("flows", ["status", "throughput_bps"])["status"]) == ["ok", "ok"]


def test_a_run_that_is_read_keeps_no_table_open_or_in_memory_until_asked(tmp_path):
    run = store.write(made_up(), tmp_path)
    files = sorted(run.path.glob("*.parquet"))
    for file in files:
        file.rename(file.with_suffix(".elsewhere"))
    assert run.status == "ok"
    for file in files:
        file.with_suffix(".elsewhere").rename(file)
    assert rate_of(run) == 1e9
    assert run.flows is run.flows


def test_of_runs_of_several_environments_only_those_of_the_newest_are_taken_and_the_others_are_named(tmp_path):
    store.write(made_up(pairs=1, host="a machine"), tmp_path)
    store.write(made_up(pairs=2, host="another", at=WHEN + timedelta(hours=1)), tmp_path)
    store.write(made_up(pairs=3, host="another"), tmp_path)
    found = load_runs(tmp_path)
    assert set(found.flows["pairs"]) == {2, 3}
    assert found.elsewhere == ("measured otherwise: 1 run, a machine; the others: another",)
    assert found.elsewhere[0] in str(found)
    everything = load_runs(tmp_path, environment="all")
    assert (len(everything), everything.elsewhere) == (3, ())
    assert everything.index.set_index("pairs")["host"].to_dict() == {1: "a machine", 2: "another", 3: "another"}
    assert set(everything.where(host="a machine").flows["pairs"]) == {1}
    with pytest.raises(UnknownName, match="no environment 'old'; there are: newest, all"):
        load_runs(tmp_path, environment="old")


def test_hosts_of_two_kinds_are_two_environments_of_one_question(tmp_path):
    for hours, kind in enumerate(("physical", "virtual")):
        store.write(made_up(host_kind=kind, host=f"{kind} one", at=WHEN + timedelta(hours=hours)), tmp_path)
    found = load_runs(tmp_path)
    assert dict(found.index[["host_kind", "host"]].to_numpy()) == {"physical": "physical one", "virtual": "virtual one"}
    assert "compare within each" in found.places


def test_each_backend_has_its_newest_place_and_it_is_told_where_these_differ(tmp_path):
    old, new = Environment(host="a machine, 2 CPUs", kernel="6.1"), Environment(host="a machine, 2 CPUs", kernel="6.18")
    store.write(made_up(pairs=1, backend="netns", environment=old), tmp_path)
    store.write(made_up(pairs=2, backend="docker", environment=old, at=WHEN + timedelta(hours=1)), tmp_path)
    assert load_runs(tmp_path).places == ""
    store.write(made_up(pairs=3, backend="docker", environment=new, at=WHEN + timedelta(hours=2)), tmp_path)
    found = load_runs(tmp_path)
    assert set(found.index["pairs"]) == {1, 3}
    assert found.elsewhere == (
        "measured otherwise: 1 run, a machine, 2 CPUs, kernel 6.1; the others: a machine, 2 CPUs, kernel 6.18",
    )
    assert (
        str(found).splitlines()[-1]
        == found.places
        == (
            "not all was measured in the same place, so compare within each:"
            " docker (throughput) on a machine, 2 CPUs, kernel 6.18;"
            " netns (throughput) on a machine, 2 CPUs, kernel 6.1"
        )
    )


def test_paper_ms_experiments_have_their_newest_place_and_leave_the_others_theirs(tmp_path):
    old, new = Environment(host="a machine, 2 CPUs", kernel="6.1"), Environment(host="a machine, 2 CPUs", kernel="6.18")
    later = WHEN + timedelta(hours=1)
    store.write(made_up(pairs=1, environment=old), tmp_path)
    store.write(made_up(pairs=2, experiment="placement", environment=old), tmp_path)
    store.write(made_up(pairs=3, experiment="placement", environment=new, at=later), tmp_path)
    store.write(made_up(pairs=4, experiment="congestion", environment=old), tmp_path)  # held against placement
    found = load_runs(tmp_path)
    assert set(found.index["pairs"]) == {1, 3}
    assert len(found.elsewhere) == 1
    assert found.elsewhere[0].startswith("measured otherwise: 2 runs")
    assert "netns (placements) on a machine, 2 CPUs, kernel 6.18" in found.places


def test_the_newest_tools_of_each_system_count_and_other_systems_keep_theirs(tmp_path):
    here = Environment(host="a machine, 2 CPUs", kernel="6.18")
    for pairs, tool in ((1, "iperf 2.1"), (2, "iperf 2.2")):
        run = made_up(
            pairs=pairs, workload="iperf", environment=here._replace(tool=tool), at=WHEN + timedelta(hours=pairs)
        )
        store.write(run, tmp_path)
    store.write(made_up(pairs=3, workload="flowgen", environment=here._replace(tool="flowgen 0.1")), tmp_path)
    assert set(load_runs(tmp_path).index["pairs"]) == {2, 3}


def test_a_trial_of_a_changed_plugin_displaces_runs_of_its_own_experiment_only_and_the_newest_code_is_named(tmp_path):
    here = Environment(host="a machine, 2 CPUs", kernel="6.18")
    for hours, (experiment, code) in enumerate([("islands", "0ld"), ("throughput", "0ld"), ("throughput", "new")]):
        environment = here._replace(code=code)
        run = made_up(experiment=experiment, environment=environment, at=WHEN + timedelta(hours=hours))
        store.write(run, tmp_path)
    found = load_runs(tmp_path)
    assert sorted((run.spec.experiment, run.environment.code) for run in found) == [
        ("islands", "0ld"),
        ("throughput", "new"),
    ]
    (line,) = found.elsewhere
    assert "own code 0ld; the others: a machine, 2 CPUs, kernel 6.18, own code new" in line


def test_runs_are_a_sequence(tmp_path):
    for pairs in (1, 2, 3):
        store.write(made_up(pairs * 1e9, pairs=pairs, driver="ovs" if pairs == 2 else "bridge"), tmp_path)
    found = load_runs(tmp_path)
    assert found[0] is next(iter(found))
    assert found[-1] is list(found)[2]
    assert [run.key for run in found[1:]] == [run.key for run in found][1:]
    assert (found[1:].digest, found[1:].root) == (found.digest, found.root)
    assert found[found[1].key] is found[1]
    assert [rate_of(run) for run in found.where(pairs=2)] == [2e9]
    assert {run.spec.pairs for run in found.where(pairs=range(2, 9), status="ok")} == {2, 3}
    assert {run.spec.pairs for run in found.where(lambda run: run.spec.pairs > 1, driver="bridge")} == {3}
    assert len(found.where(pairs=77)) == 0


def test_what_runs_do_not_have_is_said_in_words(tmp_path):
    found = Runs((store.write(made_up(), tmp_path),))
    for asked, error, words in (
        (lambda: found[1], IndexError, "no run 1: there are 1"),
        (lambda: found["0"], KeyError, "no run has the key '0'"),
        (lambda: found[1.5], TypeError, "by number, slice or key, not by float"),
        (lambda: found.where(pair=2), UnknownName, "runs have no 'pair'; did you mean 'pairs'?"),
        (lambda: found.where("pairs == 2"), TypeError, "a function of a run, or values by name such as pairs=2"),
        (lambda: found.flow, AttributeError, "a set of runs has no 'flow'; did you mean 'flows'?"),
        (
            lambda: found[0].throughput,
            AttributeError,
            "a run has no 'throughput'; did you mean 'total_throughput_bps'?",
        ),
    ):
        with pytest.raises(error, match=re.escape(words)):
            asked()


def test_a_skipped_run_of_another_host_pools_nothing(tmp_path):
    store.write(made_up(pairs=1), tmp_path)
    store.write(made_up(pairs=2, host="", status="skipped", reasons=("no ovs",)), tmp_path)
    assert len(load_runs(tmp_path)) == 2


def test_foreign_files_among_the_runs_are_let_be(tmp_path):
    run = store.write(made_up(), tmp_path)
    (tmp_path / "README").write_text("mine")
    (tmp_path / "throughput" / "notes").mkdir()
    (tmp_path / "throughput" / "0123456789abcdef").write_text("a file of that name")
    assert store.directories(tmp_path) == [run.path]
    assert list(store.leftovers(tmp_path, with_replaced=True)) == []
