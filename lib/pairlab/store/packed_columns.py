"""The Parquet files in a pack: columns of one run, out of those of all.

A number is missing from its column where it follows from others (DERIVED), or is whole in nanoseconds: then the column
`start_s:ns` beside start_s has these, or `start_s:ns-since` those since another time (SINCE). All of it makes a table
less than half as large. What is read is the same to the last bit, as `encoded` leaves out only what `decoded` gives
back so.
"""

import functools
import io
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pairlab.model.tables import TABLES
from pairlab.store import packs
from pairlab.store.packs import Pack

#: Of a group of rows, which are read at once: those of one run at most, and packing.GROUP_ROWS.
MOST_ROWS, MOST_GROUP_BYTES = 21_000_000, 2**33
#: The column with the run's name, before all others.
KEY = "key"
#: The ends of the names of columns with whole nanoseconds; no metric's name has a colon.
NS, NS_SINCE = ":ns", ":ns-since"
#: By table, the times that follow soon on others, which NS_SINCE counts from.
SINCE = {"flows": {"start_s": "intended_start_s", "first_byte_s": "start_s", "completed_s": "first_byte_s"}}


class Formula(NamedTuple):
    """The source columns of a derived column, and its formula over Arrow arrays; missing values stay missing."""

    of: tuple[str, ...]
    value: Callable[..., pa.Array]


def _bps(carried_bytes: pa.Array, over_s: pa.Array) -> pa.Array:
    return pc.divide(pc.multiply(carried_bytes, 8.0), over_s)


DERIVED: dict[str, dict[str, Formula]] = {
    "flows": {
        "fct_s": Formula(("completed_s", "start_s"), pc.subtract),
        "intended_fct_s": Formula(("completed_s", "intended_start_s"), pc.subtract),
        "duration_s": Formula(("fct_s",), lambda fct_s: fct_s),
        "flow_bytes": Formula(("size_bytes",), lambda size_bytes: size_bytes),
        "throughput_bps": Formula(("flow_bytes", "duration_s"), _bps),
    },
    "intervals": {
        "throughput_bps": Formula(
            ("interval_bytes", "start_s", "end_s"), lambda carried, start, end: _bps(carried, pc.subtract(end, start))
        )
    },
}


def encoded(rows: pa.Table, name: str) -> pa.Table:
    """These rows of that table as they are stored in a pack."""
    stored = {}
    for column in rows.column_names:
        values = rows[column].combine_chunks()
        if not pa.types.is_floating(values.type):
            stored[column] = values
            continue
        numbers = as_numbers(values)
        formula = DERIVED.get(name, {}).get(column)
        known = as_numbers(formula.value(*(_column(rows, each) for each in formula.of))) if formula else np.nan
        to_store = ~same(numbers, known)
        if column.endswith("_s"):
            short = np.abs(numbers) < 2**53 / 1e9  # of more, a float does not have each nanosecond
            whole = np.round(np.where(short, numbers, 0) * 1e9).astype(np.int64)
            exact = to_store & same(whole / 1e9, numbers)
            stored[column + NS] = pa.array(whole, mask=~exact)
            to_store &= ~exact
        stored[column] = pa.array(numbers, mask=~to_store)
    ns = {column: values for column, values in stored.items() if column.endswith(NS)}
    for column, since in SINCE.get(name, {}).items():
        if column + NS in ns and since + NS in ns:
            passed = pc.subtract(ns[column + NS], ns[since + NS])
            stored[column + NS_SINCE] = passed
            stored[column + NS] = pc.if_else(passed.is_valid(), None, ns[column + NS])
    return pa.table(stored)


def decoded(stored: pa.Table, name: str, column: str) -> pa.ChunkedArray:
    """A column of that table, of the columns that `needed` names."""
    values = _column(stored, column)
    if column + NS in stored.column_names:
        values = pc.coalesce(values, pc.divide(_ns(stored, name, column).cast(pa.float64()), 1e9))
    if column in stored.column_names and (formula := DERIVED.get(name, {}).get(column)):
        values = pc.coalesce(values, formula.value(*(decoded(stored, name, each) for each in formula.of)))
    return values


def _ns(stored: pa.Table, name: str, column: str) -> pa.ChunkedArray:
    if column + NS_SINCE not in stored.column_names:
        return stored[column + NS]
    return pc.coalesce(stored[column + NS], pc.add(stored[column + NS_SINCE], _ns(stored, name, SINCE[name][column])))


def needed(stored: Sequence[str], name: str, wanted: Sequence[str]) -> dict[str, None]:
    """The stored columns that the wanted ones are computed from."""
    columns: dict[str, None] = {}
    for column in wanted:
        if column in stored:
            columns |= dict.fromkeys(each for each in (column, column + NS, column + NS_SINCE) if each in stored)
            if column + NS_SINCE in stored:
                columns |= needed(stored, name, [SINCE[name][column]])
            if formula := DERIVED.get(name, {}).get(column):
                columns |= needed(stored, name, formula.of)
    return columns


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    return table[name] if name in table.column_names else pa.chunked_array([pa.nulls(len(table), pa.float64())])


