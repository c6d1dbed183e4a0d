"""A sweep's manifest in the store: the cells and rules at its start, to watch and resume the sweep."""

import os
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pairlab import store
from pairlab.base.caller import caller
from pairlab.batch import stopping_rule
from pairlab.batch.executors.workers import WorkerPool
from pairlab.batch.stopping_rule import Rule
from pairlab.batch.sweep_file import SweepFile
from pairlab.errors import BadInput, NoRuns, StoreError
from pairlab.measurement.measure import resolve
from pairlab.model import environment as environments
from pairlab.model.environment import Environment
from pairlab.model.spec import Spec, stored_names
from pairlab.testbed.host import facts


class RuledCell(BaseModel):
    """A cell, as of repetition 0, with its rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    spec: Spec
    rule: Rule


class Manifest(BaseModel):
    """The latest start of a sweep: time, host, process, cells and options.

    retry: it measures failed and invalid cells again. unavailable: whether it may skip cells that the host cannot
    measure. file: the sweep file. auto: the traffic tool that `workload: auto` stood for. ground: host and kernel on
    which runs count; without them: on any. scheduler: the address of the Dask scheduler, if workers measure the sweep;
    credentials: the file of its credentials, if named; dashboard: the address of its dashboard.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    at: datetime
    host: str
    pid: int
    retry: bool
    unavailable: Literal["skip", "fail"]
    cells: tuple[RuledCell, ...] = Field(min_length=1)
    ground: Environment = Environment()
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
    """Writes the manifest of a sweep that starts with these cells into the store. Raises StoreError.

    pool: the workers that measure the sweep, whose runs count on any host; None: this host. at: by default now.
    """
    for backend in backends(often):
        rules = {spec: rule for spec, rule in often.items() if spec.backend == backend}
        manifest = Manifest(
            at=at or datetime.now(UTC),
            host=platform.node(),
            pid=os.getpid(),
            retry=retry,
            ground=(Environment() if pool else environments.of_host(facts.host()))._replace(label=caller().label),
            unavailable=sweep.unavailable,
            cells=tuple(RuledCell(spec=spec, rule=rule) for spec, rule in rules.items()),
            file=str(sweep._file or ""),
            scheduler=pool.address if pool else "",
            credentials=pool.credentials if pool else "",
            dashboard=pool.dashboard if pool else "",
            auto=sweep._auto.get(backend) or (_auto_now(backend) if sweep.uses_auto() else ""),
        )
        start = manifest.model_dump(mode="json", exclude_defaults=True)
        store.remember_sweep(sweep.name, stopping_rule.repetitions(rules), start=start)


def backends(often: Mapping[Spec, Rule]) -> tuple[str, ...]:
    return tuple(sorted({spec.backend for spec in often}))


def read(content: Any, sweep: str) -> Manifest:
    """The sweep's manifest from the content of its file. Raises StoreError if it is invalid."""
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
    """The sweep with `workload: auto` as at the last start, so that installing a tool does not change the cells.

    If that tool is gone, `auto` is this host's present choice; say is called with the change.
    """
    if not sweep.uses_auto():
        return sweep
    try:
        starts = store.starts_of_sweep(sweep.name)
    except (NoRuns, StoreError):  # never started, or unreadable: it is written anew
        return sweep
    tools = {}
    for backend, start in starts.items():
        before = start.get("auto", "") if isinstance(start, dict) else ""
        if not before:
            continue
        now = _auto_now(backend)
        if now == before or now == "iperf":  # flowgen is part of pairlab, so it can be kept
            tools[backend] = before
        else:
            say(
                f"workload 'auto' was {before} when this sweep was last started, and {backend!r} has no {before} now:"
                f" it is {now}, so its cells are measured anew. To keep {before}, install it again"
            )
    return sweep.with_auto(tools)


def _auto_now(backend: str) -> str:
    return resolve(Spec(backend=backend, workload="auto")).workload
