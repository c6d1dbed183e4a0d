"""The store: a run comes back as it was written, alone and among many."""

import json

import pandas as pd
import pytest

from pairlab import paths, store
from pairlab.collection import Runs, load_runs
from pairlab.errors import MixedHosts, NoRuns
from pairlab.records import TABLES, Run, table
from pairlab.spec import Spec
from tests.runs import WHEN, files_below, made_up, rate_of

# --- writing and reading again


def test_a_run_comes_back_as_it_was_written(tmp_path):
    run = made_up(5e9, driver="ovs", raw={"client-0.out": "naïve\r\nline\n", "server-0.err": "x"})
    stored = store.write(run, tmp_path)
    assert stored.path == tmp_path / "throughput" / run.key
    assert (stored.spec, stored.status, stored.reasons, stored.measured_at) == (run.spec, "ok", (), WHEN)
    assert (stored.skew_s, stored.harness_cpu_s, stored.times_s) == (0.001, 0.02, {"up_s": 0.25})
    assert stored.facts == {"host": {"fingerprint": "a machine"}}
    assert sorted(stored.raw) == ["client-0.out", "server-0.err"]
    assert (stored.path / "raw" / "client-0.out").read_bytes() == "naïve\r\nline\n".encode()
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(stored, name), getattr(run, name))


def test_what_was_not_measured_comes_back_as_missing(tmp_path):
    stored = store.write(Run(Spec(), "skipped", ("no such thing here",)), tmp_path)
    assert (stored.measured_at, stored.reasons) == (None, ("no such thing here",))
    assert stored.skew_s != stored.skew_s
    assert json.loads((stored.path / "run.json").read_text())["skew_s"] is None
    assert (len(stored.flows), dict(stored.raw)) == (0, {})


def test_a_stored_run_holds_just_the_files_that_the_design_names(tmp_path):
    store.write(made_up(raw={"client-0.out": "x"}), tmp_path)
    key = Spec(duration_s=2).key
    assert files_below(tmp_path) == [
        f"throughput/{key}/{name}"
        for name in ("cpu.parquet", "flows.parquet", "intervals.parquet", "raw/client-0.out", "run.json")
    ]


def test_a_relative_pairlab_runs_counts_from_the_checkout_wherever_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAIRLAB_RUNS", "runs/elsewhere")
    assert store.directory_of(Spec()) == paths.ROOT / "runs" / "elsewhere" / "throughput" / Spec().key
    monkeypatch.delenv("PAIRLAB_RUNS")
    assert paths.runs() == paths.ROOT / "runs"


def test_the_folder_of_runs_is_the_one_that_pairlab_runs_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLAB_RUNS", str(tmp_path / "elsewhere"))
    assert store.write(made_up()).path.parent.parent == tmp_path / "elsewhere"
    assert len(load_runs()) == 1


def test_a_run_measured_again_replaces_the_old_one_which_is_kept(tmp_path):
    old = store.write(made_up(1e9), tmp_path)
    new = store.write(made_up(2e9), tmp_path)
    assert old.path == new.path
    assert rate_of(store.read(new.path)) == 2e9
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert kept.name.startswith(f"{old.key}-")
    assert rate_of(store.read(kept)) == 1e9
    assert len(load_runs(tmp_path)) == 1


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
        with pytest.raises(NoRuns, match=f"no runs in {place}: measure some, for instance with `make run`"):
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
    assert list(flows.columns) == ["key", *asked.values(), *TABLES["flows"]]
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


def test_chosen_columns_are_those_of_the_whole_table_with_texts_and_specs_as_categories(tmp_path):
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
    assert plain == {"throughput_bps", "fct_s", "pair"}
    pd.testing.assert_frame_equal(chosen.astype(dict(found.flows[wanted].dtypes)), found.flows[wanted])


def test_long_tables_come_back_as_they_were_written(tmp_path):
    rows = [
        {"pair": pair, "flow": 0, "status": "ok" if pair % 7 else "failed", "error": "" if pair % 7 else f"no {pair}"}
        for pair in range(3000)
    ]
    run = Run(Spec(duration_s=2), "ok", flows=table("flows", rows))
    pd.testing.assert_frame_equal(store.write(run, tmp_path).flows, run.flows)
    chosen = load_runs(tmp_path).select("flows", ["error", "status"])
    assert list(chosen["error"]) == list(run.flows["error"])
    assert list(chosen["status"]) == list(run.flows["status"])


def test_values_of_the_spec_alone_can_be_chosen_too(tmp_path):
    store.write(made_up(driver="ovs", pairs=4), tmp_path)
    chosen = load_runs(tmp_path).select("flows", ["pairs", "driver"])
    assert chosen.to_dict("list") == {"pairs": [4], "driver": ["ovs"]}


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
    for name in TABLES:
        (run.path / f"{name}.parquet").rename(run.path / f"{name}.elsewhere")
    assert run.status == "ok"
    for name in TABLES:
        (run.path / f"{name}.elsewhere").rename(run.path / f"{name}.parquet")
    assert rate_of(run) == 1e9
    assert run.flows is run.flows


def test_runs_of_different_hosts_are_not_pooled_unless_meant(tmp_path):
    store.write(made_up(pairs=1, host="a machine"), tmp_path)
    store.write(made_up(pairs=2, host="another"), tmp_path)
    with pytest.raises(MixedHosts, match=r"2 different hosts \(a machine; another\).*pool_hosts=True"):
        load_runs(tmp_path)
    assert set(load_runs(tmp_path, pool_hosts=True).index["host"]) == {"a machine", "another"}


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
    assert list(store.debris(tmp_path, with_replaced=True)) == []


def test_replaced_runs_are_debris_only_when_asked_for(tmp_path):
    store.write(made_up(1e9), tmp_path)
    store.write(made_up(2e9), tmp_path)
    assert list(store.debris(tmp_path)) == []
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert list(store.debris(tmp_path, with_replaced=True)) == [(kept, "replaced")]
