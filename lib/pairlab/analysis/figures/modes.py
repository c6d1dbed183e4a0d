"""Modes of one host, and containers beside none, by what is measured: in the forms of paper S' figures 1 and 3."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.questions.modes import by_message, containerization

_TICKS = {what: f"{what}\n{by_message.MESSAGE_BYTES} B" for what in by_message.MESSAGES}


def by_part(cells: pd.DataFrame, measure: Measure, *, conditions: str = "") -> Figure:
    """An estimate for each mode and what is measured: a panel per system, with its own scale, as tools lie far apart.

    cells: as by_message.as_bars, of any number of systems.
    """
    known = cells[cells["value"].notna()]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        order = by_message.bars(panel)
        ticks = [_TICKS.get(what, what) for what in order]
        names: dict[str, Any] = {"category": "what", "order": order, "ticks": ticks, "name": "What is measured"}
        return estimates.by_category(panel, ax, measure=measure, **names)

    note = estimates.note_of(known, estimates.CHANGE if measure.change else "mean")
    rows: dict[str, Any] = {"rows": ["workload"], "column": "backend", "title": "{each}, {row}"}
    return grid.facets(known, draw, note=note, conditions=conditions, **rows)


def by_size(cells: pd.DataFrame, measure: Measure, *, name: str = "Message size", conditions: str = "") -> Figure:
    """An estimate by size, a line for each mode: figures 3c and 3d. cells: as by_message.by_size."""
    sizes: dict[str, Any] = {"number": "size", "name": name, "ticks": by_message.ticks(cells)}
    return estimates.by_system(cells, estimates.by_number, measure=measure, log_y=True, conditions=conditions, **sizes)


def against_bare(frame: pd.DataFrame, conditions: str = "") -> Figure:
    """The change against no containers of what is measured, by network: a row per backend, a panel per place.

    frame: as containerization.against_bare. Throughput of several tools has a place for each.
    """
    known = frame[frame["value"].notna()]
    sends = ~known["workload"].str.startswith("stress-ng")
    words = known["what"].str.replace(" ", "\n")
    known = known.assign(category=words.where(~sends, known["what"] + "\n" + known["workload"]))

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        rank = panel["what"].map(list(containerization.WHATS).index)
        order = list(dict.fromkeys(panel.assign(rank=rank).sort_values(["rank", "workload"])["category"]))
        label = "Performance against\nprocess (%)"
        names: dict[str, Any] = {"category": "category", "order": order, "name": "What is measured", "label": label}
        return estimates.by_category(panel, ax, measure=containerization.CHANGE, **names)

    places = [place for place in containerization.PLACES.values() if (known["place"] == place).any()]
    note = estimates.note_of(known, estimates.CHANGE)
    rows: dict[str, Any] = {"rows": ["backend"], "column": "place", "order": places, "title": "{row}, {each}"}
    return grid.facets(known, draw, note=note, conditions=conditions, **rows)
