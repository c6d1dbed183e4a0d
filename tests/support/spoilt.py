"""Measurements by tests, on a machine that does other things, too: made again where only that spoilt them."""

from functools import partial

from pairlab import Run, measure
from pairlab.measurement.verdict import CHECKS

#: As many as a sweep makes.
ATTEMPTS = 3

measured = partial(measure, fresh=True, attempts=ATTEMPTS)

#: What a machine that stalls now and then does to flows and to who looks at them, though all is as it was asked for.
OF_STALLS = {"settled", "outliers", "shift", "late_end", "unread", "overrun", "load", "telemetry_missed"}


def sound(run: Run) -> bool:
    """Whether a run is ok, or would be on a machine that never stalls: it was, each time that it was measured."""
    unmet = {name for name, value in run.checks.items() if CHECKS[name].reason(value, run.spec)}
    return run.status == "ok" or (run.status == "invalid" and len(unmet) == len(run.reasons) and unmet <= OF_STALLS)
