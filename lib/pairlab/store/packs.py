"""Packs: a file each with all runs of an experiment, read as folders of runs are.

A pack is a zip archive. `pack.json` says which runs it holds, and how many rows each has in each table;
`metadata.jsonl.zst` has the metadata of each in the same order, a line each. Each table of all runs is a Parquet file,
with the column `key` before its own, and so is `files`: what tools printed, and executed notebooks. Parquet files are
stored as they are, so that columns are read from where they lie. The place of a run is <pack>/<key>, where that of
another is <experiment>/<key>.
"""

import contextlib
import errno
import functools
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pairlab.base.foreign_files import escape_controls, load_json, open_untrusted
from pairlab.errors import SchemaMismatch, StoreError
from pairlab.model.spec import Name
from pairlab.store.file_errors import newer
from pairlab.store.paths import NAME, SUFFIX, identity, key_of, pack_of

#: Of pack.json; raise it when an older pairlab could not read what is written.
FORMAT = 2
CONTENTS, METADATA, FILES = "pack.json", "metadata.jsonl.zst", "files"
#: Of a pack, and unpacked of its contents and metadata: a hundred times those of the reference runs, or more.
MOST_BYTES, MOST_CONTENTS_BYTES, MOST_METADATA_BYTES = 2**36, 2**24, 2**28
#: What zipfile raises for what is no whole archive; RuntimeError: it is encrypted, or packed in an unknown way.
NO_ARCHIVE = (BadZipFile, RuntimeError, EOFError, zlib.error)
#: Of a member's own header in the archive: its signature, and the lengths of its name and of what else is noted.
_LOCAL = struct.Struct("<4s22xHH")

_Count = Annotated[int, Field(ge=0, le=2**40)]
#: What a pack can do without, and how its names in `files` begin.
LEAVABLE = {"raw": "raw/", "notebooks": "notebook.ipynb"}


class Contents(BaseModel):
    """pack.json. rows: by table, how many each run has. footers: of each Parquet file the CRC-32 of its footer; pages
    have their own. left_out: which of LEAVABLE it does not have.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    format: Annotated[int, Field(ge=FORMAT)]
    experiment: Name
    runs: list[Annotated[str, Field(pattern=NAME)]]
    rows: dict[str, list[_Count]]
    footers: dict[str, int]
    left_out: list[str] = []

    @model_validator(mode="after")
    def _fits_together(self) -> "Contents":
        if len(set(self.runs)) < len(self.runs):
            raise ValueError("a run is named twice")
        if any(len(counts) != len(self.runs) for counts in self.rows.values()):
            raise ValueError("it does not say how many rows each run has")
        return self


@dataclass(frozen=True, eq=False)
class Pack:
    """A pack that was opened. members: begin and length of each Parquet file in it, by table."""

    path: Path
    contents: Contents
    members: dict[str, tuple[int, int]]
    mark: tuple[int, int, int]

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Its file. Raises OSError where another one has its name by now."""
        with open_untrusted(self.path, MOST_BYTES) as file:
            if identity(os.fstat(file.fileno())) != self.mark:
                raise OSError(errno.ESTALE, "it was replaced meanwhile")
            yield file

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Which of the runs each is, from 0, by name."""
        return {name: number for number, name in enumerate(self.contents.runs)}

    @cached_property
    def names_of_key(self) -> dict[str, list[str]]:
        """By key, the names of that spec's runs."""
        names_of_key: dict[str, list[str]] = {}
        for name in self.contents.runs:
            names_of_key.setdefault(key_of(name), []).append(name)
        return names_of_key

    @cached_property
    def _metadata(self) -> list[bytes]:
        with self.opened() as file, _archive(file) as archive:
            lines = _read_metadata(archive).splitlines()
        if len(lines) != len(self.numbers):
            raise ValueError(f"{METADATA} has {len(lines)} of {len(self.numbers)} runs")
        return lines

    def metadata(self, name: str) -> str:
        """That run's metadata, as JSON. Raises FileNotFoundError where there is no such run."""
        return self._metadata[self.number(name)].decode()

    def number(self, name: str) -> int:
        if name not in self.numbers:
            raise FileNotFoundError(f"{self.path.name} has no run {name}")
        return self.numbers[name]


