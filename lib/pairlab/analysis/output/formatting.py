"""Numbers as text: estimates with their intervals, p-values, counts, and names as parts of keys."""

import math
from collections.abc import Iterable

import pandas as pd

from pairlab.analysis.selection import SYSTEM

#: The text of a cell without a value.
MISSING = "–"


def systems(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The parts of a frame by system, named as in files and keys: backend-workload."""
    return {"-".join(names): part for names, part in frame.groupby(list(SYSTEM), sort=True)}


def plus_minus(value: float, high: float, digits: int) -> str:
    """A mean and half its interval, as "56.39 ± 0.52"; the mean alone without an interval, a dash without a mean."""
    if value != value:
        return MISSING
    half = f" ± {high - value:.{digits}f}" if high > value else ""  # NaN: no interval; equal: no spread
    return f"{value:.{digits}f}{half}"


def with_interval(value: float, low: float, high: float, digits: int, *, sign: str = "") -> str:
    """An estimate whose interval need not be symmetric, as "0.42 [0.10, 0.66]"; sign "+": each number has one."""
    if value != value:
        return MISSING
    bounds = f" {interval(low, high, digits, sign=sign)}" if low == low and high == high else ""
    return f"{_number(value, digits, sign)}{bounds}"


def interval(low: float, high: float, digits: int, *, sign: str = "") -> str:
    """The two bounds of an interval, as "[0.10, 0.66]"."""
    return f"[{_number(low, digits, sign)}, {_number(high, digits, sign)}]"


def _number(value: float, digits: int, sign: str) -> str:
    """The number with its digits; from a million on with a power of ten, for bounds from few repetitions."""
    return f"{value:{sign}z.{digits}f}" if abs(value) < 1e6 else f"{value:{sign}.0e}"  # z: 0.0 has no minus


def digits_of(value: float, low: float, high: float, at_most: int) -> int:
    """The decimals that an interval bears: two digits of half its width; without one, three of the value."""
    size, significant = ((high - low) / 2, 2) if high > low else (abs(value), 3)
    if not 0 < size < math.inf:
        return at_most
    return min(at_most, max(0, significant - 1 - math.floor(math.log10(size))))


def p_text(p: float) -> str:
    """A p-value as text: three decimals, "< 0.001" below, a dash for NaN."""
    if p != p:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def span(counts: pd.Series) -> str:
    """The smallest and the largest of some counts, as text: "4", or "2 to 4"."""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def remarks(cells: pd.DataFrame) -> str:
    """The numbers of repetitions and failed flows behind the estimates of a system."""
    text = f"{span(cells['n'])} repetition{'s' * bool(cells['n'].max() > 1)} per cell"
    if "failed_flows" in cells:
        text += f"; {int(cells['failed_flows'].sum())} of {int(cells['flows'].sum())} flows failed"
    return text


def slug(text: object) -> str:
    """A name as a part of a key: lower case, with hyphens for characters that keys lack."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in str(text).lower()).strip("-.")


def size_text(size: float) -> str:
    """64 bytes as "64 B", 1024 as "1 KiB"; other sizes in bytes, with a comma from a thousand on."""
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step and size % step == 0:
            return f"{size // step:g} {unit}"
    return f"{size:,.0f} B"


def percentile_name(q: float) -> str:
    """The name of a percentile in tables and keys: p50, p99.9."""
    return f"p{100 * q:g}"


def lines_or_default(lines: Iterable[str], otherwise: str) -> str:
    """Lines as one text; `otherwise` without any."""
    return "\n".join(line for line in lines if line) or otherwise


def gaps(*frames: pd.DataFrame) -> Iterable[str]:
    """The reasons for missing numbers in frames of estimates, each once, with its number of cells."""
    reasons = pd.concat([frame["gap"] for frame in frames])
    for reason, count in reasons[reasons != ""].value_counts().items():
        yield f"{count} without a number: {reason}"
