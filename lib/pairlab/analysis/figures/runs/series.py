"""The series of a picture: the repetitions of each cell among the chosen runs, with a label, a style and a place."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from pairlab.analysis.comparison.cells import FIELDS, PLACE, described, short, values_of, varied
from pairlab.analysis.driver_order import rank
from pairlab.analysis.figures.style import driver_style
from pairlab.errors import NoRuns
from pairlab.model.records import Run

#: The dash (None: the driver's own) and the filling of marks, for the series of one driver; their shades differ, too.
_VARIANTS = (
    (None, "full"),
    ((0, (4, 1.5)), "none"),
    ((0, (1, 1)), "left"),
    ((0, (5, 1, 1, 1, 1, 1)), "top"),
    ((0, (8, 2)), "right"),
)
#: The shades of many series of one driver: the share of white in the first, and of black in the last.
_LIGHTEST, _DARKEST = 0.55, -0.45


class Series(NamedTuple):
    """The runs of one cell: they differ in the repetition only. label: the fields that distinguish the series."""

    label: str
    runs: tuple[Run, ...]
    style: dict[str, Any]

    @property
    def points(self) -> dict[str, Any]:
        """The style of marks without a line."""
        return self.style | {"linestyle": "none"}

    @property
    def faintness(self) -> float:
        """The opacity of each run; the more runs, the fainter."""
        return max(0.4, len(self.runs) ** -0.5)


class Chosen(NamedTuple):
    """The series of chosen runs. common: the fields that all share, as text; left_out: runs not drawn, in words."""

    series: tuple[Series, ...]
    common: str
    left_out: str

    @property
    def each(self) -> list[tuple[Series, Run]]:
        """Every run with its series."""
        return [(series, run) for series in self.series for run in series.runs]

    @property
    def measured(self) -> tuple[str, list[pd.DataFrame]]:
        """What was measured, flows or launches, and the table of these of every run."""
        launched = any(len(run.launches) for _, run in self.each)  # such runs have no flows
        return "launches" if launched else "flows", [run.launches if launched else run.flows for _, run in self.each]

    @property
    def failed(self) -> str:
        """The number of failed flows, or launches, as text."""
        items, tables = self.measured
        failed = sum(int((each["status"] != "ok").sum()) for each in tables)
        return (
            f"{failed} of {sum(map(len, tables))} {items} failed and are not shown" if failed else f"no {items} failed"
        )

    def counted(self, drawn: Iterable[Series]) -> str:
        """The number of runs, as text: "1 run", "3 to 5 runs of each". drawn: the series of each run."""
        names = [series.label for series in drawn]
        counts = [names.count(name) for name in dict.fromkeys(names)]
        low, high = min(counts), max(counts)
        runs = f"{low if low == high else f'{low} to {high}'} run{'s' * (high != 1)}"
        return runs if len(counts) == 1 else f"{runs} of each"


def choose(runs: Run | Iterable[Run]) -> Chosen:
    """The series of these runs. Runs without flows are left out, unless they and all others are of launches; invalid
    runs are in, with their status in the label.

    Raises NoRuns without any run.
    """
    every = (runs,) if isinstance(runs, Run) else tuple(runs)
    if not every:
        raise NoRuns("there is no run to draw: choose one, or measure one")
    drawn = [run for run in every if len(run.flows)] or [run for run in every if len(run.launches)]
    cells: dict[tuple, list[Run]] = {}
    values = {id(run): of_run for run, of_run in zip(drawn, values_of(drawn), strict=True)}
    for run in drawn:
        cells.setdefault((*(values[id(run)][name] for name in (*FIELDS, *PLACE)), run.status), []).append(run)
    differ = tuple(varied(drawn))
    series: list[Series] = []
    order = sorted(cells.values(), key=lambda cell: _place(cell[0], values[id(cell[0])], differ))
    for driver, group in groupby(order, key=lambda cell: cell[0].spec.driver):
        of_driver = list(group)
        styles = [_style_of(driver, number, len(of_driver)) for number in range(len(of_driver))]
        series += [
            Series(_label(cell[0], values[id(cell[0])], differ), tuple(cell), style)
            for cell, style in zip(of_driver, styles, strict=True)
        ]
    same = {name: getattr(run.spec, name) for run in drawn[:1] for name in FIELDS if name not in differ}
    common = [described(same), "the hosts share a kernel" if any(run.hosts_of("namespace") for run in drawn) else ""]
    return Chosen(tuple(series), ", ".join(filter(None, common)), _missing(every, drawn))


def _place(run: Run, values: Mapping[str, Any], differ: Sequence[str]) -> tuple:
    """The sort key of a series: the driver's rank, then the fields that differ."""
    return (*rank(run.spec.driver), *(values[name] for name in differ), run.status)


def _label(run: Run, values: Mapping[str, Any], differ: Sequence[str]) -> str:
    names = ["driver", *(name for name in differ if name != "driver")]
    name = short(values, names)
    return name if run.status == "ok" else f"{name} ({run.status})"


def _style_of(driver: str, number: int, count: int) -> dict[str, Any]:
    """The style of series `number` out of `count` of a driver; a single series has the driver's own style."""
    style = driver_style(driver)
    mix = 0.5 * number if count < 3 else _LIGHTEST + (_DARKEST - _LIGHTEST) * number / (count - 1)
    other = 1.0 if mix > 0 else 0.0
    color = to_hex([(1 - abs(mix)) * part + abs(mix) * other for part in to_rgb(style["color"])])
    dash, filling = _VARIANTS[number % len(_VARIANTS)]
    return style | {"color": color, "linestyle": dash or style["linestyle"], "fillstyle": filling}


def _missing(every: Sequence[Run], drawn: Sequence[Run]) -> str:
    empty = [run for run in every if not any(run is each for each in drawn)]
    if not empty:
        return ""
    reasons = "; ".join(dict.fromkeys("; ".join(run.reasons) or run.status for run in empty))
    return f"{len(empty)} of {len(every)} runs have no flows and are not drawn ({reasons})"
