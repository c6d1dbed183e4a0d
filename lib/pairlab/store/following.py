"""Runs as they come into the store: each look reads only what is new or changed since the one before."""

import os
from collections.abc import Iterable
from pathlib import Path

from pairlab.errors import DamagedRun, SchemaMismatch, StoreError
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.store import heads
from pairlab.store.places import directory_of
from pairlab.store.runs import read

#: Where and what a file is, and when it was written: a run that replaced another differs.
_Mark = tuple[int, int, int]


class Follower:
    """The runs of these specs. runs: what is there, by key; troubles: why what is there cannot be read, by key."""

    def __init__(self, specs: Iterable[Spec], root: Path | None = None):
        self._keys: dict[Path, set[str]] = {}
        for spec in specs:
            place = directory_of(spec, root)
            self._keys.setdefault(place.parent, set()).add(place.name)
        self._marks: dict[str, _Mark | None] = {}
        self.runs: dict[str, Run] = {}
        self.troubles: dict[str, str] = {}

    def look(self) -> set[str]:
        """Reads what is new; returns the keys of what came, changed or went. A run being written is not there yet."""
        changed = set()
        for folder, keys in self._keys.items():
            there = _names(folder) & keys
            for key in there:
                mark = _mark(f"{folder}/{key}")
                if key not in self._marks or mark != self._marks[key]:
                    self._read(key, folder / key, mark)
                    changed.add(key)
            for key in ((self._marks.keys() | self.troubles.keys()) & keys) - there:
                self._forget(key)
                changed.add(key)
        return changed

    def _read(self, key: str, place: Path, mark: _Mark | None) -> None:
        self._forget(key)
        self._marks[key] = mark
        try:
            self.runs[key] = read(place)
        except DamagedRun as error:
            if mark == _mark(str(place)):  # else it was replaced meanwhile: the next look reads it whole
                self.troubles[key] = str(error)
        except SchemaMismatch as error:
            self.troubles[key] = str(error)
        except StoreError as error:  # just now: the next look tries again
            self.troubles[key] = str(error)
            del self._marks[key]

    def _forget(self, key: str) -> None:
        for known in (self._marks, self.runs, self.troubles):
            known.pop(key, None)


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


def _mark(place: str) -> _Mark | None:
    """Of a run's head; None where there is none. Of thousands at a look, so that Path would be most of the time."""
    try:
        found = os.stat(f"{place}/{heads.NAME}")
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
