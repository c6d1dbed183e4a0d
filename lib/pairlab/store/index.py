"""A table of the runs in the store, a row each, without reading them all each time.

The rows are kept in .cache/ of the checkout. A run is read again when its files changed; without the folder, or in one
that cannot be written, all are read. Imports neither pandas nor Arrow where nothing changed.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.base.units import none_if_nan
from pairlab.errors import NoRuns, StoreError
from pairlab.model.recorded import AHEAD
from pairlab.store.paths import directories

#: Raise it when rows get other columns.
FORMAT = 4

#: A row: key, path, the spec's values, status, reasons, measured_at (ISO 8601, or None), took_s, outcome (in words),
#: total_throughput_bps, failed_flows, skew_s (None where they are not known), host, machine, kernel, engine,
#: tool and switch.
Row = dict[str, Any]
#: Of each file of a run: its name, inode, time of change and size.
Mark = list[list[str | int]]


def rows(root: str | Path | None = None, experiment: str | None = None) -> tuple[list[Row], list[str]]:
    """The runs below `root`, as load_runs has it, the newest first; and why others cannot be read. Raises NoRuns."""
    searched = paths.tried(root) if root else str(paths.runs())
    root = paths.existing(root) if root else paths.runs()
    known = _load(root)
    found: dict[str, tuple[Mark, Row]] = {}
    unread = []
    for place in directories(root):
        name = f"{place.parent.name}/{place.name}"
        mark = _mark(str(place))
        if name in known and known[name][0] == mark:
            found[name] = known[name]
        elif experiment in (None, place.parent.name):
            try:
                found[name] = mark, _row(place)
            except StoreError as error:
                unread.append(str(error))
    if found != known:
        _save(root, found)
    chosen = [row for _, row in found.values() if experiment in (None, row["experiment"])]
    if not chosen and not unread:
        what = f"runs of {experiment!r}" if experiment else "runs"
        place = root if root.exists() else searched
        raise NoRuns(f"no {what} in {place}: measure some, for instance with `make run`, or `pairlab run throughput`")
    for row in chosen:
        row["path"] = f"{root}/{row['experiment']}/{row['key']}"
    latest = (datetime.now(UTC) + AHEAD).isoformat()
    return sorted(chosen, key=lambda row: _age_key(row["measured_at"], latest), reverse=True), unread


def _age_key(measured_at: str | None, latest: str) -> str:
    """As Run.age_key."""
    return "" if measured_at is None or measured_at > latest else measured_at


def _row(place: Path) -> Row:
    from pairlab.store.runs import read

    run = read(place)
    with_flows = len(run.flows) > 0
    ground = run.ground
    return {
        "key": run.key,
        "path": "",
        **run.spec.model_dump(),
        "status": run.status,
        "reasons": "; ".join(run.reasons),
        "measured_at": run.measured_at.isoformat() if run.measured_at else None,
        "took_s": none_if_nan(run.total_s),
        "outcome": run.outcome,
        "total_throughput_bps": run.total_throughput_bps if with_flows else None,
        "failed_flows": run.failed_flows if with_flows else None,
        "skew_s": none_if_nan(run.skew_s),
        "host": ground.host,
        "machine": ground.machine,
        "kernel": ground.kernel,
        "engine": ground.engine,
        "tool": ground.tool,
        "switch": ground.switch,
    }


def _mark(place: str) -> Mark:
    """By what it is seen that a run's head or tables changed."""
    mark: Mark = []
    with contextlib.suppress(OSError), os.scandir(place) as files:
        for each in sorted(files, key=lambda each: each.name):
            if each.name == "run.json" or each.name.endswith(".parquet"):
                found = each.stat()
                mark.append([each.name, found.st_ino, found.st_mtime_ns, found.st_size])
    return mark


def _file(root: Path) -> Path:
    return paths.ROOT / ".cache" / "index" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}.json"


def _load(root: Path) -> dict[str, tuple[Mark, Row]]:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = json.loads(_file(root).read_bytes())
        if kept["format"] == FORMAT:
            return {name: (mark, row) for name, (mark, row) in kept["runs"].items()}
    return {}


def _save(root: Path, found: dict[str, tuple[Mark, Row]]) -> None:
    file = _file(root)
    draft = file.with_name(f"{file.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({"format": FORMAT, "runs": found}))
        draft.replace(file)


def differing(rows: Iterable[Row], names: Iterable[str]) -> list[str]:
    """Which of these columns have several values."""
    rows = list(rows)
    return [name for name in names if len({row[name] for row in rows}) > 1]
