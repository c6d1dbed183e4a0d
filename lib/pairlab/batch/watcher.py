"""Boards of a sweep, one after another, from the store alone; each reads only what is new there.

So they show also a sweep that another process measures, on another host that shares the store, or that was killed.
Nothing is measured, and no lock is taken.
"""

import contextlib
import itertools
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pairlab import paths, store
from pairlab.batch import stopping_rule, sweep_manifest
from pairlab.batch.board import Board, Count, Part, Result, Worker
from pairlab.batch.eta import Schedule, left_s, traffic_s
from pairlab.batch.stopping_rule import Rule, Until
from pairlab.batch.sweep_manifest import Manifest
from pairlab.errors import StoreError
from pairlab.model import reasons
from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import MainValue, main_value

#: How many results a board lists.
_NEWEST = 5
#: Without locks, a sweep counts as not running after so long, and so many cells' time, without a new result.
_SILENT_S, _SILENT_CELLS = 60.0, 3


class Watcher:
    """Boards of one sweep, one after another; after the first, each reads only what came since the one before."""

    def __init__(self, name: str, *, backend: str | None = None, root: str | Path | None = None):
        self.sweep = f"{name}/{backend}" if backend else name
        self._root = paths.existing(root) if root else paths.runs()
        self._starts: Mapping[str, Any] = {}
        self._view: _View | None = None

    def board(self) -> Board:
        """How far the sweep has come now. Raises NoRuns where it was never started, StoreError."""
        starts = store.starts_of_sweep(self.sweep, self._root)
        if self._view is None or starts != self._starts:
            read = {backend: sweep_manifest.read(start, self.sweep) for backend, start in starts.items()}
            self._view, self._starts = _View(self.sweep.partition("/")[0], read, self._root), starts
        return self._view.board()


