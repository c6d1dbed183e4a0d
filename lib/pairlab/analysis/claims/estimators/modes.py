"""Effects of networking modes and of containers, against two processes without any in the same place (paper S)."""

from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.cell_reader import Cells
from pairlab.analysis.claims.effect import Each, Effect, estimator
from pairlab.analysis.claims.estimators.settings import change
from pairlab.errors import NotMeasured

#: What all is held against.
BARE = "process"
Bytes = Annotated[int, Field(ge=0)]


@estimator("%")
def mode_change(
    runs: pd.DataFrame, *, driver: str, direction: Literal["up", "down"] = "up", message_bytes: Bytes = 0
) -> Effect:
    """How much more one pair carries in a mode than without containers: in bulk (message_bytes 0), or in messages."""
    asked = {
        "direction": direction,
        "message_bytes": message_bytes,
        "transacts": False,
        "pairs": 1,
        "cpus_awake": False,
    }
    what = f"messages of {message_bytes} B" if message_bytes else {"up": "upload", "down": "download"}[direction]
    return _against_bare(runs, driver, asked, "total_bps", what)


@estimator("%")
def mode_sizes(runs: pd.DataFrame, *, driver: str, what: Literal["total_bps", "latency_mean_s"]) -> Each:
    """The same at each size of messages, or of requests and their responses: of throughput or of latency."""
    timed = what == "latency_mean_s"
    size = "request_bytes" if timed else "message_bytes"
    mine = runs[runs["transacts"] == timed]
    mine = mine[mine["request_bytes"] == mine["response_bytes"]] if timed else mine[mine["message_bytes"] > 0]
    sizes = sorted(set.intersection(*(set(mine.loc[mine["driver"] == each, size]) for each in (driver, BARE))))
    if not sizes:
        raise NotMeasured(f"no size was measured of both {driver} and {BARE}")
    asked = {"direction": "up", "transacts": timed, "pairs": 1, "cpus_awake": False}
    parts = {
        f"{max(int(each), 1)} B": _against_bare(mine, driver, {**asked, size: each}, what, f"{max(int(each), 1)} B")
        for each in sizes
    }
    return Each(parts, points=len(sizes))


@estimator("%")
def containers_change(
    runs: pd.DataFrame,
    *,
    driver: str,
    what: Literal["total_bps", "calculation_s", "memory_read_bps", "memory_write_bps"],
    hosts: Annotated[int, Field(ge=1, le=2)] = 1,
) -> Effect:
    """How much more of something a pair of containers has over its network than two processes without any."""
    asked = {"hosts": hosts, "pairs": 1, "cpus_awake": False, "transacts": False}
    mine = runs[runs[what].notna()]
    sizes = sorted(mine["message_bytes"].unique())
    if len(sizes) > 1:
        raise NotMeasured(f"messages of several sizes ({', '.join(map(str, sizes))} B): take those of one")
    return _against_bare(mine, driver, asked, what, f"{hosts} host{'s' * (hosts > 1)}")


def _against_bare(runs: pd.DataFrame, driver: str, asked: dict[str, Any], what: str, where: str) -> Effect:
    for each in (driver, BARE):
        cell = runs[(runs[["driver", *asked]] == pd.Series({"driver": each, **asked})).all(axis=1)]
        if cell.empty:
            raise NotMeasured(f"no runs of {each} that measure {where}")
    cells = Cells(runs)
    return change(cells, {"driver": driver, **asked}, {"driver": BARE, **asked}, what, where, of="")
