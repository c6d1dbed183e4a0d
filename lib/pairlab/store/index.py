"""A table of the runs in the store, a row each, without reading them all each time.

The rows are kept in pairlab's cache. A run is read again when its files changed; without the folder, or in one
that cannot be written, all are read. Imports neither pandas nor Arrow where nothing changed.
"""

import contextlib
import hashlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairlab import paths
from pairlab.base.units import none_if_nan
from pairlab.errors import StoreError
from pairlab.model.recorded import age_key
from pairlab.store.catalogue import looked_for, no_runs, stored
from pairlab.store.paths import METADATA, identity, pack_of

if TYPE_CHECKING:
    from pairlab.model.records import Run

#: Raise it when rows get other columns.
FORMAT = 7

#: A row: key, path, the spec's values, spec (in words), status, reasons, measured_at (ISO 8601, or None), took_s,
#: outcome (in words), total_throughput_bps, failed_flows, skew_s (None where they are not known), and the fields of
#: Environment.
Row = dict[str, Any]
#: Of each file of a run: its name, inode, time of change and size.
Mark = list[list[str | int]]


def rows(root: str | Path | None = None, experiment: str | None = None) -> tuple[list[Row], list[str]]:
    """The runs below `root`, as load_runs has it, the newest first; and why others cannot be read. Raises NoRuns."""
    root, places = looked_for(root)
    known = _load(root)
    current: dict[str, tuple[Mark, Row]] = {}
    unread = []
    entries = {f"{place.parent.name}/{place.name}": (place, entry) for place, entry in stored(root).items()}
    for name, (place, entry) in entries.items():
        mark = _mark(place)
        if name in known and known[name][0] == mark:
            current[name] = known[name]
        elif experiment in (None, entry.experiment) or not entry.experiment:
            try:
                current[name] = mark, _row(place)
            except StoreError as error:
                unread.append(str(error))
    if current != known:
        _save(root, current)
    shown = {name: row for name, (_, row) in current.items() if experiment in (None, row["experiment"])}
    if not shown and not unread:
        raise no_runs(places, [experiment] if experiment else [])
    for name, row in shown.items():
        row |= {"path": f"{root}/{name}", "key": entries[name][1].key}
    return sorted(shown.values(), key=age, reverse=True), unread


def age(row: Row) -> datetime:
    """By what rows are sorted, the newest last: as Run.age_key."""
    return age_key(datetime.fromisoformat(row["measured_at"]) if row["measured_at"] else None)


def _row(place: Path) -> Row:
    from pairlab.store.runs import read

    return row_of(read(place))


def row_of(run: "Run") -> Row:
    """The row of a run, which reads its tables."""
    with_flows = len(run.flows) > 0
    return head_of(run) | {
        "outcome": run.outcome,
        "total_throughput_bps": run.total_throughput_bps if with_flows else None,
        "failed_flows": run.failed_flows if with_flows else None,
    }


def head_of(run: "Run") -> Row:
    """The run's row without values from the tables, which take long to read for thousands of runs; those are None."""
    return {
        "key": run.key,
        "path": str(run.path or ""),
        **run.spec.model_dump(),
        "spec": str(run.spec),
        "status": run.status,
        "reasons": "; ".join(run.reasons),
        "measured_at": run.measured_at.isoformat() if run.measured_at else None,
        "took_s": none_if_nan(run.total_s),
        "outcome": None,
        "total_throughput_bps": None,
        "failed_flows": None,
        "skew_s": none_if_nan(run.skew_s),
        **run.environment._asdict(),
    }


def _mark(place: Path) -> Mark:
    """Name, inode, time and size of the run's files, or of the pack: equal as long as nothing changed."""
    mark: Mark = []
    with contextlib.suppress(OSError):
        if pack := pack_of(place):
            return [[pack.name, *identity(pack.stat())]]
        with os.scandir(place) as files:
            for each in sorted(files, key=lambda each: each.name):
                if each.name == METADATA or each.name.endswith(".parquet"):
                    mark.append([each.name, *identity(each.stat())])
    return mark


def _file(root: Path) -> Path:
    return paths.cache() / "index" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}.json"


def _load(root: Path) -> dict[str, tuple[Mark, Row]]:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        noted = json.loads(_file(root).read_bytes())
        if noted["format"] == FORMAT:
            return {name: (mark, row) for name, (mark, row) in noted["runs"].items()}
    return {}


def _save(root: Path, current: dict[str, tuple[Mark, Row]]) -> None:
    file = _file(root)
    draft = file.with_name(f"{file.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({"format": FORMAT, "runs": current}))
        draft.replace(file)
