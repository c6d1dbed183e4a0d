"""The flows of many runs in parts: what comes of them is what comes of all at once, and few are read at a time."""

import threading
from functools import partial

import pandas as pd
import pytest

from pairlab.analysis import flow_changes, flow_parts
from pairlab.analysis.flow_parts import Part
from pairlab.analysis.questions import fct, traffic
from pairlab.errors import DamagedRun
from pairlab.model.tables import TABLES
from pairlab.store.dataset import Runs, load_runs
from tests.support.synthetic_flows import run_of_flows, write_fct

REDUCTIONS = {
    "percentiles": fct.percentiles,
    "intended": partial(fct.percentiles, value="intended_fct_s"),
    "cdfs": lambda flows: fct.percentiles_and_cdfs(flows)[1],
    "changes by pairs": flow_changes.by_pairs,
    "changes by driver": flow_changes.by_driver,
    "distributions": flow_changes.distributions,
    "tools": flow_changes.by_workload,
    "phases": fct.phases,
    "failures": fct.failures,
    "traffic's percentiles": partial(traffic.percentiles, confidence=0.9),
    "traffic's CDFs": traffic.cdfs,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_fct(tmp_path_factory.mktemp("runs") / "times", pairs=(10, 50))


@pytest.fixture(scope="module")
def found(root):
    return load_runs(root)


@pytest.fixture
def in_parts(monkeypatch):
    monkeypatch.setattr(flow_parts, "MOST_AT_ONCE", 600)


@pytest.mark.whole
@pytest.mark.parametrize("name", REDUCTIONS)
def test_parts_give_what_all_flows_at_once_give(name, found, monkeypatch):
    whole = REDUCTIONS[name](found)
    monkeypatch.setattr(flow_parts, "MOST_AT_ONCE", 1)
    parts = REDUCTIONS[name](found)
    assert len(whole)
    pd.testing.assert_frame_equal(parts, whole, check_categorical=False)


@pytest.mark.whole
def test_percentiles_are_the_same_with_and_without_the_cdfs(found):
    pd.testing.assert_frame_equal(fct.percentiles_and_cdfs(found)[0], fct.percentiles(found))


@pytest.mark.whole
def test_a_frame_of_flows_gives_what_the_runs_give(found):
    pd.testing.assert_frame_equal(fct.percentiles(found.flows), fct.percentiles(found), check_categorical=False)


@pytest.mark.whole
def test_no_more_flows_are_in_memory_at_once_than_are_allowed(found, in_parts, monkeypatch):
    lock, read, there, most = threading.Lock(), [], [0], [0]
    of_part = Part.read

    def noted(self, columns):
        with lock:
            read.append(self.rows)
            there[0] += self.rows
            most[0] = max(most[0], there[0])
        return of_part(self, columns)

    def count(flows):
        with lock:
            there[0] -= len(flows)
        return pd.DataFrame({"flows": [len(flows)]})

    monkeypatch.setattr(Part, "read", noted)
    made = flow_parts.reduced(count, found, ["backend", "workload", "driver", "pairs"], ["fct_s"])
    assert sorted(made["flows"]) == sorted(read)
    assert (len(read), sum(read)) == (32, len(found.flows))
    assert most[0] <= flow_parts.MOST_AT_ONCE < sum(read) / 5


@pytest.mark.whole
def test_only_the_columns_that_are_needed_are_read(found, in_parts):
    seen = []
    flow_parts.reduced(lambda flows: seen.append([*flows]) or pd.DataFrame(), found, ["driver"], ["fct_s"])
    assert {*seen[0]} == {"driver", "repetition", "block", "key", "host", "kernel", "status", "fct_s"}
    assert len(seen[0]) < len(TABLES["flows"]) / 3


def test_a_part_that_is_damaged_is_named(tmp_path, in_parts):
    runs = load_runs(write_fct(tmp_path / "times", pairs=(10,), drivers=("ovs", "host")))
    (runs[3].path / "flows.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DamagedRun, match=runs[3].path.name):
        fct.percentiles(runs)


def test_runs_that_are_not_stored_or_none_at_all_are_read_where_they_are(in_parts):
    loose = Runs(tuple(run_of_flows([0.1, 0.2, 0.3] * 250, repetition=repetition) for repetition in range(3)))
    assert fct.percentiles(loose)["value"].round(3).to_list() == [0.2, 0.3, 0.3, 0.3, 0.3]
    assert fct.percentiles(Runs(())).empty
    assert [len(frame) for frame in fct.percentiles_and_cdfs(Runs(()))] == [0, 0]
