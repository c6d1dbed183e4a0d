"""Open-loop traffic whose client stood still: by when flows were due, and by what happened meanwhile."""

from types import SimpleNamespace

import numpy as np
import pytest

from pairlab.measurement.flow_table import _silence_s
from pairlab.model import fct
from pairlab.model.spec import Spec
from tests.support.synthetic import ending

MS = 1_000_000


def table(due_ms, start_ms, took_ms=2):
    start_ns = np.asarray(start_ms, dtype=np.uint64) * MS
    return SimpleNamespace(
        intended_ns=np.asarray(due_ms, dtype=np.uint64) * MS, start_ns=start_ns, completed_ns=start_ns + took_ms * MS
    )


def test_a_client_that_stands_still_while_flows_are_due_is_found():
    due_ms = np.arange(1000, 4000, 10)
    start_ms = np.where((due_ms >= 2000) & (due_ms < 2600), 2600, due_ms)
    assert _silence_s(table(due_ms, due_ms)) < 0.02
    assert _silence_s(table(due_ms, start_ms)) == pytest.approx(0.6, abs=0.02)


def test_a_pause_in_which_none_was_due_is_none():
    due_ms = np.concatenate([np.arange(1000, 2000, 10), np.arange(3000, 4000, 10)])
    assert _silence_s(table(due_ms, due_ms)) < 0.02


def test_flows_that_wait_for_each_other_at_a_load_beyond_the_link_are_no_silence():
    due_ms = np.arange(1000, 4000, 10)
    assert _silence_s(table(due_ms, 1000 + 4 * (due_ms - 1000), took_ms=40)) < 0.05


def test_flows_at_an_offered_load_took_from_when_they_were_due():
    offered = Spec(workload="traffic", flow_sizes="prv2-1", offered_load_bps=1e8, flows_per_pair=2)
    assert (fct.column(offered), fct.column(Spec(flow_bytes=1000))) == ("intended_fct_s", "fct_s")
    made = ending([0.004, 0.005])
    made.flows["intended_fct_s"] = [0.5, 0.4]
    object.__setattr__(made, "spec", offered)
    assert fct.of_run(made).to_list() == [0.5, 0.4]
