"""Effects of networks between hosts on what a transaction costs, and on what busy processes take (paper S)."""

from collections.abc import Mapping
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.cell_reader import Cells
from pairlab.analysis.claims.effect import Effect, estimator
from pairlab.analysis.claims.estimators.settings import change, ratio_effect
from pairlab.errors import NotMeasured
from pairlab.statistics.intervals import PERCENT

#: One pair on two hosts, whose idle CPUs sleep, as the paper's did.
_ACROSS = {"hosts": 2, "placement": "across", "uplink_rate_bps": 0.0, "pairs": 1, "cpus_awake": False}


@estimator("%")
def service_demand(runs: pd.DataFrame, *, driver: str, against: str = "process") -> Effect:
    """How much more CPU time a transaction between hosts costs over a network than over another one."""
    runs = runs[runs["transacts"]]
    first, second = (_cell(runs, {"driver": each, **_ACROSS}) for each in (driver, against))
    return change(Cells(runs), first, second, "service_demand_s", "two hosts", of="")


@estimator("%")
def loops_by_servers(
    runs: pd.DataFrame,
    *,
    driver: str,
    workers: Annotated[int, Field(ge=1)],
    load: Annotated[float, Field(gt=0, le=1)],
    against: str = "",
) -> Effect:
    """How much of its throughput a network keeps beside so many processes on the server's host, against alone.

    load: CPUs that each of them uses. against: as a share of what that other network keeps.
    """
    runs = runs[~runs["transacts"]]
    cells = Cells(runs)
    kept = _kept(cells, runs, driver, workers, load)
    if not against:
        return ratio_effect(cells, *kept, "two hosts")
    other = _kept(cells, runs, against, workers, load)
    both = cells.difference(cells.ratio(*kept), cells.ratio(*other))
    return cells.effect(both, PERCENT, "two hosts", gain=2.0)


def _kept(cells: Cells, runs: pd.DataFrame, driver: str, workers: int, load: float) -> tuple[pd.Series, pd.Series]:
    """The throughput beside the processes, and alone, by repetition."""
    alone = {"driver": driver, "interference_workers": 0, **_ACROSS}
    beside = {"interference_workers": workers, "interference_load": load, "interference_where": "server"}
    return (
        cells.of("total_bps", **_cell(runs, {**alone, **beside})),
        cells.of("total_bps", **_cell(runs, alone)),
    )


def _cell(runs: pd.DataFrame, cell: Mapping[str, Any]) -> dict[str, Any]:
    if runs[(runs[list(cell)] == pd.Series(cell)).all(axis=1)].empty:
        raise NotMeasured(f"no runs of {cell['driver']} between two hosts that measure this")
    return dict(cell)
