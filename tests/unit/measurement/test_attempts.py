"""A measurement that only the machine spoilt is made again, and others are not."""

import contextlib
import dataclasses
import os
from datetime import UTC, datetime

import pytest

from pairlab.base.caller import VARIABLE, caller, caller_with
from pairlab.measurement import measure, verdict
from pairlab.model.records import Run
from pairlab.model.spec import Spec

SPEC = Spec(duration_s=1, workload="flowgen")
OK = Run(SPEC, "ok")
BUSY = Run(SPEC, "invalid", ("CPU use was not sampled",), checks={"telemetry_missed": 0.3, "interface_bytes": 0.0})
WRONG = Run(SPEC, "invalid", ("late", "links carried more"), checks={"telemetry_missed": 0.3, "interface_bytes": 0.05})
LATE = Run(SPEC, "invalid", ("CPU use was not sampled", "1 connection stood late"), checks={"telemetry_missed": 0.3})
FAILED = Run(SPEC, "failed", ("all flows failed",))


@pytest.fixture
def measured(monkeypatch, runs_dir):
    """measure() on a host where measurements end one after another as told; how many it made, and what it told."""

    def measured(ends, **options):
        monkeypatch.setattr(measure.Plan, "require", lambda plan: None)
        monkeypatch.setattr(measure.lock, "measuring", lambda *given: contextlib.nullcontext())  # nothing is
        left, told = list(ends), []

        def one(plan, progress, watch):
            return dataclasses.replace(left.pop(0), measured_at=datetime.now(UTC))

        monkeypatch.setattr(measure, "_measure", one)
        run = measure.measure(SPEC, progress=lambda phase, done, total: told.append(phase), **options)
        return run, len(ends) - len(left), told

    return measured


@pytest.mark.parametrize(
    ("ends", "made"),
    [([OK], 1), ([BUSY, OK], 2), ([BUSY] * 9, 3), ([WRONG, OK], 1), ([LATE, OK], 1), ([FAILED, OK], 1)],
)
def test_only_what_the_machine_alone_spoilt_is_measured_again_and_not_for_ever(ends, made, measured):
    run, count, told = measured(ends, attempts=3)
    assert count == made
    assert (run.status, run.reasons) == (ends[made - 1].status, ends[made - 1].reasons)
    assert [each["reasons"] for each in run.facts["attempts"]] == [list(end.reasons) for end in ends[:made]]
    assert told == ["measuring again: CPU use was not sampled"] * (made - 1)


def test_a_measurement_is_made_once_where_nobody_says_how_often(measured):
    assert measured([BUSY, OK])[1] == 1


def test_a_sweep_says_so_to_the_processes_that_it_starts(measured, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with caller_with(attempts=2):
        assert measured([BUSY, OK])[1] == 2
        with caller_with(attempts=1):
            assert measured([BUSY, OK], fresh=True)[1] == 1
        assert caller().attempts == 2
    assert VARIABLE not in os.environ
    assert caller().attempts == 1


def test_a_reason_without_a_check_is_not_the_machines(measured):
    assert verdict.worth_retrying(BUSY)
    assert not verdict.worth_retrying(LATE)
    assert not verdict.worth_retrying(dataclasses.replace(BUSY, status="ok"))
