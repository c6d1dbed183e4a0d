"""What tests, soak and bench measured, in one form: read from pytest's junit XML and from the files of the others.

A figure is named by its unit (`left_after_s`, `leaked_descriptors`), as columns are, and given by pytest's
`record_property` or by the part of the soak or the bench that measured it.
"""

import json
import os
import platform
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from pairlab import paths

#: What junit XML and the soak's and the bench's own results are written to; no command but `make clean` empties it.
CACHE = paths.ROOT / ".cache"


@dataclass(frozen=True)
class Evidence:
    """One test, or one part of the soak or the bench, once.

    test: tests/faults/test_x.py::test_y, without parameters; or soak:part, bench:part. outcome: passed, failed or
    skipped. figures: what was measured, by name; a list where it was measured several times.
    """

    test: str
    outcome: str
    when: str
    where: str
    took_s: float
    figures: Mapping[str, Any] = field(default_factory=dict)


def this_host() -> str:
    """The host, in a few words that name nobody."""
    memory_gib = psutil.virtual_memory().total / 2**30
    who = "root" if os.geteuid() == 0 else "not root"
    return f"{os.cpu_count()} CPUs, {memory_gib:.0f} GiB, Linux {platform.release()}, {who}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def write(evidence: Evidence) -> Path:
    """Keeps the evidence of a part, in the place of an older one."""
    kind, part = evidence.test.split(":")
    path = CACHE / kind / f"{part}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(evidence), indent=1) + "\n")
    draft.rename(path)
    return path


def read(part: str) -> Evidence | None:
    """What `write` kept of soak:part or bench:part."""
    path = CACHE / f"{part.replace(':', '/')}.json"
    return Evidence(**json.loads(path.read_text())) if path.exists() else None


def all_kept() -> Iterator[Evidence]:
    """Everything in the cache: junit XML, and parts of the soak and the bench."""
    for path in sorted(CACHE.glob("*.xml")):
        yield from of_junit(path)
    for path in sorted([*CACHE.glob("soak/*.json"), *CACHE.glob("bench/*.json")]):
        yield Evidence(**json.loads(path.read_text()))


def of_junit(path: Path) -> Iterator[Evidence]:
    """Each test case of a junit XML by pytest, measured here where its suite has no property `host`.

    Tests spread over processes have none: pytest-xdist does not carry a suite's properties.
    """
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        told = {each.get("name"): each.get("value") for each in suite.findall("properties/property")}
        when = datetime.fromisoformat(suite.get("timestamp")).astimezone(UTC).isoformat(timespec="seconds")
        for case in suite.iter("testcase"):
            figures: dict[str, list] = {}
            for each in case.findall("properties/property"):
                figures.setdefault(each.get("name"), []).append(_value(each.get("value")))
            yield Evidence(
                _test_of(case), _outcome(case), when, told.get("host", this_host()), float(case.get("time", 0)), figures
            )


def _test_of(case: ElementTree.Element) -> str:
    """tests.faults.test_x and test_y[z] as tests/faults/test_x.py::test_y."""
    module = case.get("classname", "").replace(".", "/")
    return f"{module}.py::{case.get('name', '').partition('[')[0]}"


def _outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
