"""A run, written whole or not at all, and read back."""

import contextlib
import copy
import errno
import io
import os
import shlex
import shutil
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import pandas as pd
import pyarrow as pa

from pairlab.base.atomic import exchange, sync, sync_tree
from pairlab.base.foreign_files import opened, read_text, visible
from pairlab.errors import DamagedRun, StoreError
from pairlab.model import ground as grounds
from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import OPTIONAL, TABLES, table
from pairlab.store import heads, tables
from pairlab.store.drafts import draft, draft_file, locked
from pairlab.store.file_errors import reading, writing
from pairlab.store.paths import directories_of, directory_of, free_directory, is_key, key_of, numbered, set_aside

#: What all tools of a run printed, in its directory. Older runs have a folder `raw` with a file for each.
RAW = "raw.zip"
#: How a folder is called among temporary files that has the run which could not be written to its place.
RESCUED = "pairlab-rescued-"
#: What one tool printed: an hour of iperf3's JSON in intervals of 0.1 s, of 100 flows, is less.
MOST_RAW_BYTES = 2**30
#: What zipfile raises for what is no whole archive; RuntimeError: it is encrypted, or packed in an unknown way.
NO_ARCHIVE = (BadZipFile, RuntimeError, EOFError, zlib.error)


def write(run: Run, root: Path | None = None) -> Run:
    """Stores the run whole or not at all, and returns it with its path.

    Older runs of the same spec stay beside it. Only one of the same ground that was not ok, or is damaged, makes room:
    it moves to .replaced/. Raises StoreError when the disk is full or the place cannot be written; what was there stays
    as it was, and the run is written among temporary files, where the error says.
    """
    try:
        return _written(run, root)
    except StoreError as error:
        rescue = Path(tempfile.mkdtemp(prefix=RESCUED))
        try:
            kept = _written(run, rescue)
        except StoreError:
            shutil.rmtree(rescue, ignore_errors=True)
            raise error from None
        raise StoreError(
            f"{error}. What was measured is whole in {kept.path}: copy {rescue} into the folder of runs,"
            f" as by `cp -r {shlex.quote(str(rescue))}/. RUNS`"
        ) from error


def _written(run: Run, root: Path | None) -> Run:
    place = directory_of(run.spec, root)
    with writing(place), draft(run.spec, root) as unfinished:
        for name in TABLES:
            if name not in OPTIONAL or len(getattr(run, name)):
                tables.write(run.whole(name), unfinished, name)
        if run.raw:
            _write_raw(run.raw, unfinished / RAW)
        heads.write(run, unfinished)
        return _kept(run, unfinished, root)


def packed(run: Run) -> bytes:
    """All files of a stored run, the executed notebook included, as a zip archive: `receive` stores them elsewhere."""
    content = io.BytesIO()
    with reading(run.path), ZipFile(content, "w", strict_timestamps=False) as archive:
        for path in sorted(run.path.rglob("*")):
            archive.write(path, path.relative_to(run.path))
    return content.getvalue()


def receive(content: bytes, spec: Spec, root: Path | None = None) -> Run:
    """Stores the run of that spec that was `packed` on another host, as `write` does; returns it.

    Raises DamagedRun where the archive is not whole or holds something else.
    """
    with writing(directory_of(spec, root)), draft(spec, root) as unfinished:
        try:
            with ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(unfinished)  # never beside it: it drops `..` and roots, and makes no links
        except NO_ARCHIVE as error:
            raise DamagedRun(f"what came of {spec} from another host is no run: {error}: measure it again") from error
        run = read(unfinished, spec.key)
        if run.spec != spec:
            raise DamagedRun(f"another host sent the run {run.spec} in place of {spec}: measure it again")
        return _kept(run, unfinished, root)


def _kept(run: Run, unfinished: Path, root: Path | None) -> Run:
    """The run, whose files are whole in a draft, under its name."""
    sync_tree(unfinished)
    parent = directory_of(run.spec, root).parent
    with locked(parent):
        place = _in_the_way(run, root)
        if place is None or not _replaces(unfinished, place):
            place = free_directory(run.spec, root)
            unfinished.rename(place)
        sync(parent)
    return read(place)


def read(place: Path, key: str = "") -> Run:
    """The run in that directory. Its tables are read when asked for; that they are there, and as long as its head
    says, is made sure of now. key: of its spec, where the directory has another name.

    Raises DamagedRun where it is not whole, SchemaMismatch where it is newer, StoreError where it cannot be read now.
    """
    with reading(place):
        head = heads.load(place)
        values = heads.values(head, place)
        found = {name: tables.rows(place, name) for name in TABLES}
        for name, rows in head["rows"].items():
            if found[name] != rows:
                raise ValueError(f"{name}.parquet has {found[name]} rows and should have {rows}")
        spec = values["spec"]
        if (key or key_of(place.name)) != spec.key:
            raise ValueError(f"it holds the run {spec.key}, which belongs in a directory of that name")
        if spec.background_pairs:
            found = {name: tables.rows_of_pairs(place, name, spec.pairs) for name in found}
        return _stored(found, **values, raw=_Raw(place), path=place)


