"""What containers cost beside their network and with it, in the form of paper S' figure 1."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.questions.modes import containerization
from pairlab.analysis.questions.modes.containerization import PLACES, WHATS


def changes(frame: pd.DataFrame, conditions: str = "") -> Figure:
    """The change against no containers of what is measured, by network: a panel per backend and place.

    frame: as containerization.against_bare. Throughput of several tools has a place for each.
    """
    known = frame[frame["value"].notna()].assign(category=_categories(frame))
    panels = [
        (f"{backend}, {place}", known[(known["backend"] == backend) & (known["place"] == place)])
        for backend in sorted(known["backend"].unique())
        for place in PLACES.values()
    ]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        rank = panel["what"].map(list(WHATS).index)
        order = list(dict.fromkeys(panel.assign(rank=rank).sort_values(["rank", "workload"])["category"]))
        return estimates.by_category(
            panel,
            ax,
            measure=containerization.CHANGE,
            category="category",
            order=order,
            name="What is measured",
            label="Performance against\nprocess (%)",
            level=0,
            from_zero=False,
        )

    kept = [(title, part) for title, part in panels if len(part)]
    note = estimates.noted(estimates.note_of(known, "change, paired by repetition,"), conditions)
    return grid.grid(kept, draw, note=note)


def _categories(frame: pd.DataFrame) -> pd.Series:
    """What is measured, with the tool where that sends."""
    sends = ~frame["workload"].str.startswith("stress-ng")
    wrapped = frame["what"].str.replace(" ", "\n")
    return wrapped.where(~sends, frame["what"] + "\n" + frame["workload"])
