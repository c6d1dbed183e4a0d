"""UDP beside TCP: what a client of each gets, and below it how much of UDP is lost."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import cell_estimates
from pairlab.analysis.figures import estimates
from pairlab.analysis.questions import udp


def beside_tcp(cells: dict[str, pd.DataFrame], conditions: str = "") -> Figure:
    """Goodput by protocol and share of UDP, and the share of datagrams lost; a column per system.

    cells: as udp.cells().
    """
    rows = []
    for name in ("client_bps", "lost_share"):
        shown = cell_estimates.at_pairs(cells[name])
        draw = partial(
            estimates.by_category,
            category="place",
            order=udp.places(shown),
            name="Protocol, and the share of UDP clients",
            measure=udp.MEASURES[name],
        )
        if len(shown):
            rows.append((shown, draw))
    return estimates.above_each_other(rows, conditions=conditions, share_x=False)
