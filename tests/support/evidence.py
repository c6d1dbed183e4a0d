"""What parts of the soak and the bench measured, each in a file of its own in .cache.

A figure is named by its unit (`left_after_s`, `leaked_descriptors`), as columns are.
"""

import json
import os
import platform
from collections.abc import Mapping
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
    """One part of the soak or the bench, once.

    test: soak:part or bench:part. outcome: passed, failed or
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
