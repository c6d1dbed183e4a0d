"""UDP beside TCP: what a client of each gets, and below it how much of UDP is lost."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis import cell_estimates
from pairlab.analysis.figures import estimates
from pairlab.analysis.questions import udp


def beside_tcp(cells: dict[str, pd.DataFrame], conditions: str = "") -> Figure:
    """Goodput by protocol and share of UDP, and the share of datagrams lost; a column per system.

    cells: as udp.cells().
    """
    goodput, lost = (cell_estimates.at_pairs(cells[name]) for name in ("client_bps", "lost_share"))
    # Both rows have the places of the first, so that a loss stands below its goodput; TCP repairs its own.
    names: dict[str, Any] = {
        "category": "place",
        "order": udp.places(goodput),
        "name": "Protocol, and the share of UDP clients",
    }
    by_place: Callable[..., Axes] = partial(estimates.by_category, **names)

    def draw_lost(part: pd.DataFrame, ax: Axes) -> Axes:
        by_place(part, ax, measure=udp.MEASURES["lost_share"])
        ax.set_ylim(0, 100)
        return ax

    rows = [(goodput, partial(by_place, measure=udp.MEASURES["client_bps"], log_y=True))]
    return estimates.above_each_other([*rows, (lost, draw_lost)] if len(lost) else rows, conditions=conditions)
