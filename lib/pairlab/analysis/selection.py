"""Which runs answer a question, and what is said where there are none: a gap with a name, not an error."""

from collections.abc import Callable
from typing import NamedTuple

from pairlab.collection import Runs, load_runs
from pairlab.errors import NoRuns
from pairlab.spec import Spec

#: What the papers left alone, and the experiments beyond them vary.
BEYOND = (
    "flows_per_pair",
    "message_bytes",
    "udp_share",
    "udp_rate_bps",
    "congestion_control",
    "cores",
    "pinning",
    "cpu_quota",
    "cpu_shares",
)


class Selection(NamedTuple):
    """The runs of one question (none where there is a gap), and why there is no run that counts ("" where some do)."""

    runs: Runs
    gap: str


def plain(spec: Spec) -> bool:
    """Whether a run is as the papers' are: nothing in it that only experiments beyond them vary."""
    return all(getattr(spec, name) == Spec.model_fields[name].default for name in BEYOND)


def select(
    runs: str, *, experiment: str, sweep: str = "", which: Callable[[Spec], bool] = lambda spec: True
) -> Selection:
    """The runs of an experiment below `runs` (of one sweep, if named) whose spec `which` accepts.

    Without any that counts, the gap says so: analysis notebooks must work on what there is. Raises what load_runs
    raises but NoRuns.
    """
    try:
        loaded = load_runs(runs, experiment=experiment, sweep=sweep)
    except NoRuns as error:
        return Selection(Runs(()), str(error))
    found = Runs(tuple(run for run in loaded if which(run.spec)), loaded.damaged)
    if any(run.status == "ok" for run in found):
        return Selection(found, "")
    why = f": {'; '.join(sorted(set(found.index['reasons'])))}" if len(found) else " as this question needs them"
    return Selection(found, f"none of the {len(found) or len(loaded)} runs of {experiment!r} counts{why}")
