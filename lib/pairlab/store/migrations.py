"""Brings the head of a run that an older pairlab wrote to the present schema: pure functions, a step for each schema.

A run on disk stays as it was written; its head is brought forward each time it is read. To change the schema: raise
records.SCHEMA, add here the step from the one before, and commit a head of that one to tests/support/captured/.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pairlab.model.records import SCHEMA
from pairlab.model.tables import MACHINE

Head = dict[str, Any]


def migrate(head: Mapping[str, Any]) -> Head:
    """The same head in the present schema; one of a newer schema as it is.

    Raises KeyError where it has no schema, ValueError where there never was such a schema.
    """
    migrated = dict(head)
    schema = migrated["schema"]
    if type(schema) is not int or schema < 1:
        raise ValueError(f"there never was a schema {schema!r}")
    while migrated["schema"] < SCHEMA:
        migrated = STEPS[migrated["schema"]](migrated)
    return migrated


def _with_checks(head: Head) -> Head:
    """Schema 2 keeps what the verdict was made from; older runs did not record it."""
    return {**head, "schema": 2, "checks": {}}


def _with_hosts(head: Head) -> Head:
    """Schema 3 says of each host what it is; before, several hosts were namespaces always."""
    facts = head["facts"]
    names = [each["name"] for each in (facts.get("network") or {}).get("hosts") or ()]
    several = head["spec"].get("hosts", 1) > 1
    namespaces = [{"name": name, "kind": "namespace", "on": MACHINE} for name in names]
    found = namespaces if several else [{"name": MACHINE, "kind": "machine"}]
    return {**head, "schema": 3, "facts": {**facts, "hosts": found} if facts else facts}


#: From each older schema to the next one.
STEPS: dict[int, Callable[[Head], Head]] = {1: _with_checks, 2: _with_hosts}
