"""Effects on launch time: of the network (paper S, table VI)."""

import pandas as pd

from pairlab.analysis.claims.cell_reader import Cells
from pairlab.analysis.claims.effect import Effect, estimator
from pairlab.analysis.claims.estimators.settings import change
from pairlab.errors import NotMeasured


@estimator("%")
def launch_change(runs: pd.DataFrame, *, driver: str, against: str = "none") -> Effect:
    """How much longer a launch takes over a network than over another one: the mean of each run's launches, one at a
    time, beside no idle pairs. Each is taken on the most hosts that it was measured on.
    """
    alone = runs[(runs["launches"] > 0) & (runs["pairs"] == 1) & (runs["idle_pairs"] == 0)]
    cells = []
    for each in (driver, against):
        mine = alone[alone["driver"] == each]
        if mine.empty:
            raise NotMeasured(f"no launches over {each}, one at a time and beside no idle pairs")
        cells.append({"driver": each, "hosts": int(mine["hosts"].max())})
    return change(Cells(alone), cells[0], cells[1], "launch_mean_s", "launch time", of="")
