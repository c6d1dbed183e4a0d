"""Effects of packet sizes, protocols and kinds of hosts on what networks between hosts carry (paper S)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.cell_reader import Cells
from pairlab.analysis.claims.effect import Effect, estimator
from pairlab.analysis.claims.estimators.settings import Two, change
from pairlab.errors import NotMeasured
from pairlab.statistics.intervals import PERCENT

Bytes = Annotated[int, Field(ge=1)]
#: One pair that sends, over any network between two hosts, whose idle CPUs sleep and whose containers may use all.
_SENDING = {"pairs": 1, "transacts": False, "direction": "up", "cpus_awake": False, "pinning": "none"}


@estimator("%", varies=("udp_share",))
def protocols_change(runs: pd.DataFrame, *, driver: str, message_bytes: Bytes, against: str = "") -> Effect:
    """How much more a network carries by TCP than by UDP, in messages of that size.

    against: as a share of what that other network does: how much more it loses by UDP than by TCP against it.
    """
    asked = {"message_bytes": message_bytes, **_SENDING}
    where = f"messages of {message_bytes} B"

    def ratio(cells: Cells, each: str) -> pd.Series:
        tcp, udp = ({"driver": each, "udp_share": share, **asked} for share in (0.0, 1.0))
        return cells.ratio(_of(cells, runs, tcp, where), _of(cells, runs, udp, where))

    return _ratio_of_ratios(Cells(runs), ratio, driver, against, where)


@estimator("%")
def sizes_change(runs: pd.DataFrame, *, driver: str, sizes: Two[Bytes], against: str = "") -> Effect:
    """How much more a network carries in messages of the second size than of the first.

    against: as a share of what that other network does.
    """
    where = " → ".join(f"{size} B" for size in sizes)

    def ratio(cells: Cells, each: str) -> pd.Series:
        first, second = ({"driver": each, "message_bytes": size, **_SENDING} for size in sizes)
        return cells.ratio(_of(cells, runs, second, where), _of(cells, runs, first, where))

    return _ratio_of_ratios(Cells(runs), ratio, driver, against, where)


@estimator("%")
def kinds_change(
    runs: pd.DataFrame,
    *,
    drivers: Two[str],
    kinds: Two[Literal["physical", "virtual"]],
    message_bytes: Bytes,
) -> Effect:
    """How much more the first network carries on hosts of the first kind than the second on those of the second."""
    asked = {"message_bytes": message_bytes, **_SENDING}
    where = f"messages of {message_bytes} B"
    cells = Cells(runs)
    first, second = (
        {"driver": driver, "host_kind": kind, **asked} for driver, kind in zip(drivers, kinds, strict=True)
    )
    for cell in (first, second):
        _of(cells, runs, cell, where)
    return change(cells, first, second, "total_bps", where, of="")


def _ratio_of_ratios(cells: Cells, ratio: Any, driver: str, against: str, where: str) -> Effect:
    mine = ratio(cells, driver)
    if not against:
        return cells.effect(mine, PERCENT, where)
    return cells.effect(cells.difference(mine, ratio(cells, against)), PERCENT, where, gain=2.0)


def _of(cells: Cells, runs: pd.DataFrame, cell: Mapping[str, Any], where: str) -> pd.Series:
    if runs[(runs[list(cell)] == pd.Series(cell)).all(axis=1)].empty:
        raise NotMeasured(f"no runs of {cell['driver']} that measure {where}")
    return cells.of("total_bps", **cell)