def find(spec: Spec, root: Path | None = None, ground: Ground | None = None) -> Run | None:
    """The stored run of that spec on that ground (None: on any), if there is one that can be read.

    Of several it is the one that was stored last among those that are ok; without any, the last.
    """
    return chosen(_readable(spec, root), ground)


def latest(spec: Spec, root: Path | None = None) -> Run | None:
    """The stored run of that spec that was measured last, whatever became of it."""
    return max(_readable(spec, root), key=lambda run: run.age_key, default=None)


def _readable(spec: Spec, root: Path | None) -> Iterator[Run]:
    for place in directories_of(spec, root):
        with contextlib.suppress(DamagedRun):
            yield read(place)


def chosen(runs: Iterable[Run], ground: Ground | None = None) -> Run | None:
    """Which of the runs of one spec stands for it on that ground, as `find` has it. runs: as they were stored."""
    found = [run for run in runs if ground is None or run.ground.agrees(ground)]
    return next(reversed([run for run in found if run.status == "ok"] or found), None)


def status(spec: Spec, root: Path | None = None, ground: Ground | None = None) -> str | None:
    """The status of the run that `find` finds, as its head has it: no table is looked at."""
    return statuses([spec], root, lambda spec: ground)[spec]


def statuses(
    specs: Iterable[Spec], root: Path | None = None, ground: Callable[[Spec], Ground | None] = lambda spec: None
) -> dict[Spec, str | None]:
    """`status` of each on its ground, for many at once."""
    return statuses_of(outcomes(specs, root), ground)


def statuses_of(
    outcomes: Mapping[Spec, Iterable[tuple[str, Ground]]],
    ground: Callable[[Spec], Ground | None] = lambda spec: None,
) -> dict[Spec, str | None]:
    """The same from what `outcomes` has returned."""
    return {spec: _status(found, ground(spec)) for spec, found in outcomes.items()}


def outcomes(specs: Iterable[Spec], root: Path | None = None) -> dict[Spec, list[tuple[str, Ground]]]:
    """The status and the ground of each stored run of each spec, as their heads have it, in the order of storing."""
    specs = list(specs)
    places = numbered(directory_of(spec, root) for spec in specs)
    return {spec: list(_outcomes(its)) for spec, its in zip(specs, places, strict=True)}


def _outcomes(places: Iterable[Path]) -> Iterator[tuple[str, Ground]]:
    for place in places:
        with contextlib.suppress(*_NO_HEAD):
            head = heads.load(place)
            yield head["status"], _ground_of(head)


def _status(outcomes: Iterable[tuple[str, Ground]], ground: Ground | None) -> str | None:
    found = [status for status, its in outcomes if ground is None or its.agrees(ground)]
    return "ok" if "ok" in found else found[-1] if found else None


def columns(run: Run, name: str, wanted: Sequence[str]) -> pa.Table:
    """These columns of a run's table as an Arrow table, without the background; texts as dictionary and indices.

    Raises as `read`.

    Of a stored run no others are read, and they are not kept.
    """
    if isinstance(run, _Stored):
        with reading(run.path):
            return tables.columns(run.path, name, wanted).slice(0, run._rows[name])
    frame = getattr(run, name).reindex(columns=list(wanted))  # other runs may have columns of their workload's own
    return pa.Table.from_pandas(frame, preserve_index=False).cast(tables.schema(name, wanted))


def length(run: Run, name: str) -> int:
    """How many rows a run's table has without the background; a stored run was asked when it was read."""
    return run._rows[name] if isinstance(run, _Stored) else len(getattr(run, name))


def attach_notebook(run: Run, notebook: Path) -> None:
    """Keeps the executed notebook beside its run. Raises StoreError; the run stays as it was then."""
    with draft_file(run.path / "notebook.ipynb") as draft:
        shutil.copyfile(notebook, draft)


#: A table with more rows is kept while it is one of the last that were read, whichever run's it is: all of them need
#: not fit into memory.
_MANY_ROWS = 200_000
_NEWEST: deque[tuple["_Stored", str, pd.DataFrame]] = deque(maxlen=4)
#: The attributes of a run that are tables.
_TABLES_OF_RUNS = (*TABLES, "background_flows", "background_intervals")


class _Table:
    """A table of a stored run, read when asked for, and then kept, unless it has many rows."""

    def __init__(self, read: Callable[["_Stored"], pd.DataFrame]):
        self._read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: Any, owner: Any = None) -> Any:
        if run is None:
            return self
        for mine, name, frame in tuple(_NEWEST):
            if mine is run and name == self._name:
                return frame
        frame = self._read(run)
        if len(frame) <= _MANY_ROWS:
            vars(run)[self._name] = frame  # which is found before this
        else:
            _NEWEST.append((run, self._name, frame))
        return frame


