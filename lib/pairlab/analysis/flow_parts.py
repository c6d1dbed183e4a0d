"""The flows of many runs in parts that are read in turn, so that not all of them need to fit into memory.

A part has the flows of all runs with the same values of some columns, such as one cell's, and these must fit.
"""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import pandas as pd

from pairlab import store
from pairlab.analysis import executors
from pairlab.base import schedulers
from pairlab.errors import DamagedRun, StoreError
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: Runs with no more flows than this are read at once, and parts are worked on at once as long as they have no more.
MOST_AT_ONCE = 20_000_000
#: What every part's flows carry.
ALWAYS = ("repetition", "key", "host", "kernel", "status")

Made = TypeVar("Made")


def reduced(
    work: Callable[[pd.DataFrame], pd.DataFrame], flows: pd.DataFrame | Runs, by: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """What `work` makes of the flows, as `each`: a few rows of each part, one part's after the other's."""
    return joined(each(work, flows, by, columns))


def each(
    work: Callable[[pd.DataFrame], Made], flows: pd.DataFrame | Runs, by: Sequence[str], columns: Sequence[str]
) -> list[Made]:
    """What `work` makes of the flows: of many runs', of each part; else of all at once, and there is one.

    work: from a frame of flows to what is small, which must be the same for a part whatever the other parts have; where
    there is a scheduler (executors.py), what can be pickled. flows: a frame as Runs.flows, or the runs. by: columns
    that are the runs' and not the flow's; flows with the same values belong together. columns: what `work` needs
    besides by, repetition, key, host, kernel and status.
    """
    if isinstance(flows, pd.DataFrame):
        return [work(flows)]
    wanted = [*dict.fromkeys((*by, *ALWAYS, *columns))]
    parts = _parts(flows, by)
    rows = sum(part.rows for part in parts)
    if not parts or (rows <= MOST_AT_ONCE and not schedulers.named()):
        return [work(frame_of(flows, wanted))]
    of_part = partial(_of_part, work, wanted)
    if schedulers.named():
        return executors.on_workers(partial(_on_worker, of_part), parts, {part.paths[0].parents[1] for part in parts})
    return executors.at_once(of_part, parts, most=max(1, MOST_AT_ONCE // max(part.rows for part in parts)))


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of these frames, which have the same columns, one after the other."""
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


@dataclass(frozen=True)
class Part:
    """Stored runs of which the flows are read together; another process that has the store can read them, too."""

    paths: tuple[Path, ...]
    specs: tuple[Spec, ...]
    measured_at: tuple[datetime | None, ...]
    rows: int

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """Raises DamagedRun where no run is stored any more, or another one."""
        runs = [store.with_spec(store.read(path), spec) for path, spec in zip(self.paths, self.specs, strict=True)]
        for run, measured_at in zip(runs, self.measured_at, strict=True):
            if run.measured_at != measured_at:
                raise DamagedRun(f"{run.path} is another run than the one that was loaded")
        return Runs(tuple(runs)).select("flows", columns)


def frame_of(runs: Runs, columns: Sequence[str]) -> pd.DataFrame:
    """Runs.select of the flows; where no run counts, a frame with these columns and no rows."""
    if any(run.status == "ok" for run in runs):
        return runs.select("flows", columns)
    return pd.DataFrame(columns=list(columns))


def _of_part(work: Callable[[pd.DataFrame], Made], columns: Sequence[str], part: Part) -> Made:
    return work(part.read(columns))


def _on_worker(of_part: Callable[[Part], Made], part: Part) -> Made:
    try:
        return of_part(part)
    except DamagedRun as error:
        raise StoreError(
            f"worker {platform.node()}: {error}: what computes on workers needs a store that they share"
        ) from None


def _parts(runs: Runs, by: Sequence[str]) -> list[Part]:
    """The runs that count by these values, in their order; those that are not stored are no parts."""
    ok = [run for run in runs if run.status == "ok"]
    if not all(run.path for run in ok):
        return []
    values = runs.where(status="ok").index[[*by]] if ok else pd.DataFrame(columns=[*by])
    found = []
    for _, rows in values.reset_index(drop=True).groupby([*by], sort=True, dropna=False):
        mine = [ok[place] for place in rows.index]
        paths = tuple(run.path for run in mine if run.path)
        rows_of = sum(store.length(run, "flows") for run in mine)
        found.append(Part(paths, tuple(run.spec for run in mine), tuple(run.measured_at for run in mine), rows_of))
    return found
