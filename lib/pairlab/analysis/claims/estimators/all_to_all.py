"""Effects on rounds in which all containers exchange messages with all: of their places and of their network."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from pairlab.analysis.claims.cell_reader import Cells
from pairlab.analysis.claims.effect import Each, Effect, estimator
from pairlab.analysis.claims.estimators.settings import Two, change
from pairlab.errors import NotMeasured
from pairlab.statistics.intervals import PERCENT

Place = Literal["one-host", "apart", "halves"]
#: The hosts and placements of each, as questions/collectives/all_to_all.py names them.
_PLACES: dict[str, dict[str, Any]] = {
    "one-host": {"hosts": 1, "placement": "same-host"},
    "apart": {"hosts": 2, "placement": "packed-but-one"},
    "halves": {"hosts": 2, "placement": "across"},
}
_WHAT = "latency_mean_s"


@estimator("%")
def all_to_all_change(runs: pd.DataFrame, *, drivers: Two[str], places: Two[Place]) -> Each:
    """How much longer a round takes over the first driver in the first place than over the second in the second, at
    each number of pairs that both were measured with.
    """
    mine = _whole(runs)
    both = [{"driver": driver, **_PLACES[place]} for driver, place in zip(drivers, places, strict=True)]
    parts = {}
    for pairs in _common(mine, both):
        first, second = ({**cell, "pairs": pairs} for cell in both)
        parts[f"{2 * pairs} containers"] = change(Cells(mine), first, second, _WHAT, f"{2 * pairs} containers", of="")
    return Each(parts, points=len(parts))


@estimator("%")
def all_to_all_gap(runs: pd.DataFrame, *, drivers: Two[str], place: Place) -> Effect:
    """How much more the first driver's round is of the second's with the most containers than with the fewest."""
    mine = _whole(runs)
    both = [{"driver": driver, **_PLACES[place]} for driver in drivers]
    fewest, *_, most = _common(mine, both, least=2)
    cells = Cells(mine)
    ratios = []
    for pairs in (most, fewest):
        first, second = (np.log(cells.of(_WHAT, **cell, pairs=pairs)) for cell in both)
        ratios.append(cells.difference(first, second))
    return cells.effect(cells.difference(*ratios), PERCENT, f"{2 * fewest} to {2 * most} containers")


def _whole(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of rounds in which all containers take part."""
    return runs[runs["transacts"].astype(bool) & (runs["ranks"] == 0)]


def _common(runs: pd.DataFrame, cells: list[dict[str, Any]], least: int = 1) -> list[int]:
    """The numbers of pairs that all of these were measured with, rising; at least so many."""
    counts = [set(runs.loc[(runs[list(cell)] == pd.Series(cell)).all(axis=1), "pairs"]) for cell in cells]
    common = sorted(set.intersection(*counts))
    if len(common) < least:
        named = " and ".join(f"{cell['driver']} on {cell['hosts']} host{'s' * (cell['hosts'] > 1)}" for cell in cells)
        raise NotMeasured(f"{len(common)} numbers of containers that {named} have in common, and {least} needed")
    return common