class _View:
    """A sweep since its latest start, and what is known of its runs."""

    def __init__(self, name: str, starts: Mapping[str, Manifest], root: Path):
        self._name, self._starts, self._root = name, starts, root
        self._latest = max(starts.values(), key=lambda start: start.at)
        self._shared = self._latest.ground == Ground()
        self._rules: dict[Spec, Rule] = {
            cell.spec: cell.rule
            for backend, start in starts.items()
            for cell in start.cells
            if cell.spec.backend == backend
        }
        self._keys = {
            spec: [spec.replace(repetition=number).key for number in range(stopping_rule.most(rule))]
            for spec, rule in self._rules.items()
        }
        self._cells = {key: spec for spec, keys in self._keys.items() for key in keys}
        self._follower = store.Follower(
            stopping_rule.repetitions(self._rules), root, lambda spec: starts[spec.backend].ground
        )
        self._schedule = Schedule(self._rules, stopping_rule.repetitions(self._rules))
        self._values: dict[tuple[str, Until | None], Any] = {}
        self._counts = {spec: self._count(spec) for spec in self._rules}
        self._board: Board | None = None

    def board(self) -> Board:
        held = [store.is_running(self._name, backend, self._root) for backend in self._starts]
        changed = self._follower.look()  # after the locks: all results of a sweep that ends in between are read
        self._values = {its: value for its, value in self._values.items() if its[0] not in changed}
        for spec in {self._cells[key] for key in changed}:
            self._counts[spec] = self._count(spec)
        if changed or self._board is None:
            self._board = self._read()
        life = self._life(held)
        return replace(self._board, **life, workers=self._workers() if life["running"] else ())

    def _workers(self) -> tuple[Worker, ...]:
        """Those that measure it, where several do."""
        noted = store.workers_of_sweep(self._name, self._root) if self._shared else []
        found = []
        for each in noted:
            with contextlib.suppress(LookupError, TypeError, ValueError):  # another pairlab wrote it
                since = datetime.fromisoformat(each["since"])
                found.append(Worker(str(each["worker"]), str(each["cell"]), since, int(each["cells"])))
        return tuple(sorted(found, key=lambda worker: worker.name))

    def _read(self) -> Board:
        gaps = self._gaps()
        newest = self._by_time(self._follower.runs.values())[: -_NEWEST - 1 : -1]
        return Board(
            name=self._name,
            backend=", ".join(sorted({spec.backend for spec in self._rules})),
            started_at=self._latest.at,
            host=self._latest.host,
            pid=self._latest.pid,
            running=False,
            died=False,
            heard_at=max([self._latest.at, *(run.measured_at for run in newest)]),
            count=sum(self._counts.values(), Count()),
            most=self._schedule.most,
            cell_s=fmean(gap for _, gap in gaps) if gaps else None,
            left_s=self._left_s(gaps),
            parts=self._parts(),
            newest=tuple(self._result(run, first=run is newest[0]) for run in newest),
            troubles=reasons.grouped(
                (run.status, "; ".join(run.reasons))
                for run in self._by_time(run for run in self._follower.runs.values() if self._is_final(run))
                if run.status != "ok"
            ),
            damaged=tuple(sorted(self._follower.troubles.values())),
            imprecise=tuple(self._schedule.imprecise()),
            unavailable=self._latest.unavailable,
            retry=self._latest.retry,
            file=self._latest.file,
            scheduler=self._latest.scheduler,
            credentials=self._latest.credentials,
            dashboard=self._latest.dashboard,
        )

    def _left_s(self, gaps: Sequence[tuple[Spec, float]]) -> float:
        """How long the rest takes: of several workers together, as much shorter than on one as it has been so far."""
        if not self._shared:
            return self._schedule.left_s([gap - traffic_s(spec) for spec, gap in gaps])
        on_one_s = left_s(((spec, 1) for spec, _ in gaps), ())
        return self._schedule.left_s(()) * (sum(gap for _, gap in gaps) / on_one_s if on_one_s else 1.0)

    def _life(self, held: Sequence[bool | None]) -> dict[str, bool]:
        """By the locks that a sweep holds; in a store copied from another host, by the age of its newest result."""
        if any(held):
            return {"running": True, "died": False}
        if None not in held and self._latest.host == platform.node():
            return {"running": False, "died": self._board.count.left > 0}
        silent_s = (datetime.now(UTC) - self._board.heard_at).total_seconds()
        return {"running": silent_s < max(_SILENT_S, _SILENT_CELLS * (self._board.cell_s or 0.0)), "died": False}

    def _is_final(self, run: Run) -> bool:
        """Whether the sweep keeps that result: with --retry, it measures again what failed or was invalid before."""
        start = self._starts[run.spec.backend]
        return not (
            start.retry
            and run.status in ("failed", "invalid")
            and run.measured_at is not None
            and run.measured_at < start.at
        )

    def _count(self, spec: Spec) -> Count:
        """How the repetitions of a cell ended, after updating the schedule with them."""
        rule, keys = self._rules[spec], self._keys[spec]
        stored = {n: self._follower.runs[key] for n, key in enumerate(keys) if key in self._follower.runs}
        ended = {n: run for n, run in stored.items() if self._is_final(run)}
        if isinstance(rule, int):
            values = ()
        else:
            found = (self._value(run, rule) for run in ended.values())
            values = [value for value in found if value is not None]
        self._schedule.update(spec, len(ended), values, set(range(len(keys))) - ended.keys())
        by = Counter(run.status for run in ended.values())
        return Count(self._schedule.expected(spec), by["ok"], by["failed"], by["invalid"], by["skipped"])

    def _parts(self) -> tuple[Part, ...]:
        counts: dict[tuple[str, str, str], Count] = {}
        for spec, count in self._counts.items():
            its = spec.backend, spec.experiment, spec.driver
            counts[its] = counts.get(its, Count()) + count
        return tuple(Part(*its, count) for its, count in sorted(counts.items()))

    def _gaps(self) -> list[tuple[Spec, float]]:
        """The cells measured since the latest start, but for the newest, and the time from each to the next."""
        runs = self._by_time(self._follower.runs.values())
        since = [run for run in runs if run.measured_at >= self._latest.at]
        times = [(run.spec, run.status, run.measured_at) for run in since]
        return [
            (spec, (after - begun).total_seconds())
            for (spec, status, begun), (_, _, after) in itertools.pairwise(times)
            if status != "skipped"
        ]

    def _by_time(self, runs: Iterable[Run]) -> list[Run]:
        return sorted((run for run in runs if run.measured_at is not None), key=lambda run: run.measured_at)

    def _value(self, run: Run, rule: Until | None = None) -> Any:
        """What that rule looks at, or the value that stands for the run; None where it has none, or is damaged.

        Each is computed once, and the tables that are read for it are released: those of many runs are large.
        """
        key = run.spec.key
        if (key, rule) not in self._values:
            try:
                whole = store.read(run.path)
                value = stopping_rule.value_of(whole, rule) if rule else main_value(whole)
            except StoreError as error:
                self._follower.troubles[key], value = str(error), None
            self._values[key, rule] = value
        return self._values[key, rule]

    def _result(self, run: Run, first: bool) -> Result:
        if run.status == "ok":
            mine = self._value(run)
            against = self._against(run, mine) if first and mine and mine.value == mine.value else []
            text = ", ".join([mine.text() if mine else "without a value", *(["; ".join(against)] if against else ())])
        else:
            text = "; ".join(run.reasons)
        return Result(run.key, str(run.spec), run.status, run.measured_at, text)

    def _against(self, run: Run, mine: MainValue) -> list[str]:
        """The run compared with the other repetitions of its cell, and with the same cell of other drivers."""
        cell = run.spec.replace(repetition=0)
        others = self._values_like(mine, cell, but=run.spec.key)
        texts = [_beside(mine.value, others)] if others else ["its first valid repetition"]
        for driver in sorted({spec.driver for spec in self._rules} - {cell.driver}):
            if theirs := self._values_like(mine, cell.replace(driver=driver)):
                centre = median(theirs)
                so_many = f"median of {len(theirs)}" if len(theirs) > 1 else "one run"
                texts.append(f"{_apart(mine.value, centre)} {driver} ({mine.text(centre)}, {so_many})")
        return texts

    def _values_like(self, mine: MainValue, cell: Spec, but: str = "") -> list[float]:
        """The same measure of the valid repetitions of a cell; none of a cell that the sweep does not have."""
        found = (self._follower.runs.get(key) for key in self._keys.get(cell, ()) if key != but)
        values = (self._value(run) for run in found if run and run.status == "ok")
        return [each.value for each in values if each and each.name == mine.name and each.value == each.value]


def _beside(value: float, others: Sequence[float]) -> str:
    centre = "its other repetition" if len(others) == 1 else f"the median of its {len(others)} other repetitions"
    return f"{_apart(value, median(others))} {centre}"


def _apart(value: float, other: float) -> str:
    """How far a value lies from another: "3.2 % below"."""
    if not other:
        return "equal to" if value == other else "above"
    percent = 100 * (value / other - 1)
    text = f"{abs(percent):.1f}" if abs(percent) < 9.95 else f"{abs(percent):,.0f}"
    return "equal to" if text == "0.0" else f"{text} % {'below' if percent < 0 else 'above'}"
