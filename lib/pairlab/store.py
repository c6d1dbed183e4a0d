"""Keeps runs: writes one whole or not at all, and reads it back, its tables when they are asked for.

runs/<experiment>/<key>/ holds run.json, flows.parquet, intervals.parquet, cpu.parquet, raw/ and, where papermill ran
it, notebook.ipynb. A run is written under a hidden name and renamed when whole, so what has its name is whole; a run
that is measured again moves to .replaced/ and is not deleted.
"""

import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pairlab import paths
from pairlab.errors import DamagedRun, NoRuns, SchemaMismatch, StoreError
from pairlab.records import SCHEMA, STATUSES, TABLES, Run
from pairlab.spec import Spec

#: Most runs' tables are short, and what Parquet adds to find its way in long ones would be most of their size.
_SMALL = {"compression": "zstd", "use_dictionary": False, "write_statistics": False, "store_schema": False}
#: Of tables with more rows than this, each text is written once.
_LONG = 1000


#: Errors over a file that tell of a run's contents: a part of it is missing or is something else; or, with None, of
#: what pyarrow found in it. All others tell of the machine.
_TELLS_OF_CONTENTS = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


def directory_of(spec: Spec, root: Path | None = None) -> Path:
    """Where the run of that spec lies, or would."""
    return (root or paths.runs()) / spec.experiment / spec.key


def write(run: Run, root: Path | None = None) -> Run:
    """Stores the run whole or not at all; an older one of the same key moves to .replaced/. Returns it with its path.

    Raises StoreError when the disk is full or the place cannot be written; what was there stays as it was.
    """
    place = directory_of(run.spec, root)
    try:
        with draft(run.spec, root) as unfinished:
            for name in TABLES:
                _told_of(run, name).to_parquet(_file(unfinished, name), index=False, **_how(run, name))
            if run.raw:
                (unfinished / "raw").mkdir()
            for name, text in run.raw.items():
                (unfinished / "raw" / name).write_text(text, encoding="utf-8", newline="")
            with open(unfinished / "run.json", "w", encoding="utf-8") as file:
                json.dump(_head(run), file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            _replace(place, unfinished)
    except OSError as error:
        raise StoreError(_cannot_write(place, error)) from error
    return read(place)


def _how(run: Run, name: str) -> dict:
    texts = [key for key, column in TABLES[name].items() if column.dtype == "str"]
    return _SMALL | ({"use_dictionary": texts} if len(getattr(run, name)) > _LONG else {})


@contextlib.contextmanager
def draft(spec: Spec, root: Path | None = None) -> Iterator[Path]:
    """A hidden directory beside the run of that spec, gone afterwards; `debris` finds it after an accident.

    It is locked for as long as its process lives, however that ends: what is not locked is nobody's.
    """
    place = directory_of(spec, root)
    with contextlib.ExitStack() as stack:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with _locked(place.parent):  # else it could be taken for debris before it is locked itself
                made = Path(tempfile.mkdtemp(prefix=f".{spec.key}-", dir=place.parent))
                stack.callback(shutil.rmtree, made, ignore_errors=True)
                stack.enter_context(_locked(made))
            made.chmod(0o755)
        except OSError as error:
            raise StoreError(_cannot_write(place, error)) from error
        yield made


@contextlib.contextmanager
def _locked(directory: Path, how: int = 0) -> Iterator[bool]:
    """Holds the directory's lock; False where it is not to be had: another has it (LOCK_NB), or there are no locks."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | how)
            held = True
        except OSError:
            held = False
        yield held
    finally:
        os.close(descriptor)


def _abandoned(draft: Path) -> bool:
    """Whether the process that made this draft is gone."""
    with contextlib.suppress(OSError), _locked(draft.parent), _locked(draft, fcntl.LOCK_NB) as ours:
        return ours
    return False


class _Stored(Run):
    """A run on disk. A table is read when asked for, and then kept; one that proves damaged then is a DamagedRun."""

    @cached_property
    def flows(self) -> pd.DataFrame:
        return _frame(self.path, "flows")

    @cached_property
    def intervals(self) -> pd.DataFrame:
        return _frame(self.path, "intervals")

    @cached_property
    def cpu(self) -> pd.DataFrame:
        return _frame(self.path, "cpu")


def _stored(**values) -> Run:
    run = _Stored(**values, **dict.fromkeys(TABLES))
    for name in TABLES:
        del vars(run)[name]  # else what the constructor was given would hide what is on disk
    return run


def _frame(place: Path, name: str) -> pd.DataFrame:
    with _told(place):
        texts = {key: "str" for key, column in TABLES[name].items() if column.dtype == "str"}
        return _columns(place, name, list(TABLES[name])).to_pandas().astype(texts)


def _told_of(run: Run, name: str) -> pd.DataFrame:
    """A run's table without the columns that say nothing: most flows have no datagrams, and each column costs room."""
    frame = getattr(run, name)
    said = frame.notna() & (frame != "")
    return frame.loc[:, said.any() | (frame.columns == frame.columns[0])]


def columns(run: Run, name: str, wanted: Sequence[str]) -> pa.Table:
    """These columns of a run's table as an Arrow table, texts as dictionary and indices. Raises as `read`.

    Of a stored run no others are read, and they are not kept.
    """
    if isinstance(run, _Stored):
        with _told(run.path):
            return _columns(run.path, name, wanted)
    frame = getattr(run, name)[list(wanted)]
    return pa.Table.from_pandas(frame, preserve_index=False).cast(_schema(name, wanted))


def length(run: Run, name: str) -> int:
    """How many rows a run's table has; of a stored run it is not read for that. Raises as `read`."""
    if not isinstance(run, _Stored):
        return len(getattr(run, name))
    with _told(run.path):
        return _metadata(run.path, name).num_rows


def _columns(place: Path, name: str, wanted: Sequence[str]) -> pa.Table:
    """A table as it is now: columns that came after the run was written are missing values (text: empty)."""
    schema, metadata = _schema(name, wanted), _metadata(place, name)
    known = set(metadata.schema.names)
    texts = [field.name for field in schema if field.name in known and pa.types.is_dictionary(field.type)]
    with pq.ParquetFile(_file(place, name), metadata=metadata, read_dictionary=texts) as parquet:
        read = parquet.read([key for key in wanted if key in known], use_threads=False)
    arrays = [read[field.name] if field.name in known else _missing(field, metadata.num_rows) for field in schema]
    return pa.table(arrays, names=schema.names).cast(schema)


def _missing(field: pa.Field, rows: int) -> pa.Array:
    numeric = pa.types.is_floating(field.type)
    return pa.nulls(rows, field.type) if numeric else pa.repeat("", rows).cast(field.type)


def _schema(name: str, wanted: Sequence[str]) -> pa.Schema:
    return pa.schema({key: _ARROW[TABLES[name][key].dtype] for key in wanted})


def _file(place: Path, name: str) -> Path:
    return place / f"{name}.parquet"


def _metadata(place: Path, name: str) -> pq.FileMetaData:
    return pq.read_metadata(_file(place, name))


#: The types of columns in Arrow.
_ARROW = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.dictionary(pa.int32(), pa.string()),
}


