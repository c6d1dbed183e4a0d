"""Results and their differences in words."""

from collections.abc import Sequence
from statistics import median

from pairlab.base import units
from pairlab.model.spec import Spec


def outcome(spec: Spec) -> str:
    """The main estimate of a run, as in records.Run.outcome."""
    return "median_fct_s" if spec.flows_end else "total_throughput_bps"


def with_unit(spec: Spec, value: float | None) -> str:
    if value is None:
        return "without a value"
    text = units.with_prefix(value, "s" if spec.flows_end else "bit/s")
    return f"median FCT {text}" if spec.flows_end else text


def beside(mine: float, others: Sequence[float]) -> str:
    centre = "its other repetition" if len(others) == 1 else f"the median of its {len(others)} other repetitions"
    return f"{apart(mine, median(others))} {centre}"


def apart(mine: float, other: float) -> str:
    """How far a value lies from another: "3.2 % below"."""
    if not other:
        return "equal to" if mine == other else "above"
    percent = 100 * (mine / other - 1)
    text = f"{abs(percent):.1f}" if abs(percent) < 9.95 else f"{abs(percent):,.0f}"
    return "equal to" if text == "0.0" else f"{text} % {'below' if percent < 0 else 'above'}"
