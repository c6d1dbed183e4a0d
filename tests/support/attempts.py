"""Measurements in tests, on a machine with other load, too: repeated where that disturbed the run."""

from functools import partial

from pairlab import Run, Spec, measure
from pairlab.measurement.checks import unmet
from tests.conftest import need_all_of

#: As many as a sweep makes.
ATTEMPTS = 3

measured = partial(measure, fresh=True, attempts=ATTEMPTS)

#: The checks that a machine which stalls now and then does not meet.
OF_STALLS = {"settled", "unread", "overlap", "overrun", "load", "telemetry_missed", "halted"}


def sound(run: Run) -> bool:
    """Whether a run is ok, or invalid only by stalls of the machine, in each attempt."""
    names = {*unmet(run.checks, run.spec)}
    return run.status == "ok" or (run.status == "invalid" and len(names) == len(run.reasons) and names <= OF_STALLS)


def sound_run(spec: Spec, **how) -> Run:
    """A sound run of that spec; skips the test where this machine lacks something that it needs."""
    need_all_of(spec)
    run = measured(spec, **how)
    assert sound(run), run.reasons
    return run
