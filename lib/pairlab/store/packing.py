"""Makes packs of runs: written under a hidden name, read back and compared, and only then called as packs are."""

import contextlib
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow as pa
import pyarrow.parquet as pq

from pairlab import paths
from pairlab.base.foreign_files import read_bytes
from pairlab.errors import BadInput, DamagedRun, NoRuns, SchemaMismatch, StoreError
from pairlab.model.records import Run
from pairlab.model.tables import TABLES
from pairlab.store import metadata, packed_columns, packs, tables
from pairlab.store.catalogue import stored
from pairlab.store.drafts import draft_file, locked
from pairlab.store.file_errors import newer, reading, writing
from pairlab.store.moving import archive
from pairlab.store.packed_columns import KEY, as_numbers, encoded, same
from pairlab.store.packs import CONTENTS, FILES, FORMAT, LEAVABLE, METADATA
from pairlab.store.paths import METADATA as RUN_JSON
from pairlab.store.paths import SUFFIX, pack_of, tagged_file
from pairlab.store.runs import MOST_RAW_BYTES, RAW, place_of, raw_bytes, read

#: Rows in a group, which is unpacked at once, and bytes of files in it; a larger run is a group of its own.
GROUP_ROWS, GROUP_BYTES = 2**16, 2**24
#: Options of the Parquet files. Checksums reveal damaged pages.
_PARQUET = {
    "compression": "zstd",
    "compression_level": 19,
    "write_statistics": False,
    "store_schema": False,
    "write_page_checksum": True,
    "data_page_size": 2**23,
    "dictionary_pagesize_limit": 2**23,
}
_ZSTD = pa.Codec("zstd", compression_level=19)
#: The files that pairlab writes into a run's directory.
_OWN = {RUN_JSON, RAW, "raw", LEAVABLE["notebooks"], *(f"{name}.parquet" for name in TABLES)}


@dataclass(frozen=True)
class Packed:
    """The result of packing. troubles: why runs are not in the pack, or their directories still exist."""

    path: Path
    runs: int
    removed: int
    left_out: tuple[str, ...]
    troubles: tuple[str, ...]


class _Source(NamedTuple):
    """A run, its name in the pack, and the parts to leave out of the pack."""

    name: str
    run: Run
    leave_out: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        return place_of(self.run)

    @property
    def metrics(self) -> list[tuple[str, str]]:
        """Table and name of each column of the workload's own."""
        return [(each.table, each.name) for each in self.run.metrics]

    def table(self, name: str, columns: Sequence[str] = ()) -> pa.Table:
        """These columns as they are read (none named: all), texts as such; of `files`, name and content of each."""
        if name == FILES:
            files = self.files()
            return pa.table({"name": [*files], "content": pa.array(files.values(), pa.binary())})
        own = (column for table, column in self.metrics if table == name)
        with reading(self.place):
            columns_read = tables.columns(self.place, name, columns or [*TABLES[name], *own])
        return tables.with_plain_texts(columns_read)

    def files(self) -> dict[str, bytes]:
        """Output of the tools, and the notebook, by the names in `files`."""
        with reading(self.place):
            if pack_of(self.place):
                contents = packed_columns.files(self.place, "")
            else:
                raw = self.run.raw
                contents = {f"{LEAVABLE['raw']}{name}": raw_bytes(raw, name) for name in sorted(raw)}
                if (notebook := self.place / LEAVABLE["notebooks"]).exists():
                    contents[notebook.name] = read_bytes(notebook, MOST_RAW_BYTES)
        begins = tuple(LEAVABLE[each] for each in self.leave_out)
        return {name: content for name, content in contents.items() if not name.startswith(begins)}


