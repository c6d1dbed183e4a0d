"""A run, written whole or not at all, and read back."""

import contextlib
import copy
import errno
import io
import os
import shlex
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pandas as pd
import pyarrow as pa

from pairlab.base.atomic import exchange, give_to_owner, sync, sync_tree
from pairlab.base.foreign_files import open_untrusted, read_bytes
from pairlab.errors import DamagedRun, RunRescued, StoreError
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import OPTIONAL, TABLES, table
from pairlab.store import metadata, packed_columns, packs, tables
from pairlab.store.catalogue import directories_of, free_directory, numbered, places_of
from pairlab.store.drafts import draft, draft_file, locked
from pairlab.store.file_errors import reading, writing
from pairlab.store.moving import archive
from pairlab.store.packs import NO_ARCHIVE
from pairlab.store.paths import directory_of, is_key, key_of, pack_of, untagged

#: The output of all tools of a run, in its directory. Older runs have a folder `raw` with a file for each.
RAW = "raw.zip"
#: How the names of files end in there that hold packets, and no text.
PACKETS = ".pcap"
#: How a folder is called among temporary files that has the run which could not be written to its place.
RESCUED = "pairlab-rescued-"
#: Limit for the output of one tool: an hour of iperf3's JSON in intervals of 0.1 s, of 100 flows, is less.
MOST_RAW_BYTES = 2**30


def write(run: Run, root: Path | None = None) -> Run:
    """Stores the run whole or not at all, and returns it with its path.

    Older runs of the same spec stay beside it. Only one of the same environment that was not ok, or is damaged, makes
    room: it moves to .replaced/. Raises StoreError when the disk is full or the place cannot be written; what was
    there stays as it was. RunRescued if the run is then whole among temporary files.
    """
    return _stored(partial(_written, run), root)


def _stored(write_below: Callable[[Path | None], Run], root: Path | None) -> Run:
    """What is written below the root, or, where that takes nothing, below a folder among temporary files."""
    try:
        return write_below(root)
    except DamagedRun:
        raise
    except StoreError as error:
        rescue = None
        try:
            rescue = Path(tempfile.mkdtemp(prefix=RESCUED))
            kept = write_below(rescue)
        except (StoreError, OSError):
            if rescue:
                shutil.rmtree(rescue, ignore_errors=True)
            raise error from None
        raise RunRescued(
            f"{error}. What was measured is whole in {kept.path}: `pairlab import {shlex.quote(str(rescue))}` brings it"
            " into the folder of runs"
        ) from error


def _written(run: Run, root: Path | None) -> Run:
    place = directory_of(run.spec, root)
    with writing(place), draft(run.spec, root) as unfinished:
        write_files(run, unfinished)
        return read(keep(run, unfinished, root))


def write_files(run: Run, directory: Path) -> None:
    for name in TABLES:
        if name not in OPTIONAL or len(getattr(run, name)):
            tables.write(run.with_background(name), directory, name)
    if run.raw:
        _write_raw(run.raw, directory / RAW)
    metadata.write(run, directory)


def export_run(run: Run) -> bytes:
    """All files of a stored run, its notebook included, as a zip archive: `import_run` stores them elsewhere."""
    content = io.BytesIO()
    with contextlib.ExitStack() as stack:
        place = place_of(run)
        if pack_of(place):
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pairlab-")))
            write_files(run, place)
        stack.enter_context(reading(place))
        archive = stack.enter_context(ZipFile(content, "w", strict_timestamps=False))
        for path in sorted(place.rglob("*")):
            archive.write(path, path.relative_to(place))
    return content.getvalue()


def import_run(content: bytes, spec: Spec, root: Path | None = None) -> Run:
    """Stores the run of that spec that was exported (`export_run`) on another host, as `write` does; returns it.

    Raises as `write`, and DamagedRun where the archive is not whole or holds something else.
    """
    return _stored(partial(_imported, content, spec), root)


