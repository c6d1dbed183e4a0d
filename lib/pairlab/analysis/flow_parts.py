"""The flows of many runs in parts that are read in turn, so that not all must fit into memory.

A part has the flows of all runs with the same values of some columns, such as one cell's, and must fit.
"""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from pairlab import store
from pairlab.analysis import executors
from pairlab.analysis.selection import flows_of
from pairlab.base import schedulers
from pairlab.errors import DamagedRun, StoreError
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: Runs with at most this many flows are read at once, and parts with at most as many are processed in parallel.
MOST_AT_ONCE = 20_000_000
#: The columns of every part's flows.
ALWAYS = ("repetition", "block", "key", "host", "kernel", "status")

Made = TypeVar("Made")


def reduced(
    work: Callable[..., pd.DataFrame], flows: pd.DataFrame | Runs, by: Sequence[str], columns: Sequence[str] = ()
) -> pd.DataFrame:
    """The rows that `work` makes of each part of the flows, as `each`, concatenated."""
    return joined(each(work, flows, by, columns))


def each(
    work: Callable[..., Made], flows: pd.DataFrame | Runs, by: Sequence[str], columns: Sequence[str] = ()
) -> list[Made]:
    """The results of `work` on each part of the flows; of few flows, one result of all.

    work: from a frame of flows to a small result, which must not depend on other parts; with a scheduler
    (executors.py), picklable. flows: a frame as Runs.flows, or the runs. by: columns of runs, not of flows; flows with
    the same values belong together. columns: those that `work` needs besides by, repetition, block, key, host, kernel
    and status; none: it takes the runs, and reads the columns itself.
    """
    if isinstance(flows, pd.DataFrame):
        return [work(flows)]
    wanted = [*dict.fromkeys((*by, *ALWAYS, *columns))] if columns else []
    parts = _parts(flows, by)
    rows = sum(part.rows for part in parts)
    if not parts or (rows <= MOST_AT_ONCE and not schedulers.named()):
        return [work(flows_of(flows, wanted) if wanted else flows)]
    of_part = partial(_of_part, work, wanted)
    if schedulers.named():
        return executors.on_workers(partial(_on_worker, of_part), parts, {part.paths[0].parents[1] for part in parts})
    return executors.at_once(of_part, parts, most=max(1, MOST_AT_ONCE // max(part.rows for part in parts)))


def in_parts(
    by: Sequence[str], columns: Sequence[str]
) -> Callable[[Callable[..., pd.DataFrame]], Callable[..., pd.DataFrame]]:
    """Lets a function of a frame of flows take runs, too: it then reads these columns of their flows as `reduced`."""

    def decorate(work: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
        @wraps(work)
        def of_parts(flows: pd.DataFrame | Runs, **options: Any) -> pd.DataFrame:
            if isinstance(flows, pd.DataFrame):
                return work(flows, **options)
            return reduced(partial(of_parts, **options), flows, by, columns)

        return of_parts

    return decorate


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of these frames with the same columns, concatenated."""
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


@dataclass(frozen=True)
class Part:
    """Stored runs whose flows are read together, also by another process with the store."""

    paths: tuple[Path, ...]
    specs: tuple[Spec, ...]
    measured_at: tuple[datetime | None, ...]
    rows: int

    def read(self, columns: Sequence[str]) -> pd.DataFrame | Runs:
        """These columns of the flows; none: the runs. Raises DamagedRun if a run is gone or replaced."""
        runs = [store.with_spec(store.read(path), spec) for path, spec in zip(self.paths, self.specs, strict=True)]
        for run, measured_at in zip(runs, self.measured_at, strict=True):
            if run.measured_at != measured_at:
                raise DamagedRun(f"{run.path} is another run than the one that was loaded")
        return Runs(tuple(runs)).select("flows", columns) if columns else Runs(tuple(runs))


def _of_part(work: Callable[..., Made], columns: Sequence[str], part: Part) -> Made:
    return work(part.read(columns))


def _on_worker(of_part: Callable[[Part], Made], part: Part) -> Made:
    try:
        return of_part(part)
    except DamagedRun as error:
        raise StoreError(
            f"worker {platform.node()}: {error}: what computes on workers needs a store that they share"
        ) from None


def _parts(runs: Runs, by: Sequence[str]) -> list[Part]:
    """The runs that count, by the values of these columns, in order; no parts if a run is not stored."""
    ok = [run for run in runs if run.status == "ok"]
    if not all(run.path for run in ok):
        return []
    values = runs.where(status="ok").index[[*by]] if ok else pd.DataFrame(columns=[*by])
    parts = []
    for _, rows in values.reset_index(drop=True).groupby([*by], sort=True, dropna=False):
        of_part = [ok[place] for place in rows.index]
        paths = tuple(run.path for run in of_part if run.path)
        flows = sum(store.length(run, "flows") for run in of_part)
        parts.append(Part(paths, tuple(run.spec for run in of_part), tuple(run.measured_at for run in of_part), flows))
    return parts
