"""A table of runs: sorted by any column, with the columns that are chosen, and boxes to tick.

The rows are sorted here, and only those that are listed are sent: the browser draws them (data/run_table.js), so
that ten thousand runs are no more work for it than two hundred.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import anywidget
import traitlets

from pairlab import paths
from pairlab.base import units
from pairlab.model.spec import Spec
from pairlab.store.index import Row
from pairlab.widgets.parts import when_changed

#: So many runs are listed at first.
LISTED = 200


class Column(NamedTuple):
    """text: what a row shows, of the row and its spec. number: it is aligned right. order: what it is sorted by."""

    label: str
    text: Callable[[Row, Spec], str]
    order: Callable[[Row], Any]
    number: bool = False


def _column(name: str, label: str = "", number: bool = False) -> Column:
    """A column of what is in the row by that name."""

    def text(row: Row, spec: Spec) -> str:
        value = row.get(name)
        return "" if value is None else str(value)

    return Column(label or name.capitalize(), text, lambda row: row.get(name), number)


def moment(row: Row) -> str:
    """When it was measured, by this machine's clock."""
    known = row["measured_at"]
    return f"{datetime.fromisoformat(known).astimezone():%Y-%m-%d %H:%M}" if known else "?"


def _lasts(row: Row, spec: Spec) -> str:
    return units.with_prefix(spec.flow_bytes, "B") if spec.flow_bytes else f"{spec.duration_s:g} s"


def _outcome(row: Row, spec: Spec) -> str:
    return row["outcome"] if row["status"] in ("ok", "invalid") else ""


COLUMNS: dict[str, Column] = {
    "when": Column("Measured", lambda row, spec: moment(row), lambda row: row["measured_at"]),
    "experiment": _column("experiment"),
    "backend": _column("backend"),
    "driver": _column("driver"),
    "workload": _column("workload"),
    "pairs": _column("pairs", number=True),
    "lasts": Column("Flows", _lasts, lambda row: (row["flow_bytes"], row["duration_s"]), number=True),
    "repetition": _column("repetition", number=True),
    "status": _column("status"),
    "outcome": Column("Result", _outcome, lambda row: row["total_throughput_bps"], number=True),
    "particulars": Column("More", lambda row, spec: ", ".join(spec.particulars), lambda row: row["spec"]),
    "label": _column("label"),
    "congestion_control": _column("congestion_control", "Congestion control"),
    "hosts": _column("hosts", number=True),
    "reasons": _column("reasons"),
    "kernel": _column("kernel"),
    "host": _column("host"),
    "key": _column("key"),
    "path": _column("path", "Folder"),
}
SHOWN = [*COLUMNS][:11]


class RunTable(anywidget.AnyWidget):
    """chosen: the keys of the ticked runs. order, descending: the column that they are sorted by, and how; shown: the
    columns, by their names in COLUMNS; limit: how many runs are listed; total: how many there are.
    """

    _esm = paths.DATA / "run_table.js"
    columns: traitlets.List[Any] = traitlets.List().tag(sync=True)
    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)
    shown = traitlets.List(traitlets.Unicode()).tag(sync=True)
    chosen = traitlets.List(traitlets.Unicode()).tag(sync=True)
    order = traitlets.Enum([*COLUMNS], "when").tag(sync=True)
    descending = traitlets.Bool(True).tag(sync=True)
    limit = traitlets.Int(LISTED).tag(sync=True)
    total = traitlets.Int().tag(sync=True)

    def __init__(self, complete: Callable[[Row], Row]):
        """complete: adds to a row what its run's tables say, where it does not yet."""
        self._runs: Sequence[Row] = ()
        self._complete = complete
        #: By key, moment and place; to make a text takes as long as to sort a hundred runs.
        self._cells: dict[tuple[str | None, ...], dict[str, str]] = {}
        columns = [{"name": name, "label": each.label, "number": each.number} for name, each in COLUMNS.items()]
        super().__init__(columns=columns, shown=SHOWN)
        when_changed(self, self._list, "order", "descending", "limit")

    @property
    def listed(self) -> list[str]:
        """The keys of the runs that are listed, in their order."""
        return [each["key"] for each in self.rows]

    def show(self, runs: Iterable[Row]) -> None:
        """Lists these; of those that were ticked, those that are among them stay so."""
        self._runs = list(runs)
        self._list()
        there = {run["key"] for run in self._runs}
        if any(key not in there for key in self.chosen):
            self.chosen = [key for key in self.chosen if key in there]

    def _list(self) -> None:
        order = COLUMNS[self.order].order
        known: list[Row] = []
        unknown: list[Row] = []
        for run in map(self._complete, self._runs) if self.order == "outcome" else self._runs:
            (unknown if order(run) is None else known).append(run)
        known.sort(key=order, reverse=self.descending)
        listed = [*known, *unknown][: self.limit]
        with self.hold_sync():
            self.total = len(self._runs)
            self.rows = [{"key": run["key"], "status": run["status"], "cells": self._texts(run)} for run in listed]

    def _texts(self, run: Row) -> dict[str, str]:
        name = run["key"], run["measured_at"], run["path"]
        if name not in self._cells:
            spec = Spec.stored({name: run[name] for name in Spec.model_fields})
            texts = {name: column.text(self._complete(run), spec) for name, column in COLUMNS.items()}
            self._cells[name] = texts | {"spec": run["spec"]}
        return self._cells[name]
