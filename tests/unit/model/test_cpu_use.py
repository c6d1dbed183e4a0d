from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis.claims import run_table
from pairlab.analysis.questions import cpu
from pairlab.model import cpu_use
from pairlab.model.tables import table
from tests.support.synthetic import FACTS, run


def seen(*samples, checks=(), waits_s=None, connected_s=np.nan, start_s=0.0, **spec):
    """A run of two pairs for 2 s, with samples of its two CPUs: begin, end, and what share was busy meanwhile."""
    made = run([1, 1], **spec)
    made.flows["start_s"], made.flows["connected_s"] = start_s, connected_s
    rows = [
        {"cpu": number, "start_s": begin, "end_s": end, "sys": busy, "idle": 1 - busy, "iowait": 0.0}
        for begin, end, busy in samples
        for number in (0, 1)
    ]
    facts = FACTS if waits_s is None else FACTS | {"waits_s": waits_s}
    return replace(made, cpu=table("cpu", rows), facts=facts, checks=dict(checks))


def busy(made):
    """What the ledger says, which is what the notebook says."""
    (ledger,), (notebook,) = run_table.reduce([made])["busy"], cpu.by_repetition([made])["busy"]
    assert ledger == pytest.approx(notebook, nan_ok=True)
    return ledger


def test_a_sample_counts_by_how_long_it_lies_in_the_window():
    # As telemetry has them: the first begins before the release, and the last is over when the last client is.
    made = seen((-0.001, 0.999, 1.0), (0.999, 1.999, 0.5), (1.999, 2.031, 0.0))
    assert busy(made) == pytest.approx((0.999 * 1.0 + 1.0 * 0.5) / 2)


def test_the_window_begins_after_the_warmup_that_was_asked_for_and_the_one_that_was_found():
    samples = (-0.001, 0.999, 0.2), (0.999, 1.999, 0.6), (1.999, 2.999, 1.0), (2.999, 3.02, 0.0)
    assert busy(seen(*samples, warmup_s=1.0)) == pytest.approx((0.999 * 0.6 + 1.0 * 1.0) / 2, abs=1e-3)
    assert busy(seen(*samples, warmup_s=1.0, checks={"warmup_s": 1.0})) == pytest.approx(1.0, abs=2e-3)
    assert cpu_use.window_s(seen(warmup_s=1.0, checks={"warmup_s": 0.5})) == (1.5, 3.0)


def test_the_window_of_a_tool_that_waits_is_when_it_sends():
    samples = (0.0, 1.0, 0.0), (1.0, 2.1, 0.0), (2.1, 3.1, 0.8), (3.1, 4.1, 0.6), (4.1, 4.3, 0.0)
    assert busy(seen(*samples, waits_s=2.1)) == pytest.approx(0.7)
    assert busy(seen(*samples, waits_s=0.0)) == 0
    assert busy(seen(*samples)) == 0  # an older run tells of no wait


def test_the_window_begins_where_the_flow_in_the_middle_was_connected():
    assert cpu_use.window_s(seen(start_s=0.25)) == (0.25, 2.25)
    assert cpu_use.window_s(seen(start_s=0.25, connected_s=0.5)) == (0.5, 2.5)
    assert cpu_use.window_s(seen(start_s=0.0, connected_s=[0.5, np.nan])) == (0.25, 2.25)


def test_without_a_flow_or_a_sample_nothing_is_known():
    assert np.isnan(busy(seen()))
    assert np.isnan(busy(seen((2.5, 3.5, 1.0))))
    assert np.isnan(busy(seen((0.0, 2.0, 1.0), failed=2)))