def _imported(content: bytes, spec: Spec, root: Path | None) -> Run:
    with writing(directory_of(spec, root)), draft(spec, root) as unfinished:
        try:
            with ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(unfinished)  # never beside it: it drops `..` and roots, and makes no links
        except NO_ARCHIVE as error:
            raise DamagedRun(f"what came of {spec} from another host is no run: {error}: measure it again") from error
        run = read(unfinished, spec.key)
        if run.spec != spec:
            raise DamagedRun(f"another host sent the run {run.spec} in place of {spec}: measure it again")
        return read(keep(run, unfinished, root))


def keep(run: Run, unfinished: Path, root: Path | None, *, replace: bool = True) -> Path:
    """Gives a draft with all files of the run its name; returns that place.

    replace: whether it takes the place of a damaged run, or of one that is not ok in the same environment.
    """
    give_to_owner(unfinished)
    sync_tree(unfinished)
    parent = directory_of(run.spec, root).parent
    with locked(parent):
        place = _in_the_way(run, root) if replace else None
        if place is None or not _replaces(unfinished, place):
            older, place = place, free_directory(run.spec, root)
            unfinished.rename(place)
            with contextlib.suppress(OSError):  # else `clean` names it
                if older and _is_damaged(older):
                    archive(older)
        sync(parent)
    return place


def read(place: Path, key: str = "") -> Run:
    """The run in that directory. Its tables are read when asked for; that they are there, and as long as its
    metadata say, is made sure of now. key: of its spec, where the directory has another name.

    Raises DamagedRun where it is not whole, SchemaMismatch where it is newer, StoreError where it cannot be read now.
    """
    with reading(place):
        head = metadata.load(place)
        values = metadata.values(head, place)
        lengths = tables.rows(place)
        for name, rows in head["rows"].items():
            if lengths[name] != rows:
                raise ValueError(f"{name}.parquet has {lengths[name]} rows and should have {rows}")
        spec = values["spec"]
        if (key or key_of(place.name)) != spec.key:
            raise ValueError(f"it holds the run {spec.key}, which belongs in a directory of that name")
        if spec.background_pairs:
            lengths |= {
                name: tables.rows_of_pairs(place, name, spec.pairs) for name in lengths if "pair" in TABLES[name]
            }
        return _Stored.of(lengths, **values, raw=_Raw(place), path=place)


def find(spec: Spec, root: Path | None = None, environment: Environment | None = None) -> Run | None:
    """The stored run of that spec in that environment (None: on any), if there is one that can be read.

    Of several it is the one that was stored last among those that are ok; without any, the last.
    """
    return chosen(_readable(spec, root), environment)


def latest(spec: Spec, root: Path | None = None) -> Run | None:
    """The stored run of that spec that was measured last, whatever became of it."""
    return max(_readable(spec, root), key=lambda run: run.age_key, default=None)


def _readable(spec: Spec, root: Path | None) -> Iterator[Run]:
    for place in places_of(spec, root):
        with contextlib.suppress(DamagedRun):
            yield read(place)


def chosen(runs: Iterable[Run], environment: Environment | None = None) -> Run | None:
    """Which of the runs of one spec stands for it in that environment, as `find` has it. runs: as they were stored."""
    matching = [run for run in runs if environment is None or run.environment.agrees(environment)]
    return next(reversed([run for run in matching if run.status == "ok"] or matching), None)


def status(spec: Spec, root: Path | None = None, environment: Environment | None = None) -> str | None:
    """The status of the run that `find` finds, as its metadata have it: no table is looked at."""
    return statuses([spec], root, lambda spec: environment)[spec]


def statuses(
    specs: Iterable[Spec],
    root: Path | None = None,
    environment: Callable[[Spec], Environment | None] = lambda spec: None,
) -> dict[Spec, str | None]:
    """`status` of each in its environment, for many at once."""
    return statuses_of(outcomes(specs, root), environment)


def statuses_of(
    outcomes: Mapping[Spec, Iterable[tuple[str, Environment]]],
    environment: Callable[[Spec], Environment | None] = lambda spec: None,
) -> dict[Spec, str | None]:
    """The same from what `outcomes` has returned."""
    statuses: dict[Spec, str | None] = {}
    for spec, recorded in outcomes.items():
        here = environment(spec)
        matching = [status for status, measured_on in recorded if here is None or measured_on.agrees(here)]
        statuses[spec] = "ok" if "ok" in matching else matching[-1] if matching else None
    return statuses