def pack(
    experiment: str,
    root: Path | None = None,
    folder: Path | None = None,
    *,
    keys: Collection[str] | None = None,
    leave_out: Collection[str] = (),
    replace: bool = False,
    remove: bool = False,
) -> Packed:
    """Makes <experiment>-<tag>.pack of its runs, also of those in packs, and reads it back before it has its name.

    folder: where it is to be; default: `root`, the folder of the runs. keys: of the runs; None: all. leave_out: what of
    LEAVABLE it is not to have. replace: packs of this experiment go whose runs are in the new one. remove: directories
    of runs that are in it go, but those that hold other files.

    Raises NoRuns, BadInput where there is such a pack, StoreError where it cannot be written, or reads back otherwise.
    """
    root = root or paths.runs()
    target = (folder or root) / f"{experiment}{SUFFIX}"
    older = _older(target, experiment)
    if older and not replace:
        raise BadInput(f"{older[0]} is there already: --replace makes it anew, of its runs and the others")
    sources, troubles = _sources(experiment, root, keys, tuple(leave_out))
    for path in older:
        _require_none_lost(path, sources)
    if not sources:
        why = f": {next(iter(troubles.values()))}" if troubles else ""
        raise NoRuns(f"no runs of {experiment!r} in {root} can be packed{why}")
    of_sources = (packs.of(source.place) for source in sources)
    left_out = sorted({*leave_out, *(name for pack in of_sources if pack for name in pack.contents.left_out)})
    with draft_file(target, tagged=True) as draft:
        _write(sources, experiment, left_out, draft)
        for source in sources:
            _require_same(source, draft / source.name)
        target = tagged_file(target, draft)
    with writing(target):
        for path in {*older} - {target}:
            path.unlink(missing_ok=True)
    in_directories = [source for source in sources if remove and not pack_of(source.place)]
    left = {source.place: why for source in in_directories if (why := _why_not_removed(source, target / source.name))}
    removed = len(in_directories) - len(left)
    return Packed(target, len(sources), removed, tuple(left_out), (*troubles.values(), *left.values()))


def _older(target: Path, experiment: str) -> list[Path]:
    """The packs of that experiment where the target is to be, but those that somebody named otherwise."""
    named = re.compile(rf"{re.escape(experiment)}(-[0-9a-f]{{8}})?{re.escape(SUFFIX)}")
    older = []
    for path in packs.below(target.parent):
        if named.fullmatch(path.name):
            with reading(path):
                if packs.load(path).contents.experiment == experiment:
                    older.append(path)
    return older


def _require_none_lost(target: Path, sources: Sequence[_Source]) -> None:
    """Raises StoreError if the pack to be replaced has runs that the new one would lack."""
    packed = [metadata.load(source.place) for source in sources]
    with reading(target):
        lost = [name for name in packs.load(target).contents.runs if metadata.load(target / name) not in packed]
    if lost:
        raise StoreError(
            f"{target} is not replaced, as {len(lost)} of its runs, such as {lost[0]}, would not be in the new one:"
            " get them into the folder of runs, or give that pack another name"
        )


def _sources(
    experiment: str, root: Path, keys: Collection[str] | None, leave_out: tuple[str, ...]
) -> tuple[list[_Source], dict[Path, str]]:
    """The runs that can be packed, and why others cannot; each run is read completely."""
    sources, troubles = [], {}
    for place, entry in stored(root).items():
        if entry.experiment == experiment and (keys is None or entry.key in keys):
            try:
                source = _Source(entry.key, read(place), leave_out)
                for name in (*TABLES, FILES):
                    if unknown := sorted({*_stored_columns(source, name)} - {*source.table(name).column_names}):
                        raise newer(place, f"whose {name} have {', '.join(unknown)}")
                sources.append(source)
            except (DamagedRun, SchemaMismatch) as error:
                troubles[place] = str(error)
    return sources, troubles


def _stored_columns(source: _Source, name: str) -> list[str]:
    with reading(source.place):
        return tables.stored_columns(source.place, name)


