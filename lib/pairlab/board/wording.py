"""A board's values, differences and reasons in words."""

import re
from collections.abc import Sequence
from statistics import median

from pairlab import quantities
from pairlab.board.standing import Trouble
from pairlab.records import Run
from pairlab.spec import Spec


def outcome(spec: Spec) -> str:
    """The estimate that tells most of a run, as records.Run.outcome."""
    return "median_fct_s" if spec.flow_bytes else "total_throughput_bps"


def with_unit(spec: Spec, value: float | None) -> str:
    if value is None:
        return "without a value"
    told = quantities.told(value, "s" if spec.flow_bytes else "bit/s")
    return f"median FCT {told}" if spec.flow_bytes else told


def beside(mine: float, others: Sequence[float]) -> str:
    centre = "its other repetition" if len(others) == 1 else f"the median of its {len(others)} other repetitions"
    return f"{apart(mine, median(others))} {centre}"


def apart(mine: float, other: float) -> str:
    """How far a value lies from another: "3.2 % below"."""
    if not other:
        return "equal to" if mine == other else "above"
    percent = 100 * (mine / other - 1)
    told = f"{abs(percent):.1f}" if abs(percent) < 9.95 else f"{abs(percent):,.0f}"
    return "equal to" if told == "0.0" else f"{told} % {'below' if percent < 0 else 'above'}"


def troubles(runs: Sequence[Run]) -> tuple[Trouble, ...]:
    """Runs that are not ok by status and reason, those of most cells first; runs: the newest last."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        if run.status != "ok":
            reason = "; ".join(run.reasons)
            found.setdefault((run.status, re.sub(r"[0-9][0-9.,]*", "#", reason)), []).append(reason)
    kinds = sorted(found.items(), key=lambda kind: -len(kind[1]))
    return tuple(Trouble(len(reasons), status, reasons[-1]) for (status, _), reasons in kinds)