def outcomes(specs: Iterable[Spec], root: Path | None = None) -> dict[Spec, list[tuple[str, Environment]]]:
    """Status and environment of each stored run of each spec, by their metadata, in the order of storing."""
    specs = list(specs)
    places = numbered(directory_of(spec, root) for spec in specs)
    return {spec: list(_outcomes(places_of_spec)) for spec, places_of_spec in zip(specs, places, strict=True)}


def _outcomes(places: Iterable[Path]) -> Iterator[tuple[str, Environment]]:
    for place in places:
        with contextlib.suppress(*metadata.NOT_METADATA):
            content = metadata.load(place)
            yield content["status"], metadata.environment_of(content)


def columns(run: Run, name: str, wanted: Sequence[str]) -> pa.Table:
    """These columns of a run's table as an Arrow table, without the background; texts as dictionary and indices.

    Raises as `read`. Of a stored run no others are read, and they are not kept.
    """
    if isinstance(run, _Stored):
        with reading(place_of(run)):
            return tables.columns(place_of(run), name, wanted).slice(0, run.rows(name))
    frame = getattr(run, name).reindex(columns=list(wanted))  # other runs may have columns of their workload's own
    return pa.Table.from_pandas(frame, preserve_index=False).cast(tables.schema(name, wanted))


def length(run: Run, name: str) -> int:
    """How many rows a run's table has without the background; a stored run was asked when it was read."""
    return run.rows(name) if isinstance(run, _Stored) else len(getattr(run, name))


def attach_notebook(run: Run, notebook: Path) -> None:
    """Keeps the executed notebook beside its run. Raises StoreError; the run stays as it was then."""
    with draft_file(place_of(run) / "notebook.ipynb") as draft:
        shutil.copyfile(notebook, draft)


#: A table with more rows is kept while it is one of the last that were read, whichever run's it is: all of them need
#: not fit into memory.
_MANY_ROWS = 200_000
_NEWEST: deque[tuple["_Stored", str, pd.DataFrame]] = deque(maxlen=4)


class _Stored(Run):
    """A run on disk. A table is read when asked for, and kept unless it is long; a damaged one raises DamagedRun."""

    @classmethod
    def of(cls, rows: Mapping[str, int], **values: Any) -> "_Stored":
        """rows: how many each table has without those of the background. values: all of a run but its tables."""
        run = cls.__new__(cls)
        vars(run).update(values, _rows=rows)  # not its tables: what is not there is asked of __getattr__
        return run

    @property
    def key(self) -> str:
        """The spec's key, with a number where the spec was measured again: its directory's name without the tag."""
        name = place_of(self).name
        return vars(self).get("_key", untagged(name) if is_key(name) else self.spec.key)

    def columns(self, name: str, wanted: Sequence[str]) -> pd.DataFrame:
        if name not in vars(self) and self.rows(name) > _MANY_ROWS:
            return columns(self, name, wanted).to_pandas()
        return super().columns(name, wanted)

    def rows(self, name: str) -> int:
        return vars(self)["_rows"][name]

    def __getattr__(self, name: str) -> Any:
        own = name.removeprefix("background_")
        if own not in TABLES or name not in Run.__dataclass_fields__:
            return super().__getattr__(name)
        for run, read, frame in tuple(_NEWEST):
            if run is self and read == name:
                return frame
        frame = self._frame(own) if own == name else self._background(own)
        if len(frame) <= _MANY_ROWS:
            vars(self)[name] = frame
        else:
            _NEWEST.append((self, name, frame))
        return frame

    def _frame(self, name: str) -> pd.DataFrame:
        with reading(place_of(self)):
            own = [each.name for each in self.metrics if each.table == name]
            return tables.frame(place_of(self), name, own).head(self.rows(name))

    def _background(self, name: str) -> pd.DataFrame:
        if not self.spec.background_pairs:
            return table(name)
        with reading(place_of(self)):
            return tables.frame(place_of(self), name).iloc[self.rows(name) :].reset_index(drop=True)