def _write(sources: Sequence[_Source], experiment: str, left_out: list[str], path: Path) -> None:
    lines = [json.dumps(json.loads(metadata.text(source.place)), separators=(",", ":")) for source in sources]
    rows: dict[str, list[int]] = {}
    footers = {}
    with ZipFile(path, "w") as archive:
        archive.writestr(ZipInfo(METADATA), _ZSTD.compress("\n".join(lines).encode(), asbytes=True))
        for name in (*TABLES, FILES):
            with tempfile.TemporaryFile(dir=path.parent) as file:
                rows[name] = _write_table(sources, name, file)
                if any(rows[name]):
                    footers[name] = zlib.crc32(packed_columns.footer(file))
                    file.seek(0)
                    with archive.open(ZipInfo(f"{name}.parquet"), "w", force_zip64=True) as member:
                        shutil.copyfileobj(file, member)
        contents = {
            "format": FORMAT,
            "experiment": experiment,
            "runs": [source.name for source in sources],
            "rows": rows,
            "footers": footers,
            "left_out": left_out,
        }
        archive.writestr(ZipInfo(CONTENTS), json.dumps(contents, separators=(",", ":")), ZIP_DEFLATED, 9)


def _write_table(sources: Sequence[_Source], name: str, file: IO[bytes]) -> list[int]:
    """Writes the rows of all runs, grouped, each with its run's name; returns the row count of each run."""
    own = (column for source in sources for table, column in source.metrics if table == name)
    nonempty = {column for source in sources for column in _stored_columns(source, name)}
    columns = [each for each in dict.fromkeys((*TABLES.get(name, ()), *own)) if each in nonempty]
    counts: list[int] = []
    pending: list[pa.Table] = []
    filled = 0.0
    with contextlib.ExitStack() as stack:
        writer = None
        for source in (*sources, None):
            table = source.table(name, columns) if source else pa.table({})
            size = table.nbytes / GROUP_BYTES if name == FILES else len(table) / GROUP_ROWS
            if pending and (source is None or filled + size > 1):
                group = encoded(pa.concat_tables(pending), name)
                if writer is None:
                    writer = stack.enter_context(_writer(file, group.schema))
                writer.write_table(group, row_group_size=len(group))
                pending, filled = [], 0.0
            if source:
                counts.append(len(table))
            if source and len(table):
                pending.append(table.add_column(0, KEY, pa.array([source.name] * len(table), pa.string())))
                filled += size
    return counts


def _writer(file: IO[bytes], schema: pa.Schema) -> pq.ParquetWriter:
    numbers = [field.name for field in schema if field.type in (pa.int64(), pa.float64())]
    texts = [field.name for field in schema if field.type == pa.string()]
    return pq.ParquetWriter(file, schema, use_dictionary=texts, use_byte_stream_split=numbers, **_PARQUET)


def _require_same(source: _Source, place: Path) -> None:
    """Raises StoreError if the packed run differs from its source."""
    packed = _Source(source.name, read(place))
    written, read_back = (json.dumps(metadata.load(each)) for each in (source.place, place))
    different = ["metadata"] if written != read_back else []
    different += [name for name in (*TABLES, FILES) if not _same_table(source.table(name), packed.table(name))]
    if different:
        raise StoreError(
            f"{source.place} is not the same when it is read back from a pack ({', '.join(different)}): nothing was"
            " packed, and nothing removed. Please report this as a fault of pairlab"
        )


def _same_table(one: pa.Table, other: pa.Table) -> bool:
    return one.schema == other.schema and len(one) == len(other) and all(map(_same_column, one, other))


def _same_column(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    return bool(same(as_numbers(one), as_numbers(other)).all()) if pa.types.is_floating(one.type) else one == other


def _why_not_removed(source: _Source, packed: Path) -> str:
    """Archives a run's directory, then deletes it; returns the reason if it cannot."""
    place = source.place
    try:
        with locked(place.parent):
            if json.loads(metadata.text(place)) != json.loads(metadata.text(packed)):
                return f"{place} is left, as another run replaced it meanwhile: pack again"
            if others := sorted({each.name for each in place.iterdir()} - _OWN):
                return f"{place} is left, as other files are in it: {', '.join(others)}"
            archived = archive(place)
        shutil.rmtree(archived)
        for empty in (place.parent / ".replaced", place.parent):
            with contextlib.suppress(OSError):
                empty.rmdir()
    except (OSError, ValueError) as error:
        return f"{place} could not be removed: {error}"
    return ""