class _Stored(Run):
    """A run on disk. A table that proves damaged when it is read is a DamagedRun."""

    @property
    def key(self) -> str:
        """The name of its directory: the spec's key, with a number where the spec was measured again."""
        return self.path.name if is_key(self.path.name) else self.spec.key

    def columns(self, name: str, wanted: Sequence[str]) -> pd.DataFrame:
        if name not in vars(self) and self._rows[name] > _MANY_ROWS:
            return columns(self, name, wanted).to_pandas()
        return super().columns(name, wanted)

    flows = _Table(lambda run: run._frame("flows"))
    intervals = _Table(lambda run: run._frame("intervals"))
    background_flows = _Table(lambda run: run._background("flows"))
    background_intervals = _Table(lambda run: run._background("intervals"))
    transactions = _Table(lambda run: run._frame("transactions"))
    launches = _Table(lambda run: run._frame("launches"))
    cpu = _Table(lambda run: run._frame("cpu"))
    profile = _Table(lambda run: run._frame("profile"))

    def _frame(self, name: str) -> pd.DataFrame:
        with reading(self.path):
            own = [each.name for each in self.metrics if each.table == name]
            return tables.frame(self.path, name, own).head(self._rows[name])

    def _background(self, name: str) -> pd.DataFrame:
        if not self.spec.background_pairs:
            return table(name)
        with reading(self.path):
            return tables.frame(self.path, name).iloc[self._rows[name] :].reset_index(drop=True)


def with_spec(run: Run, spec: Spec) -> Run:
    """The same run under another spec; its tables are still read when asked for."""
    made = copy.copy(run)
    object.__setattr__(made, "spec", spec)
    return made


def _stored(rows: Mapping[str, int], **values: Any) -> Run:
    run = _Stored(**values, **dict.fromkeys(_TABLES_OF_RUNS))
    vars(run)["_rows"] = rows
    for name in _TABLES_OF_RUNS:
        del vars(run)[name]  # else what the constructor was given would hide what is on disk
    return run


def _write_raw(raw: Mapping[str, str], path: Path) -> None:
    with ZipFile(path, "w") as archive:
        for name, text in raw.items():
            archive.writestr(ZipInfo(name), text.encode(), ZIP_DEFLATED)  # the same texts are the same file


class _Raw(Mapping):
    """What the tools printed, read when asked for. Raises ValueError or OSError where it is damaged or too large."""

    def __init__(self, place: Path):
        self._place = place

    @cached_property
    def _files(self) -> dict[str, Path | None]:
        """Each name, with its file where it has one of its own."""
        found: dict[str, Path | None] = {}
        if os.path.lexists(self._place / RAW):
            with self._archive() as archive:
                found = dict.fromkeys(archive.namelist())
        return found | {path.name: path for path in sorted((self._place / "raw").glob("*"))}

    @contextlib.contextmanager
    def _archive(self) -> Iterator[ZipFile]:
        with opened(self._place / RAW, MOST_RAW_BYTES) as descriptor, open(descriptor, "rb", closefd=False) as file:
            try:
                with ZipFile(file) as archive:
                    yield archive
            except NO_ARCHIVE as error:
                raise ValueError(f"{RAW} is damaged: {error}") from None

    def __getitem__(self, name: str) -> str:
        if (path := self._files[name]) is not None:
            return read_text(path, MOST_RAW_BYTES)
        with self._archive() as archive, archive.open(name) as file:
            content = file.read(MOST_RAW_BYTES + 1)
        if len(content) > MOST_RAW_BYTES:
            raise ValueError(f"{visible(name)} in {RAW} is larger than {MOST_RAW_BYTES:,} B, and is not read")
        return content.decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


#: What reading a head can raise that is none.
_NO_HEAD = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


def _ground_of(head: Mapping[str, Any]) -> Ground:
    names = {name: head["spec"][name] for name in ("backend", "driver", "workload")}
    return grounds.of(head["facts"], **names)


def _in_the_way(run: Run, root: Path | None) -> Path | None:
    """The stored run whose place this one takes: damaged, or not ok on the same ground."""
    for place in reversed(directories_of(run.spec, root)):
        try:
            stored = read(place)
            if stored.status != "ok" and stored.ground.agrees(run.ground):
                return place
        except DamagedRun:
            return place
        except StoreError:  # a newer pairlab wrote it, or it cannot be read just now
            continue
    return None


def _replaces(draft: Path, place: Path) -> bool:
    """The draft becomes the run, and the older one is set aside. At any moment one of the two has the name.

    False, and nothing is changed, where the older one cannot be moved: on overlayfs, a directory of the lower layer
    (rename(2), EXDEV). Where names cannot be exchanged in one step (as on NFS), there is a moment in which neither has:
    `clean` gives it to the draft, after an accident just then.
    """
    try:
        if exchange(draft, place):
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
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise
    return True
