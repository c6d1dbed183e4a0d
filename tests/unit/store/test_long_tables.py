"""Long tables, as of millions of flows: they come back whole, and neither all are kept nor all of each is read."""

import gc
import weakref
from collections import deque

import pandas as pd

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import summaries
from pairlab.model.tables import table
from pairlab.store import runs as store_runs
from pairlab.store import tables
from pairlab.store.dataset import load_runs
from tests.support.runs import made_up


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


def test_of_long_tables_only_the_last_that_were_read_stay_in_memory(tmp_path, monkeypatch):
    for pairs in range(1, 9):
        store.write(made_up(pairs * 1e9, pairs=pairs), tmp_path)
    runs = load_runs(tmp_path)
    assert runs[0].flows is runs[0].flows
    monkeypatch.setattr(store_runs, "_MANY_ROWS", 0)
    monkeypatch.setattr(store_runs, "_NEWEST", deque(maxlen=2))
    assert runs[1].flows is runs[1].flows
    seen = [weakref.ref(run.flows) for run in runs[1:]]
    gc.collect()
    assert [each() is not None for each in seen] == [False] * 5 + [True] * 2
    assert [run.flows["throughput_bps"].sum() for run in runs] == [run.spec.pairs * 1e9 for run in runs]


def test_of_a_long_table_what_runs_are_compared_by_reads_its_columns_alone(tmp_path, monkeypatch):
    kept = made_up(5e9, flow_bytes=1_000_000)
    stored, read = store.write(kept, tmp_path), []
    monkeypatch.setattr(store_runs, "_MANY_ROWS", 0)
    monkeypatch.setattr(tables, "frame", lambda place, name, own=(): read.append(name))
    found = (stored.failed_flows, stored.total_throughput_bps, stored.outcome, summaries(stored))
    assert found == (kept.failed_flows, kept.total_throughput_bps, kept.outcome, summaries(kept))
    assert not stored.sends_nothing
    assert "flows" not in read


def test_columns_of_a_long_table_are_those_of_the_whole(tmp_path, monkeypatch):
    stored, wanted = store.write(made_up(5e9), tmp_path), ["status", "throughput_bps", "pair"]
    whole = stored.columns("flows", wanted)[wanted]  # of a short one, others come along
    monkeypatch.setattr(store_runs, "_MANY_ROWS", 0)
    again = store.read(stored.path).columns("flows", wanted)
    pd.testing.assert_frame_equal(again.astype(dict(whole.dtypes)), whole)
    assert list(again["status"]) == list(whole["status"])
