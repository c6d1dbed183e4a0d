"""What a sweep notes of itself in the store when it starts: its cells and their rules, for whoever follows it."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pairlab import repetition, store
from pairlab.errors import BadInput, StoreError
from pairlab.plan import SweepFile
from pairlab.repetition import Rule
from pairlab.spec import Spec


class Cell(BaseModel):
    """A cell, as of repetition 0, and how often it is measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    spec: Spec
    rule: Rule


class Started(BaseModel):
    """The start of a sweep: when, on which host and by which process; what it measures, and what it makes of trouble.

    retry: it measures again what failed or was invalid before.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    at: datetime
    host: str
    pid: int
    retry: bool
    unavailable: Literal["skip", "fail"]
    cells: tuple[Cell, ...] = Field(min_length=1)


def note(sweep: SweepFile, often: Mapping[Spec, Rule], *, retry: bool, at: datetime | None = None) -> tuple[str, ...]:
    """Notes in the store that a sweep starts with these cells; returns the backends it is for. Raises StoreError.

    at: when, by default now.
    """
    started = Started(
        at=at or datetime.now(UTC),
        host=platform.node(),
        pid=os.getpid(),
        retry=retry,
        unavailable=sweep.unavailable,
        cells=tuple(Cell(spec=spec, rule=rule) for spec, rule in often.items()),
    )
    every = [spec.replace(repetition=n) for spec, rule in often.items() for n in range(repetition.most(rule))]
    store.remember_sweep(sweep.name, every, start=started.model_dump(mode="json", exclude_defaults=True))
    return tuple(sorted({spec.backend for spec in often}))


def read(told: Any, what: str) -> Started:
    """What `note` noted of that sweep. Raises StoreError where it is none."""
    try:
        if told is None:
            raise ValueError("an older pairlab started it")
        return Started.model_validate(told)
    except (ValidationError, BadInput, ValueError) as error:
        why = str(error).splitlines()[0]
        raise StoreError(
            f"what sweep {what!r} is made of cannot be read ({why}): start it again, which notes it anew and measures"
            " nothing twice"
        ) from None
