"""How estimates become text, and the keys that the numbers of every experiment have."""

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.look import ordered
from pairlab.analysis.stats import SYSTEM
from pairlab.collection import Runs


def systems(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The parts of a frame by system, named as in files and keys: backend-workload."""
    return {"-".join(names): part for names, part in frame.groupby(list(SYSTEM), sort=True)}


def with_half(value: float, high: float, digits: int) -> str:
    """A mean and half its interval, as "56.39 ± 0.52"; without an interval the mean alone, without it a dash."""
    if value != value:
        return MISSING
    half = f" ± {high - value:.{digits}f}" if high > value else ""  # NaN: no interval; equal: no spread
    return f"{value:.{digits}f}{half}"


def with_bounds(value: float, low: float, high: float, digits: int) -> str:
    """An estimate whose interval need not be symmetric, as "0.42 [0.10, 0.66]"."""
    if value != value:
        return MISSING
    bounds = f" [{_number(low, digits)}, {_number(high, digits)}]" if low == low and high == high else ""
    return f"{_number(value, digits)}{bounds}"


def _number(value: float, digits: int) -> str:
    """The number with its digits; from a million on with its power of ten, as a bound from few repetitions can be."""
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.0e}"


def shown(cell, digits: int, *, scale: float = 1) -> str:
    """An estimate (a row with value and high) times `scale` as with_half has it."""
    return with_half(cell.value * scale, cell.high * scale, digits)


def p_text(p: float) -> str:
    """A p-value as text: three decimals, "< 0.001" below, a dash where there is none."""
    if p != p:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def rows_by_driver(
    frame: pd.DataFrame,
    index: Sequence[str],
    columns: dict[str, Callable[..., str]],
    *,
    heads: Sequence[str],
    order: dict[str, Sequence] | None = None,
) -> pd.DataFrame:
    """A table of text with a row for each cell, sorted by `index`; drivers, and the columns in `order`, in their order.

    frame: a row per cell with the columns of `index`, of which one is driver. columns: head and the text of a row
    (a namedtuple). heads: how the index columns are called.
    """
    orders = {"driver": ordered(frame["driver"])} | (order or {})
    ranks = {name: {each: place for place, each in enumerate(given)} for name, given in orders.items()}
    sorted_frame = frame.sort_values(list(index), key=lambda part: part.map(ranks.get(part.name, lambda each: each)))
    body = [
        [*(_index_text(getattr(cell, name)) for name in index), *(tell(cell) for tell in columns.values())]
        for cell in sorted_frame.itertuples()
    ]
    return pd.DataFrame(body, columns=[*heads, *columns]).set_index(list(heads))


def _index_text(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value


def repetitions_text(n: pd.Series) -> str:
    """How many repetitions the cells of a frame have: "4 repetitions", "2 to 4 repetitions"."""
    few, many = int(n.min()), int(n.max())
    return f"{few if few == many else f'{few} to {many}'} repetition{'s' * (many > 1)}"


def head(topic: str, runs: Runs, frame: pd.DataFrame, *gaps: str) -> Values:
    r"""The keyed numbers of a topic as far as all have them, for the notebook's own to be added.

    frame: a row per cell, of all systems; where it has no rows there are only these: runs (that count), left-out, the
    list `systems`, empty, and missing: the gaps as one text. Else also confidence, and for each <system>:
    <system>/backend, workload, drivers, pairs (all counts measured), remarks (repetitions and failures).
    """
    found = Values(topic)
    found.number("runs", sum(run.status == "ok" for run in runs), 0)
    found.number("left-out", len(runs.left_out) + len(runs.damaged), 0)
    found.names("systems", list(systems(frame)))
    if told := "; ".join(gap for gap in gaps if gap):
        found.text("missing", told)
    if "confidence" in frame and len(frame):
        found.text("confidence", f"{frame['confidence'].iloc[0] * 100:g} %")
    for system, part in systems(frame).items():
        found.text(f"{system}/backend", part["backend"].iloc[0])
        found.text(f"{system}/workload", part["workload"].iloc[0])
        found.text(f"{system}/drivers", ", ".join(ordered(part["driver"])))
        found.text(f"{system}/pairs", ", ".join(map(str, sorted(part["pairs"].unique()))))
        if "n" in part:
            found.text(f"{system}/remarks", remarks(part))
    return found


def remarks(cells: pd.DataFrame) -> str:
    """What the estimates of a system rest on: how many repetitions, and what failed in them."""
    told = f"{repetitions_text(cells['n'])} per cell"
    if "failed_flows" in cells:
        told += f"; {int(cells['failed_flows'].sum())} of {int(cells['flows'].sum())} flows failed"
    return told


def put(found: Values, key: str, cell, digits: int, unit: str = "", *, scale: float = 1, signed: bool = False) -> None:
    """An estimate below `key`: its value, and below `key`-interval its bounds as text. Nothing where it has a gap."""
    if cell.value != cell.value:
        return
    sign = "+" if signed and round(cell.value * scale, digits) > 0 else ""
    behind = f" {unit}" if unit else ""
    if sign:
        found.text(key, f"{sign}{cell.value * scale:.{digits}f}{behind}")
    else:
        found.number(key, cell.value * scale, digits, unit)
    bounds = f"[{cell.low * scale:z.{digits}f}, {cell.high * scale:z.{digits}f}]{behind}"  # z: 0.0 has no sign
    found.text(f"{key}-interval", bounds if cell.low == cell.low else no_interval(cell.n))


def no_interval(repetitions: int) -> str:
    """What stands in the place of bounds; several repetitions have none where too many of their flows failed."""
    return "no interval from one repetition" if repetitions < 2 else "no interval"


def slug(text: object) -> str:
    """A name as a part of a key: lower case, with what a key cannot hold as hyphens."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in str(text).lower()).strip("-.")


def told(lines: Iterable[str], otherwise: str) -> str:
    """Lines as one text, or what to say when there are none."""
    return "\n".join(line for line in lines if line) or otherwise
