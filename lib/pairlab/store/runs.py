"""A run, written whole or not at all, and read back."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pairlab.errors import DamagedRun
from pairlab.records import TABLES, Run
from pairlab.spec import Spec
from pairlab.store import heads, tables
from pairlab.store.drafts import draft, draft_file, locked
from pairlab.store.durable import exchange, sync, sync_tree
from pairlab.store.places import directory_of, set_aside
from pairlab.store.troubles import reading, writing


def write(run: Run, root: Path | None = None) -> Run:
    """Stores the run whole or not at all; an older one of the same key moves to .replaced/. Returns it with its path.

    Raises StoreError when the disk is full or the place cannot be written; what was there stays as it was.
    """
    place = directory_of(run.spec, root)
    with writing(place), draft(run.spec, root) as unfinished:
        for name in TABLES:
            tables.write(getattr(run, name), unfinished, name)
        if run.raw:
            (unfinished / "raw").mkdir()
        for name, text in run.raw.items():
            (unfinished / "raw" / name).write_text(text, encoding="utf-8", newline="")
        heads.write(run, unfinished)
        sync_tree(unfinished)
        with locked(place.parent):
            _give_name(unfinished, place)
            sync(place.parent)
    return read(place)


def read(place: Path) -> Run:
    """The run in that directory. Its tables are read when asked for; that they are there, and as long as its head
    says, is made sure of now.

    Raises DamagedRun where it is not whole, SchemaMismatch where it is newer, StoreError where it cannot be read now.
    """
    with reading(place):
        head = heads.load(place)
        values = heads.values(head, place)
        found = {name: tables.rows(place, name) for name in TABLES}
        for name, rows in head["rows"].items():
            if found[name] != rows:
                raise ValueError(f"{name}.parquet has {found[name]} rows and should have {rows}")
        key = values["spec"].key
        if not place.name.lstrip(".").startswith(key):  # a draft and a replaced run have it in theirs
            raise ValueError(f"it holds the run {key}, which belongs in a directory of that name")
        return _stored(**values, raw=_Raw(place / "raw"), path=place)


def find(spec: Spec, root: Path | None = None) -> Run | None:
    """The stored run of that spec, if there is one that can be read."""
    try:
        return read(directory_of(spec, root))
    except DamagedRun:
        return None


def status(spec: Spec, root: Path | None = None) -> str | None:
    """The status of the stored run of that spec as its head tells it: `find` without the tables."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        return heads.load(directory_of(spec, root))["status"]
    return None


def columns(run: Run, name: str, wanted: Sequence[str]) -> pa.Table:
    """These columns of a run's table as an Arrow table, texts as dictionary and indices. Raises as `read`.

    Of a stored run no others are read, and they are not kept.
    """
    if isinstance(run, _Stored):
        with reading(run.path):
            return tables.columns(run.path, name, wanted)
    frame = getattr(run, name)[list(wanted)]
    return pa.Table.from_pandas(frame, preserve_index=False).cast(tables.schema(name, wanted))


def length(run: Run, name: str) -> int:
    """How many rows a run's table has; of a stored run it is not read for that. Raises as `read`."""
    if not isinstance(run, _Stored):
        return len(getattr(run, name))
    with reading(run.path):
        return tables.rows(run.path, name)


def attach_notebook(run: Run, notebook: Path) -> None:
    """Keeps the executed notebook beside its run. Raises StoreError; the run stays as it was then."""
    with draft_file(run.path / "notebook.ipynb") as draft:
        shutil.copyfile(notebook, draft)


class _Stored(Run):
    """A run on disk. A table is read when asked for, and then kept; one that proves damaged then is a DamagedRun."""

    @cached_property
    def flows(self) -> pd.DataFrame:
        return self._frame("flows")

    @cached_property
    def intervals(self) -> pd.DataFrame:
        return self._frame("intervals")

    @cached_property
    def cpu(self) -> pd.DataFrame:
        return self._frame("cpu")

    def _frame(self, name: str) -> pd.DataFrame:
        with reading(self.path):
            return tables.frame(self.path, name)


def _stored(**values) -> Run:
    run = _Stored(**values, **dict.fromkeys(TABLES))
    for name in TABLES:
        del vars(run)[name]  # else what the constructor was given would hide what is on disk
    return run


class _Raw(Mapping):
    """What the tools printed, read when asked for."""

    def __init__(self, place: Path):
        self._place = place

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {path.name: path for path in sorted(self._place.glob("*"))}

    def __getitem__(self, name: str) -> str:
        return self._files[name].read_text()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _give_name(draft: Path, place: Path) -> None:
    """The draft becomes the run; an older one is set aside. At any moment one of the two has the name.

    Where names cannot be exchanged in one step (as on NFS), there is a moment in which neither has: `clean` gives it
    to the draft, after an accident just then.
    """
    if not place.exists():
        draft.rename(place)
    elif exchange(draft, place):
        try:
            set_aside(draft)
        except BaseException:
            exchange(draft, place)
            raise
    else:
        kept = set_aside(place)
        try:
            draft.rename(place)
        except BaseException:
            kept.rename(place)
            raise
