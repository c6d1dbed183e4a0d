"""What `pairlab compare BEFORE AFTER` holds against each other: each side by what a user calls it."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pairlab import paths, store
from pairlab.base import named_values
from pairlab.errors import BadInput, NoRuns, UnknownName
from pairlab.store.dataset import Runs, load_runs
from pairlab.store.paths import SUFFIX

_DAY = r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d)?"
_DATES = re.compile(rf"({_DAY})(?:\.\.({_DAY}))?")


def both(before: str, after: str, root: Path | None, filters: Mapping[str, Sequence[str]]) -> Runs:
    """The runs of both sides as one set, each labelled with the name of its side. Raises as `side`."""
    if before == after:
        raise BadInput(f"both sides are {before!r}: name two")
    sides = {name: side(name, root).where(**filters) for name in (before, after)}
    for name, its in sides.items():
        if not len(its):
            having = ", ".join(f"{key}={value}" for key, values in filters.items() for value in values)
            raise NoRuns(f"no runs of {name} have {having}")
    moments = [{(run.spec, run.measured_at) for run in its if run.measured_at} for its in sides.values()]
    if shared := [run.key for run in sides[after] if (run.spec, run.measured_at) in set.intersection(*moments)]:
        raise BadInput(
            f"{len(shared)} of the runs of {after} are those of {before}, too, such as {shared[0]}: name two sides that"
            " share none (a pack has the runs of every label)"
        )
    runs = tuple(store.with_label(run, name) for name, its in sides.items() for run in its)
    first = sides[before]
    return replace(first, runs=runs, damaged=tuple({*first.damaged, *sides[after].damaged}), digest="")


def side(name: str, root: Path | None) -> Runs:
    """The runs that a name stands for: a label, a sweep, a folder of runs (such as ./before) or a pack, a day or
    from..to (UTC), or NAME=VALUE[,NAME=VALUE]. Raises NoRuns where there are none, UnknownName where it is nothing of
    these.
    """
    sweeps = sorted(each.name for each in (root or paths.runs()).glob(".sweeps/*/"))
    if name.partition("/")[0] not in sweeps and (os.sep in name or name.endswith(SUFFIX)):
        return load_runs(name, environment="all")
    every = Runs(())  # the side may be in another place than the store
    with contextlib.suppress(NoRuns):
        every = load_runs(root, environment="all")
    if found := _DATES.fullmatch(name):
        return _measured(every, name, *found.groups())
    if "=" in name:
        return every.where(**named_values.by_name(name.split(",")))
    if len(labelled := every.where(label=name)):
        return labelled
    if name.partition("/")[0] in sweeps:
        return load_runs(root, sweep=name, environment="all")
    if Path(name).is_dir():
        return load_runs(name, environment="all")
    labels = ", ".join(sorted(filter(None, set(every.index["label"])))) or "none"
    raise UnknownName(
        f"{name!r} is no label (there are: {labels}), sweep (there are: {', '.join(sweeps) or 'none'}), folder of runs,"
        " pack, date or NAME=VALUE"
    )


def _measured(runs: Runs, name: str, first: str, last: str | None) -> Runs:
    begin, end = _moment(first), _moment(last or first)
    if len(last or first) == len("2026-01-01"):
        end += timedelta(days=1)
    found = runs.where(lambda run: bool(run.measured_at and begin <= run.measured_at < end))
    if not len(found):
        raise NoRuns(f"no runs were measured {name} (UTC)")
    return found


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadInput(f"{text!r} is no day: {error}") from None