def read(place: Path) -> Run:
    """The run in that directory. Its tables are read when asked for; that they are there, and as long as its head
    says, is made sure of now.

    Raises DamagedRun where it is not whole, SchemaMismatch where it is newer, StoreError where it cannot be read now.
    """
    with _told(place):
        head = json.loads((place / "run.json").read_text(encoding="utf-8"))
        if head["schema"] > SCHEMA:
            raise SchemaMismatch(_newer(place, f"with schema {head['schema']}, and this one knows up to {SCHEMA}"))
        if unknown := sorted(set(head["spec"]) - set(Spec.model_fields)):
            raise SchemaMismatch(_newer(place, f"whose specs have {', '.join(map(repr, unknown))}"))
        found = {name: _metadata(place, name).num_rows for name in TABLES}
        for name, rows in head["rows"].items():
            if found[name] != rows:
                raise ValueError(f"{name}.parquet has {found[name]} rows and should have {rows}")
        if head["status"] not in STATUSES:
            raise ValueError(f"unknown status {head['status']!r}")
        spec = Spec(**head["spec"])
        if not place.name.startswith(spec.key):
            raise ValueError(f"it holds the run {spec.key}, which belongs in a directory of that name")
        return _stored(
            spec=spec,
            status=head["status"],
            reasons=tuple(head["reasons"]),
            measured_at=datetime.fromisoformat(head["measured_at"]) if head["measured_at"] else None,
            skew_s=_number(head["skew_s"]),
            harness_cpu_s=_number(head["harness_cpu_s"]),
            times_s=head["times_s"],
            facts=head["facts"],
            raw=_Raw(place / "raw"),
            path=place,
        )


@contextlib.contextmanager
def _told(place: Path) -> Iterator[None]:
    """Whatever goes wrong over a run's files, as DamagedRun or StoreError."""
    try:
        yield
    except SchemaMismatch:
        raise
    except Exception as error:  # pyarrow alone raises a dozen kinds over damaged files
        if isinstance(error, OSError) and error.errno not in _TELLS_OF_CONTENTS:
            raise StoreError(
                f"{paths.shown(place)} could not be read: {error.strerror or error}. The run may well be whole:"
                " see to its permissions, the disk and `ulimit -n`, then try again"
            ) from error
        told = " ".join(str(error).split()) if isinstance(error, (OSError, ValueError)) else repr(error)
        raise DamagedRun(
            f"{paths.shown(place)} is not a whole run: {told}. It is of no use to any analysis;"
            " `pairlab clean` moves it to .replaced/, and measuring again replaces it"
        ) from error


def find(spec: Spec, root: Path | None = None) -> Run | None:
    """The stored run of that spec, if there is one that can be read."""
    try:
        return read(directory_of(spec, root))
    except DamagedRun:
        return None