def as_numbers(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """As 64-bit floats, in which NaN is what is missing."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def same(one: np.ndarray, other: np.ndarray | float) -> np.ndarray:
    """Which numbers are the same to the last bit, or both missing."""
    other = np.broadcast_to(np.float64(other), one.shape)
    return (one.view(np.int64) == other.view(np.int64)) | (np.isnan(one) & np.isnan(other))


def rows(pack: Pack, run: str, name: str) -> int:
    """How many rows that table of a run has. Raises ValueError where the table has not those of all runs."""
    begin, end = _span(pack, run, name)
    return end - begin


def read(pack: Pack, run: str, name: str, wanted: Sequence[str]) -> pa.Table:
    """Those of these columns that the table has, for that run; texts as dictionary and indices."""
    begin, end = _span(pack, run, name)
    if begin == end:
        return pa.table({})
    groups = pairwise(_first_rows(pack, name))
    table = pa.concat_tables(
        _group(pack, name, number, tuple(wanted)).slice(max(0, begin - first), end - max(first, begin))
        for number, (first, last) in enumerate(groups)
        if first < end and begin < last
    )
    if not pc.all(pc.equal(table[KEY], run)).as_py():
        raise ValueError(f"{name}.parquet has rows of other runs among them")
    return table.drop_columns(KEY)


def files(place: Path, begin: str) -> dict[str, bytes]:
    """What a packed run's files contain whose names begin so, by the rest of the name. Raises ValueError or OSError."""
    try:
        pack = packs.load(place.parent)
        members = read(pack, place.name, packs.FILES, ("name", "content")).to_pylist()
        return {row["name"].removeprefix(begin): row["content"] for row in members if row["name"].startswith(begin)}
    except Exception as error:  # pyarrow raises a dozen kinds over damaged files
        if isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno):
            raise
        raise ValueError(f"{place.parent.name} is damaged: {error!r}") from None


def stored_columns(pack: Pack, name: str) -> list[str]:
    """The columns that are stored of a table, by the names that they are read by."""
    names = _metadata(pack, name).schema.names if name in pack.members else []
    return [column for column in names if column != KEY and not column.endswith((NS, NS_SINCE))]


def _span(pack: Pack, run: str, name: str) -> tuple[int, int]:
    """From which row of that table on, and up to which, it is the run's."""
    number, ends = pack.number(run), _ends(pack, name)
    return ends[number - 1] if number else 0, ends[number]


@functools.lru_cache(maxsize=2000)
def _ends(pack: Pack, name: str) -> list[int]:
    """Of each run, where its rows end."""
    counts = pack.contents.rows.get(name, [0] * len(pack.contents.runs))
    ends = np.cumsum(counts, dtype=object).tolist()
    count = _metadata(pack, name).num_rows if name in pack.members else 0
    if ends[-1:] != [count] and (ends or count):
        raise ValueError(f"{name}.parquet has {count} rows and should have {ends[-1] if ends else 0}")
    return ends


@functools.lru_cache(maxsize=2000)
def _metadata(pack: Pack, name: str) -> pq.FileMetaData:
    """The table's footer. Raises ValueError where it is damaged, or the table larger than one can be when unpacked."""
    with pack.opened() as file:
        member = _Member(file, *pack.members[name])
        if zlib.crc32(footer(member)) != pack.contents.footers[name]:
            raise ValueError(f"the footer of {name}.parquet is damaged")
        metadata = pq.read_metadata(member)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        if group.num_rows > MOST_ROWS or group.total_byte_size > MOST_GROUP_BYTES:
            raise ValueError(f"{name}.parquet has {group.num_rows:,} rows together, more than any run")
    return metadata


def _first_rows(pack: Pack, name: str) -> list[int]:
    """Where each group of rows begins, and where the last one ends."""
    metadata = _metadata(pack, name)
    return [0, *np.cumsum([metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]).tolist()]


_READING = threading.Lock()


def _group(pack: Pack, name: str, number: int, wanted: tuple[str, ...]) -> pa.Table:
    with _READING:  # several threads read the runs of a group, which is unpacked once
        return _unpacked_group(pack, name, number, wanted)


@functools.lru_cache(maxsize=8)
def _unpacked_group(pack: Pack, name: str, number: int, wanted: tuple[str, ...]) -> pa.Table:
    metadata = _metadata(pack, name)
    names = metadata.schema.names
    texts = [KEY, *(key for key, column in TABLES.get(name, {}).items() if column.dtype == "str" and key in names)]
    with (
        pack.opened() as file,
        pq.ParquetFile(
            _Member(file, *pack.members[name]),
            metadata=metadata,
            read_dictionary=texts,
            page_checksum_verification=True,
        ) as parquet,
    ):
        stored = parquet.read_row_group(number, [KEY, *needed(names, name, wanted)], use_threads=False)
    return pa.table({column: decoded(stored, name, column) for column in (KEY, *wanted) if column in names})


class _Member(io.RawIOBase):
    def __init__(self, pack: BinaryIO, begin: int, size: int):
        self._pack, self._begin, self._size, self._at = pack, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer) -> int:
        count = max(0, min(len(buffer), self._size - self._at))
        chunk = os.pread(self._pack.fileno(), count, self._begin + self._at)
        buffer[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)


def footer(file: IO[bytes] | io.RawIOBase) -> bytes:
    """Of a Parquet file: what describes it, its length and the signature."""
    end = file.seek(-8, os.SEEK_END)
    length = int.from_bytes((file.read(8) or b"")[:4], "little")
    file.seek(max(0, end - length))
    return file.read() or b""
