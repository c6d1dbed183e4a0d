"""A run's metadata, run.json: all of a run but its tables and what the tools printed.

A run on disk stays as it was written. Metadata of an older schema are brought forward each time they are read, a step
for each schema. To change the schema: raise records.SCHEMA, add here the step from the one before, and commit metadata
of that one to tests/support/captured/.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pairlab.base.foreign_files import load_json, read_text
from pairlab.base.units import none_if_nan
from pairlab.errors import StoreError
from pairlab.model import environment, recorded
from pairlab.model.records import SCHEMA, STATUSES, Run
from pairlab.model.spec import Spec
from pairlab.model.tables import MACHINE, TABLES
from pairlab.store import packs
from pairlab.store.file_errors import newer
from pairlab.store.paths import METADATA

Metadata = dict[str, Any]

#: They are some kilobytes, and of 500 pairs on many cores less than one megabyte.
MOST_BYTES = 16 * 2**20
#: What reading them can raise where there are none.
NOT_METADATA = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, StoreError)


def write(run: Run, place: Path) -> None:
    with open(place / METADATA, "w", encoding="utf-8") as file:
        json.dump(_of(run), file, indent=1, allow_nan=False)
        file.write("\n")


def text(place: Path) -> str:
    """The metadata as they were written."""
    pack = packs.of(place)
    return pack.metadata(place.name) if pack else read_text(place / METADATA, MOST_BYTES)


def load(place: Path) -> Metadata:
    """The metadata as the present schema has them, whichever wrote them; those of a newer one as they are.

    Its texts have no control characters: they are shown in terminals, notebooks and papers.
    """
    return migrate(load_json(text(place)))


def load_if_whole(place: Path) -> Metadata | None:
    """The same; None where they cannot be read, or are no metadata."""
    try:
        return load(place)
    except NOT_METADATA:
        return None


def environment_of(content: Metadata) -> environment.Environment:
    return environment.of(
        content["facts"], **{name: content["spec"][name] for name in ("backend", "driver", "workload")}
    )


def values(content: Metadata, place: Path) -> Metadata:
    """What a Run is made of, from its metadata; place: where it lies, for messages.

    Raises SchemaMismatch where a newer pairlab wrote them, and all kinds of errors where they are none.
    """
    if content["schema"] > SCHEMA:
        raise newer(place, f"with schema {content['schema']}, and this one knows up to {SCHEMA}")
    if unknown := sorted(set(content["spec"]) - set(Spec.model_fields)):
        raise newer(place, f"whose specs have {', '.join(map(repr, unknown))}")
    if content["status"] not in STATUSES:
        raise ValueError(f"unknown status {content['status']!r}")
    recorded.require(content)
    if not all(isinstance(each, str) for each in environment_of(content)):
        raise ValueError("its facts do not describe a host")
    return {
        "spec": Spec.stored(content["spec"]),
        "status": content["status"],
        "reasons": tuple(content["reasons"]),
        "measured_at": datetime.fromisoformat(content["measured_at"]) if content["measured_at"] else None,
        "skew_s": _nan_if_none(content["skew_s"]),
        "harness_cpu_s": _nan_if_none(content["harness_cpu_s"]),
        "times_s": content["times_s"],
        "facts": content["facts"],
        "checks": content["checks"],
    }


def _of(run: Run) -> Metadata:
    return {
        "schema": SCHEMA,
        "key": run.key,
        "spec": run.spec.model_dump(),
        "status": run.status,
        "reasons": list(run.reasons),
        "measured_at": run.measured_at.isoformat() if run.measured_at else None,
        "skew_s": none_if_nan(run.skew_s),
        "harness_cpu_s": none_if_nan(run.harness_cpu_s),
        "times_s": dict(run.times_s),
        "facts": dict(run.facts),
        "checks": dict(run.checks),
        "rows": {name: len(run.with_background(name)) for name in TABLES},
    }


def _nan_if_none(value: float | None) -> float:
    return float("nan") if value is None else value


def migrate(content: Mapping[str, Any]) -> Metadata:
    """The same metadata in the present schema; those of a newer schema as they are.

    Raises KeyError where it has no schema, ValueError where there never was such a schema.
    """
    migrated = dict(content)
    schema = migrated["schema"]
    if type(schema) is not int or schema < 1:
        raise ValueError(f"there never was a schema {schema!r}")
    while migrated["schema"] < SCHEMA:
        migrated = STEPS[migrated["schema"]](migrated)
    return migrated


def _with_checks(content: Metadata) -> Metadata:
    """Schema 2 keeps what the verdict was made from; older runs did not record it."""
    return {**content, "schema": 2, "checks": {}}


def _with_hosts(older: Metadata) -> Metadata:
    """Schema 3 says of each host what it is; before, several hosts were namespaces always."""
    facts = older["facts"]
    names = [each["name"] for each in (facts.get("network") or {}).get("hosts") or ()]
    several = older["spec"].get("hosts", 1) > 1
    namespaces = [{"name": name, "kind": "namespace", "on": MACHINE} for name in names]
    hosts = namespaces if several else [{"name": MACHINE, "kind": "machine"}]
    return {**older, "schema": 3, "facts": {**facts, "hosts": hosts} if facts else facts}


#: From each older schema to the next one.
STEPS: dict[int, Callable[[Metadata], Metadata]] = {1: _with_checks, 2: _with_hosts}