def of(place: Path) -> Pack | None:
    """The pack that a run's place lies in; None of one in a folder. Raises as `load`."""
    return load(path) if (path := pack_of(place)) else None


def below(root: Path) -> list[Path]:
    """The packs in a folder of runs, by name; of a pack, it alone. Raises StoreError where it cannot be read."""
    if root.name.endswith(SUFFIX) and root.is_file():
        return [root]
    try:
        with os.scandir(root) as entries:
            packs = [each.name for each in entries if each.name.endswith(SUFFIX) and not each.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(f"{root} could not be read: {error.strerror}; name another folder for the runs") from None
    return [root / name for name in sorted(packs) if not name.startswith(".")]


def readable(root: Path) -> Iterator[Pack]:
    """The packs below it that are whole, and not newer than this pairlab."""
    for path in below(root):
        with contextlib.suppress(OSError, ValueError, RecursionError, SchemaMismatch):
            yield load(path)


def load(path: Path) -> Pack:
    """The pack in that file, as it is now. Raises OSError, ValueError, RecursionError, or SchemaMismatch."""
    return _load(path, identity(os.stat(path, follow_symlinks=False)))


@functools.lru_cache(maxsize=256)
def _load(path: Path, mark: tuple[int, int, int]) -> Pack:
    with open_untrusted(path, MOST_BYTES) as file, _archive(file) as archive:
        noted = load_json(read_member(archive, CONTENTS, MOST_CONTENTS_BYTES).decode())
        if isinstance(noted, dict) and isinstance(noted.get("format"), int) and noted["format"] > FORMAT:
            raise newer(path, f"with format {noted['format']}, and this one knows up to {FORMAT}")
        stored = [info for info in archive.infolist() if info.compress_type == ZIP_STORED]
        members = {Path(info.filename).stem: _span(file, info) for info in stored}
        return Pack(path, Contents.model_validate(noted), members, identity(os.fstat(file.fileno())))


@contextlib.contextmanager
def _archive(file: BinaryIO) -> Iterator[ZipFile]:
    try:
        with ZipFile(file) as archive:
            yield archive
    except (*NO_ARCHIVE, LookupError, struct.error, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # EINVAL: a place before the file's begin
            raise
        raise ValueError(f"its archive is damaged: {error}") from None


def read_member(archive: ZipFile, name: str, most_bytes: int) -> bytes:
    """A member of an archive. Raises ValueError where it is larger than that when unpacked."""
    with archive.open(name) as member:
        return _at_most(member, name, most_bytes)


def _at_most(file: IO[bytes], name: str, most_bytes: int) -> bytes:
    content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{escape_controls(name)} is larger than {most_bytes:,} B, and is not read")
    return content


def _read_metadata(archive: ZipFile) -> bytes:
    import pyarrow as pa

    compressed = read_member(archive, METADATA, MOST_METADATA_BYTES)
    try:
        with pa.CompressedInputStream(pa.BufferReader(compressed), "zstd") as stream:
            return _at_most(stream, METADATA, MOST_METADATA_BYTES)
    except OSError as error:
        raise ValueError(f"{METADATA} is damaged: {error}") from None


def _span(file: BinaryIO, info: ZipInfo) -> tuple[int, int]:
    """Where the bytes of a member that is stored as it is begin, and how many there are."""
    signature, *lengths = _LOCAL.unpack(os.pread(file.fileno(), _LOCAL.size, info.header_offset))
    begin = info.header_offset + _LOCAL.size + sum(lengths)
    if signature != b"PK\x03\x04" or begin + info.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{info.filename} is not where the archive says")
    return begin, info.file_size
