"""Runs as they come into the store: each look reads only what is new or changed since the one before."""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from pairlab.errors import DamagedRun, SchemaMismatch, StoreError
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.catalogue import numbered
from pairlab.store.paths import METADATA, directory_of, identity
from pairlab.store.runs import chosen, read

#: Where and what each file is, and when it was written: a run that replaced another differs, and so does one more.
_Mark = tuple[tuple[str, int, int, int], ...]


class Follower:
    """The runs of these specs. runs: what is there, by the spec's key; troubles: why it cannot be read, by that key.

    environment: in which environment a run of a spec counts; None: on any.
    """

    def __init__(
        self,
        specs: Iterable[Spec],
        root: Path | None = None,
        environment: Callable[[Spec], Environment | None] = lambda spec: None,
    ):
        self._specs = {spec.key: spec for spec in specs}
        self._firsts = {key: directory_of(spec, root) for key, spec in self._specs.items()}
        self._environment = environment
        self._marks: dict[str, _Mark] = dict.fromkeys(self._specs, ())
        self.runs: dict[str, Run] = {}
        self.troubles: dict[str, str] = {}

    def look(self) -> set[str]:
        """Reads what is new; returns the keys of what came, changed or went. A run being written is not there yet."""
        changed = set()
        for key, places in zip(self._firsts, numbered(self._firsts.values()), strict=True):
            if (mark := _mark(places)) != self._marks[key]:
                self._read(key, places, mark)
                changed.add(key)
        return changed

    def _read(self, key: str, places: list[Path], mark: _Mark) -> None:
        runs: list[Run] = []
        self.runs.pop(key, None)
        self.troubles.pop(key, None)
        self._marks[key] = mark
        for place in places:
            try:
                runs.append(read(place))
            except DamagedRun as error:
                (now,) = numbered([self._firsts[key]])
                if mark == _mark(now):  # else it was replaced: the next look reads it whole
                    self.troubles[key] = str(error)
            except SchemaMismatch as error:
                self.troubles[key] = str(error)
            except StoreError as error:  # just now: the next look tries again
                self.troubles[key] = str(error)
                self._marks[key] = ()
        if run := chosen(runs, self._environment(self._specs[key])):
            self.runs[key] = run


def _mark(places: Iterable[Path]) -> _Mark:
    """Of the runs' metadata, or packs. Of thousands at a look, so that Path would be most of the time."""
    marks = []
    for place in map(str, places):
        stat = 0, 0, 0
        with contextlib.suppress(OSError):
            try:
                result = os.stat(f"{place}/{METADATA}")
            except NotADirectoryError:
                result = os.stat(os.path.dirname(place))  # a pack
            stat = identity(result)
        marks.append((place, *stat))
    return tuple(marks)