def status(spec: Spec, root: Path | None = None) -> str | None:
    """The status of the stored run of that spec as its head tells it: `find` without the tables."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        return json.loads((directory_of(spec, root) / "run.json").read_text(encoding="utf-8"))["status"]
    return None


def attach_notebook(run: Run, notebook: Path) -> None:
    """Keeps the executed notebook beside its run. Raises StoreError; the run stays as it was then."""
    target = run.path / "notebook.ipynb"
    draft = target.with_name(f".{target.name}")
    try:
        shutil.copyfile(notebook, draft)
        draft.rename(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StoreError(_cannot_write(target, error)) from error


def directories(root: Path | None = None, experiment: str | None = None) -> list[Path]:
    """Every directory that claims to be a run, by name; hidden ones (drafts, replaced runs) are none."""
    root = root or paths.runs()
    found = [place for place in root.glob("[!.]*/*/") if _is_key(place.name)]
    return sorted(place for place in found if experiment in (None, place.parent.name))


def debris(root: Path | None = None, *, with_replaced: bool = False) -> Iterator[tuple[Path, str]]:
    """Directories below runs/ that hold no run that counts, with the reason: drafts of the dead, and damaged runs.

    with_replaced: runs that a newer one of the same key replaced, too.
    """
    root = root or paths.runs()
    for place in sorted(root.glob("*/.*-*/")):
        if _is_key(place.name[1:17]) and _abandoned(place):
            yield place, "a draft that was never finished"
    for place in directories(root):
        try:
            run = read(place)
            for name in TABLES:
                getattr(run, name)
        except DamagedRun:
            yield place, "damaged, kept in .replaced/"
        except StoreError:  # of a newer pairlab, or not to be read just now
            continue
    if with_replaced:
        for place in sorted(root.glob("*/.replaced/*/")):
            yield place, "replaced"


def discard(place: Path) -> None:
    """Takes away what `debris` found: a damaged run moves to .replaced/, all else is deleted. Raises StoreError."""
    try:
        if _is_key(place.name):
            _set_aside(place)
        else:
            shutil.rmtree(place)
    except FileNotFoundError:
        pass  # somebody else was faster
    except OSError as error:
        told = f"{paths.shown(place)} could not be removed: {error.strerror or error}. Is it yours to remove?"
        raise StoreError(told) from error


def remember_sweep(name: str, specs: Iterable[Spec], root: Path | None = None) -> None:
    """Notes which cells a sweep has in each backend it is measured in, so that an analysis can ask for just these."""
    keys: dict[str, list[str]] = {}
    for spec in specs:
        keys.setdefault(spec.backend, []).append(spec.key)
    for backend, its in keys.items():
        place = (root or paths.runs()) / ".sweeps" / name / f"{backend}.json"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps(sorted(its), indent=1))
            draft.rename(place)
        except OSError as error:
            raise StoreError(_cannot_write(place, error)) from error


def keys_of_sweep(sweep: str, root: Path | None = None) -> set[str]:
    """The keys that remember_sweep noted, for `name` in all backends and for `name/backend` in that one.

    Raises NoRuns for a sweep that was never started here.
    """
    root = root or paths.runs()
    name, _, backend = sweep.partition("/")
    keys: set[str] = set()
    found = sorted((root / ".sweeps").glob(f"{glob.escape(name)}/{glob.escape(backend) or '*'}.json"))
    if not found:
        how = f"pairlab sweep sweeps/{name}.yaml" + (f" --backend {backend}" if backend else "")
        raise NoRuns(f"no sweep {sweep!r} was started in {paths.shown(root)}: {how}")
    for place in found:
        try:
            keys |= set(json.loads(place.read_text()))
        except (OSError, ValueError, TypeError) as error:
            told = f"{paths.shown(place)} is damaged ({error}): start the sweep again, which writes it anew"
            raise StoreError(told) from None
    return keys


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


def _head(run: Run) -> dict:
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
        "rows": {name: len(getattr(run, name)) for name in TABLES},
    }


def _or_none(value: float) -> float | None:
    return None if value != value else value


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _is_key(name: str) -> bool:
    return len(name) == 16 and set(name) <= set("0123456789abcdef")


def _replace(place: Path, draft: Path) -> None:
    if not place.exists():
        draft.rename(place)
        return
    kept = _set_aside(place)
    try:
        draft.rename(place)
    except BaseException:
        kept.rename(place)
        raise


def _set_aside(place: Path) -> Path:
    """Moves a run to .replaced/ beside it; returns where it is now."""
    kept = place.parent / ".replaced" / f"{place.name}-{time.time_ns()}"
    kept.parent.mkdir(exist_ok=True)
    place.rename(kept)
    return kept


def _newer(place: Path, how: str) -> str:
    return f"{paths.shown(place)} was written by a newer pairlab, {how}: update pairlab to read it"


def _cannot_write(place: Path, error: OSError) -> str:
    what = f"the run could not be written to {paths.shown(place.parent)}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}. Make room (`pairlab clean --dry-run` lists what can go); finished runs are whole"
    return f"{what}. Is the folder yours to write? PAIRLAB_RUNS names another one; finished runs are whole"
