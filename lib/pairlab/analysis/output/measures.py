"""From frames of estimates to tables and keyed numbers: a question declares each quantity once for both.

Estimates are frames in the form of cell_estimates.COLUMNS, a row per cell. Names of a cell are columns of the frame, or
"system", which is backend-workload.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.output import formatting
from pairlab.analysis.output.formatting import MISSING, slug, systems
from pairlab.analysis.output.latex import Values
from pairlab.statistics.intervals import no_interval
from pairlab.store.dataset import Runs

#: The text of each cell, by its names.
Texts = dict[tuple, str]
#: The title of a column: a text, or a tuple of texts.
Title = TypeVar("Title", bound=Hashable)

#: The unit for a thousand and more, by unit: 20.5 ms, and not 20549.7 µs.
LARGER = {"µs": "ms"}


class Quantity(NamedTuple):
    """A quantity as tables, figures and keys show it.

    title: the head of its column and the name of its axis, with the unit. key: the last part of its keys. digits: the
    most decimals of a value times `scale`; an estimate has as many as its interval bears (formatting.digits_of).
    change: it is a change, so that its values have a sign.
    """

    title: str
    key: str
    digits: int
    scale: float = 1
    unit: str = ""
    change: bool = False

    def texts(self, estimates: pd.DataFrame, *names: str) -> Texts:
        """Each estimate as text: mean ± half its interval if all intervals are symmetric, else with bounds."""
        values, low, high = (estimates[name].astype(float) * self.scale for name in ("value", "low", "high"))
        lopsided = (high + low - 2 * values).abs() >= 10**-self.digits
        bounds = self.change or lopsided.any()

        def text(cell) -> str:
            value, low, high, unit = self._fitting(cell)
            own = f" {unit}" if unit != self.unit else ""
            digits = formatting.digits_of(value, low, high, self.digits)
            if not bounds:
                return formatting.plus_minus(value, high, digits) + own
            return formatting.with_interval(value, low, high, digits, sign="+" * self.change) + own

        return texts(estimates, names, text)

    def put(self, found: Values, estimates: pd.DataFrame, *names: str, key: str = "") -> None:
        """The keyed numbers of estimates, below the names of their cells and `key` (the quantity's own, if empty)."""
        for cell in estimates.itertuples():
            self.put_one(found, f"{key_of(cell, *names)}/{key or self.key}", cell)

    def put_one(self, found: Values, key: str, cell) -> None:
        """An estimate below `key`: its value, and below `key`-interval its bounds. Nothing for a gap."""
        value, low, high, unit = self._fitting(cell)
        if value != value:
            return
        digits = formatting.digits_of(value, low, high, self.digits)
        if self.change and round(value, digits) > 0:
            found.text(key, f"+{value:.{digits}f} {unit}".rstrip())
        else:
            found.number(key, value, digits, unit)
        bounds = f"{formatting.interval(low, high, digits)} {unit}".rstrip()
        unit = getattr(cell, "over", "repetition")
        found.text(f"{key}-interval", bounds if low == low else no_interval(cell.n, unit))

    def _fitting(self, cell) -> tuple[float, float, float, str]:
        """An estimate's value and bounds with their unit: the quantity's or one of LARGER."""
        value, low, high = (getattr(cell, name) * self.scale for name in ("value", "low", "high"))
        if self.unit in LARGER and abs(value) >= 1000:
            return value / 1000, low / 1000, high / 1000, LARGER[self.unit]
        return value, low, high, self.unit


def texts(frame: pd.DataFrame, names: Sequence[str], text: Callable[..., str]) -> Texts:
    """The text of each row (a namedtuple) by its names."""
    return {tuple(_name(row, name) for name in names): text(row) for row in frame.itertuples()}


def across(by_cell: Texts, *above: str, order: Sequence[Hashable] | None = None) -> dict[Hashable, Texts]:
    """A column for each value of the cells' last name, in `order`, else as drivers; `above`: heads above each."""
    columns: dict[Hashable, Texts] = {}
    for (*names, last), text in by_cell.items():
        columns.setdefault(last, {})[tuple(names)] = text
    heads: Sequence[Hashable] = order or ordered(names[-1] for names in by_cell)
    return {((*above, head) if above else head): columns.get(head, {}) for head in heads}


def tabulate(
    heads: Mapping[str, str], columns: Mapping[Title, Texts], order: Mapping[str, Sequence] | None = None
) -> pd.DataFrame:
    """A table of texts, with a row for each cell of any column, sorted by its names, and a dash for a missing text.

    heads: the table's heads by the names of the cells. columns: texts by cell, by title (a tuple: several levels).
    order: the order of values of a name, if not the natural one, or that of drivers.
    """
    cells = {cell for column in columns.values() for cell in column}
    if "driver" in heads:
        at = list(heads).index("driver")
        order = {"driver": ordered(cell[at] for cell in cells)} | dict(order or {})
    ranks = [{value: rank for rank, value in enumerate((order or {}).get(name, ()))} for name in heads]
    rows = sorted(cells, key=lambda cell: [rank.get(value, value) for rank, value in zip(ranks, cell, strict=True)])
    shown = [tuple(f"{value:g}" if isinstance(value, float) else value for value in row) for row in rows]
    index = pd.MultiIndex.from_arrays(list(zip(*shown, strict=True)) or [[]] * len(heads), names=list(heads.values()))
    titles = list(columns)
    body = [[columns[title].get(row, MISSING) for title in titles] for row in rows]
    nested = bool(titles) and isinstance(titles[0], tuple)
    return pd.DataFrame(body, index=index, columns=pd.MultiIndex.from_tuples(titles) if nested else titles)


def by_system(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The part of a table for each system, by its first index, without empty columns."""
    names = table.index.get_level_values(0)
    parts = {name: table[names == name].droplevel(0) for name in dict.fromkeys(names)}
    return {name: part.loc[:, ((part != MISSING) & (part != "")).any()] for name, part in parts.items()}


def key_of(cell, *names: str) -> str:
    """The key of a cell: its names as parts."""
    return "/".join(slug(_name(cell, name)) for name in names)


def common_values(topic: str, runs: Runs, frame: pd.DataFrame, *gaps: str) -> Values:
    r"""The keyed numbers that all topics share; the notebook adds its own.

    frame: a row per cell, of all systems. Without rows there are only runs (that count), left-out, the list `systems`,
    empty, and missing: the gaps as one text. Else also confidence, and for each <system>: <system>/backend, workload,
    drivers, pairs (all measured numbers), remarks (repetitions and failures).
    """
    values = Values(topic)
    values.number("runs", sum(run.status == "ok" for run in runs), 0)
    values.number("left-out", len(runs.left_out) + len(runs.unread), 0)
    values.names("systems", list(systems(frame)))
    if missing := "; ".join(gap for gap in gaps if gap):
        values.text("missing", missing)
    if "confidence" in frame and len(frame):
        values.text("confidence", f"{frame['confidence'].iloc[0] * 100:g} %")
    for system, part in systems(frame).items():
        values.text(f"{system}/backend", part["backend"].iloc[0])
        values.text(f"{system}/workload", part["workload"].iloc[0])
        values.text(f"{system}/drivers", ", ".join(ordered(part["driver"])))
        values.text(f"{system}/pairs", ", ".join(map(str, sorted(part["pairs"].unique()))))
        if "n" in part:
            values.text(f"{system}/remarks", formatting.remarks(part))
    return values


def put_p(found: Values, frame: pd.DataFrame, *names: str, key: str, column: str = "p_holm") -> None:
    """The keyed p-values of a column, below the names of their cells and `key`; nothing for NaN."""
    for row in frame[frame[column].notna()].itertuples():
        found.text(f"{key_of(row, *names)}/{key}", formatting.p_text(getattr(row, column)))


def _name(row, name: str) -> object:
    value = f"{row.backend}-{row.workload}" if name == "system" else getattr(row, name)
    return value.item() if isinstance(value, np.generic) else value
