"""A run's head, run.json: all of a run but its tables and what the tools printed."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pairlab.base.foreign_files import all_visible, read_text
from pairlab.model import ground, recorded
from pairlab.model.records import SCHEMA, STATUSES, Run
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES
from pairlab.store.file_errors import newer
from pairlab.store.migrations import migrate

NAME = "run.json"
#: A head has some kilobytes, and of 500 pairs on many cores less than one megabyte.
MOST_BYTES = 16 * 2**20


def write(run: Run, place: Path) -> None:
    """Writes the head of that run into its directory."""
    with open(place / NAME, "w", encoding="utf-8") as file:
        json.dump(_head(run), file, indent=1, allow_nan=False)
        file.write("\n")


def load(place: Path) -> dict[str, Any]:
    """The head as the present schema has it, whichever wrote it; that of a newer one as it is.

    Its texts have no control characters: they are shown in terminals, notebooks and papers.
    """
    return migrate(all_visible(json.loads(read_text(place / NAME, MOST_BYTES))))


def values(head: dict[str, Any], place: Path) -> dict[str, Any]:
    """What a Run is made of, from its head; place: where it lies, for messages.

    Raises SchemaMismatch where a newer pairlab wrote it, and all kinds of errors where it is no head.
    """
    if head["schema"] > SCHEMA:
        raise newer(place, f"with schema {head['schema']}, and this one knows up to {SCHEMA}")
    if unknown := sorted(set(head["spec"]) - set(Spec.model_fields)):
        raise newer(place, f"whose specs have {', '.join(map(repr, unknown))}")
    if head["status"] not in STATUSES:
        raise ValueError(f"unknown status {head['status']!r}")
    recorded.require(head)
    names = {name: head["spec"][name] for name in ("backend", "driver", "workload")}
    if not all(isinstance(each, str) for each in ground.of(head["facts"], **names)):
        raise ValueError("its facts do not describe a host")
    return {
        "spec": Spec.stored(head["spec"]),
        "status": head["status"],
        "reasons": tuple(head["reasons"]),
        "measured_at": datetime.fromisoformat(head["measured_at"]) if head["measured_at"] else None,
        "skew_s": _number(head["skew_s"]),
        "harness_cpu_s": _number(head["harness_cpu_s"]),
        "times_s": head["times_s"],
        "facts": head["facts"],
        "checks": head["checks"],
    }


def _head(run: Run) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "key": run.key,
        "spec": run.spec.model_dump(),
        "status": run.status,
        "reasons": list(run.reasons),
        "measured_at": run.measured_at.isoformat() if run.measured_at else None,
        "skew_s": _or_none(run.skew_s),
        "harness_cpu_s": _or_none(run.harness_cpu_s),
        "times_s": dict(run.times_s),
        "facts": dict(run.facts),
        "checks": dict(run.checks),
        "rows": {name: len(run.whole(name)) for name in TABLES},
    }


def _or_none(value: float) -> float | None:
    return None if value != value else value


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
