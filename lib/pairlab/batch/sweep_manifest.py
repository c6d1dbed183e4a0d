"""What a sweep writes into the store when it starts: its cells and their rules, for whoever watches or resumes it."""

import os
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pairlab import store
from pairlab.batch import stopping_rule
from pairlab.batch.executors.workers import WorkerPool
from pairlab.batch.stopping_rule import Rule
from pairlab.batch.sweep_file import SweepFile
from pairlab.errors import BadInput, NoRuns, StoreError
from pairlab.measurement.measure import resolve
from pairlab.model import ground as grounds
from pairlab.model.ground import Ground
from pairlab.model.spec import Spec, stored_names
from pairlab.testbed.host import facts


class RuledCell(BaseModel):
    """A cell, as of repetition 0, and how often it is measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    spec: Spec
    rule: Rule


class Manifest(BaseModel):
    """The latest start of a sweep: when, on which host and by which process, with which cells and options.

    retry: it measures again what failed or was invalid before. file: its sweep file. auto: the traffic tool that
    `workload: auto` stood for. ground: host and kernel, on which its runs count; not known: on any.
    scheduler: the address of Dask's, where its workers measure it; credentials: the file by which it is reached, if
    named; dashboard: the address of its dashboard.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    at: datetime
    host: str
    pid: int
    retry: bool
    unavailable: Literal["skip", "fail"]
    cells: tuple[RuledCell, ...] = Field(min_length=1)
    ground: Ground = Ground()
    file: str = ""
    auto: str = ""
    scheduler: str = ""
    credentials: str = ""
    dashboard: str = ""


def write(
    sweep: SweepFile,
    often: Mapping[Spec, Rule],
    *,
    retry: bool,
    pool: WorkerPool | None = None,
    at: datetime | None = None,
) -> None:
    """Writes into the store that a sweep starts with these cells. Raises StoreError.

    pool: that measures it; its runs count on whatever host then. None: this host does. at: when, by default now.
    """
    for backend in backends(often):
        its = {spec: rule for spec, rule in often.items() if spec.backend == backend}
        manifest = Manifest(
            at=at or datetime.now(UTC),
            host=platform.node(),
            pid=os.getpid(),
            retry=retry,
            ground=grounds.of_host(facts.host()) if pool is None else Ground(),
            unavailable=sweep.unavailable,
            cells=tuple(RuledCell(spec=spec, rule=rule) for spec, rule in its.items()),
            file=str(sweep.file or ""),
            scheduler=pool.address if pool else "",
            credentials=pool.credentials if pool else "",
            dashboard=pool.dashboard if pool else "",
            auto=sweep.auto.get(backend) or (_auto_now(backend) if sweep.uses_auto() else ""),
        )
        start = manifest.model_dump(mode="json", exclude_defaults=True)
        store.remember_sweep(sweep.name, stopping_rule.repetitions(its), start=start)


def backends(often: Mapping[Spec, Rule]) -> tuple[str, ...]:
    """The backends that these cells are measured in."""
    return tuple(sorted({spec.backend for spec in often}))


def read(content: Any, sweep: str) -> Manifest:
    """What `write` wrote of that sweep. Raises StoreError where it is something else."""
    try:
        if content is None:
            raise ValueError("an older pairlab started it")
        with stored_names():
            return Manifest.model_validate(content)
    except (ValidationError, BadInput, ValueError) as error:
        why = str(error).splitlines()[0]
        raise StoreError(
            f"the cells of sweep {sweep!r} cannot be read ({why}): start it again, which writes them anew and measures"
            " nothing twice"
        ) from None


def keep_auto(sweep: SweepFile, say: Callable[[str], None] = lambda text: None) -> SweepFile:
    """The sweep with `workload: auto` as it was at its last start, so that installing a tool does not change its cells.

    Where that tool is gone, `auto` is what this host has now; say is called with that change.
    """
    if not sweep.uses_auto():
        return sweep
    try:
        starts = store.starts_of_sweep(sweep.name)
    except (NoRuns, StoreError):  # never started, or not to be read: it is written anew
        return sweep
    kept = {}
    for backend, start in starts.items():
        before = start.get("auto", "") if isinstance(start, dict) else ""
        if not before:
            continue
        now = _auto_now(backend)
        if now == before or now == "iperf":  # flowgen is part of pairlab, so it can be kept
            kept[backend] = before
        else:
            say(
                f"workload 'auto' was {before} when this sweep was last started, and {backend!r} has no {before} now:"
                f" it is {now}, so its cells are measured anew. To keep {before}, install it again"
            )
    return sweep.with_auto(kept)


def _auto_now(backend: str) -> str:
    return resolve(Spec(backend=backend, workload="auto")).workload
