import pytest

from pairlab import paths, store
from pairlab.analysis.origin import account, facts_of, origin_of, write_atomically
from pairlab.collection import load_runs
from pairlab.errors import BadInput, StoreError

from .synthetic import run


def test_the_account_names_every_run_that_does_not_count(tmp_path):
    store.write(run([1]), tmp_path)
    store.write(run([1], repetition=1, status="invalid", reasons=("the clients started too late",)), tmp_path)
    damaged = store.write(run([1], repetition=2), tmp_path)
    (damaged.path / "flows.parquet").unlink()
    told = account(load_runs(tmp_path))
    assert told.startswith("3 runs read, 1 count, 2 left out\n")
    assert "invalid: throughput: flowgen over bridge" in told
    assert "the clients started too late" in told
    assert f"damaged: {damaged.path} is not a whole run" in told


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


def test_the_sweep_names_the_label_and_a_folder_inside_the_checkout_is_told_relative(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
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


def test_a_file_that_cannot_be_written_is_a_clear_error_and_leaves_no_draft(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(StoreError, match="could not be written: Is a directory"):
        write_atomically(tmp_path / "taken", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