def place_of(run: Run) -> Path:
    assert run.path is not None, f"{run.key} is not stored"
    return run.path


def with_key(run: Run, key: str) -> Run:
    """The same run under another key, by which it is told from the others of its store."""
    return run if run.key == key else _changed(run, _key=key)


def with_label(run: Run, label: str) -> Run:
    """The same run under another label, by which it is told from those of another state of the system."""
    return _changed(run, facts={**run.facts, "label": label})


def with_spec(run: Run, spec: Spec) -> Run:
    """The same run under another spec; its tables are still read when asked for."""
    return _changed(run, spec=spec)


def _changed(run: Run, **values: Any) -> Run:
    made = copy.copy(run)
    vars(made).pop("environment", None)
    vars(made).update(values)
    return made


def raw_bytes(raw: Mapping[str, str | bytes], name: str) -> bytes:
    content = raw[name]
    return content.encode() if isinstance(content, str) else content


def _write_raw(raw: Mapping[str, str | bytes], path: Path) -> None:
    with ZipFile(path, "w") as archive:
        for name in raw:
            archive.writestr(ZipInfo(name), raw_bytes(raw, name), ZIP_DEFLATED)  # the same texts are the same file


class _Raw(Mapping[str, str | bytes]):
    """What tools printed, and packets, read when asked for. Raises ValueError or OSError where damaged or too large."""

    def __init__(self, place: Path):
        self._place = place

    @cached_property
    def _readers(self) -> dict[str, Callable[[], bytes]]:
        """By name, what reads it: from a pack, the archive, or, of older runs, a file of its own."""
        if pack_of(self._place):
            files_in_pack = packed_columns.files(self._place, packs.LEAVABLE["raw"])
            return {name: partial(bytes, content) for name, content in files_in_pack.items()}
        readers: dict[str, Callable[[], bytes]] = {}
        if os.path.lexists(self._place / RAW):
            with self._archive() as archive:
                readers = {name: partial(self._archived, name) for name in archive.namelist()}
        files = sorted((self._place / "raw").glob("*"))
        return readers | {path.name: partial(read_bytes, path, MOST_RAW_BYTES) for path in files}

    @contextlib.contextmanager
    def _archive(self) -> Iterator[ZipFile]:
        with open_untrusted(self._place / RAW, MOST_RAW_BYTES) as file:
            try:
                with ZipFile(file) as archive:
                    yield archive
            except NO_ARCHIVE as error:
                raise ValueError(f"{RAW} is damaged: {error}") from None

    def _archived(self, name: str) -> bytes:
        with self._archive() as archive:
            return packs.read_member(archive, name, MOST_RAW_BYTES)

    def __getitem__(self, name: str) -> str | bytes:
        content = self._readers[name]()
        return content if name.endswith(PACKETS) else content.decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def _in_the_way(run: Run, root: Path | None) -> Path | None:
    """The stored run whose place this one takes: damaged, or not ok in the same environment."""
    for place in reversed(directories_of(run.spec, root)):
        try:
            stored = read(place)
            if stored.status != "ok" and stored.environment.agrees(run.environment):
                return place
        except DamagedRun:
            return place
        except StoreError:  # a newer pairlab wrote it, or it cannot be read just now
            continue
    return None


def _is_damaged(place: Path) -> bool:
    try:
        read(place)
    except DamagedRun:
        return True
    except StoreError:
        pass
    return False


def _replaces(draft: Path, place: Path) -> bool:
    """The draft becomes the run, and the older one is set aside. At any moment one of the two has the name.

    False, and nothing is changed, where the older one cannot be moved: on overlayfs, a directory of the lower layer
    (rename(2), EXDEV). Where names cannot be exchanged in one step (as on NFS), there is a moment in which neither has:
    `clean` gives it to the draft, after an accident just then.
    """
    try:
        if exchange(draft, place):
            try:
                archive(draft)
            except BaseException:
                exchange(draft, place)
                raise
        else:
            archived = archive(place, may_copy=False)
            try:
                draft.rename(place)
            except BaseException:
                archived.rename(place)
                raise
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise
    return True
