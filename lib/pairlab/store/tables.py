"""A run's tables as Parquet: written without the columns that say nothing, read by column as they are now."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pairlab.base.foreign_files import escape_controls, open_untrusted
from pairlab.model.tables import OPTIONAL, TABLES, table
from pairlab.store import packed_columns, packs
from pairlab.store.paths import pack_of

#: Most runs' tables are short, and what Parquet adds to find its way in long ones would be most of their size.
_SMALL = {"compression": "zstd", "use_dictionary": False, "write_statistics": False, "store_schema": False}
#: Of tables with more rows than this, each text is written once, and numbers byte by byte: the first bytes of times are
#: alike, which makes such a table a fifth smaller.
_LONG = 1000
#: Of a table that a run can have: 5,000 pairs of 1,000 flows, and some intervals of each.
MOST_ROWS, MOST_BYTES = 20_000_000, 2 * 2**30
#: The types of columns in Arrow.
_ARROW = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.dictionary(pa.int32(), pa.string()),
}


def write(frame: pd.DataFrame, place: Path, name: str) -> None:
    _telling(frame).to_parquet(_file(place, name), index=False, **_how(frame, name))


def rows(place: Path) -> dict[str, int]:
    """How many rows each table has, by its footer."""
    if pack := packs.of(place):
        return {name: packed_columns.rows(pack, place.name, name) for name in TABLES}
    return {name: 0 if _left_out(place, name) else _metadata(place, name).num_rows for name in TABLES}


def rows_of_pairs(place: Path, name: str, pairs: int) -> int:
    """How many rows it has of these pairs, which come before those of the background."""
    return int(np.count_nonzero(columns(place, name, ["pair"])["pair"].to_numpy() < pairs))


def frame(place: Path, name: str, own: Sequence[str] = ()) -> pd.DataFrame:
    """The whole table, typed as TABLES has it, and after that the columns of its workload's own."""
    if not pack_of(place) and _left_out(place, name):
        return table(name).reindex(columns=[*TABLES[name], *own]) if own else table(name)
    return with_plain_texts(columns(place, name, [*TABLES[name], *own])).to_pandas(use_threads=False)


def with_plain_texts(content: pa.Table) -> pa.Table:
    """The same table, texts as such and not as dictionary and indices."""
    plain = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in content.schema]
    return content.cast(pa.schema(plain))


def columns(place: Path, name: str, wanted: Sequence[str]) -> pa.Table:
    """A table as it is now: columns that came after the run was written are missing values (text: Column.before)."""
    wished = schema(name, wanted)
    if pack := packs.of(place):
        read, count = packed_columns.read(pack, place.name, name, wanted), packed_columns.rows(pack, place.name, name)
    elif _left_out(place, name):
        return wished.empty_table()
    else:
        read, count = _stored(place, name, wished)
    before = {key: column.before for key, column in TABLES[name].items()}
    arrays = [
        _shown(read[field.name])
        if field.name in read.column_names
        else _missing(field, before.get(field.name, ""), count)
        for field in wished
    ]
    return pa.table(arrays, names=wished.names).cast(wished)


def _stored(place: Path, name: str, wished: pa.Schema) -> tuple[pa.Table, int]:
    """Those of these columns that the file has, and how many rows that are."""
    metadata = _metadata(place, name)
    known = [field for field in wished if field.name in metadata.schema.names]
    texts = [field.name for field in known if pa.types.is_dictionary(field.type)]
    with (
        open_untrusted(_file(place, name), MOST_BYTES) as file,
        pq.ParquetFile(_again(file), metadata=metadata, read_dictionary=texts) as parquet,
    ):
        return parquet.read([field.name for field in known], use_threads=False), metadata.num_rows


def stored_columns(place: Path, name: str) -> list[str]:
    """The columns that are stored of it, which may be others than this pairlab knows."""
    if pack := packs.of(place):
        return packed_columns.stored_columns(pack, name)
    return [] if name not in TABLES or _left_out(place, name) else _metadata(place, name).schema.names


def schema(name: str, wanted: Sequence[str]) -> pa.Schema:
    """These columns of a table in Arrow, texts as dictionary and indices; those of a workload's own are numbers."""
    known = TABLES[name]
    return pa.schema({key: _ARROW[known[key].dtype if key in known else "float64"] for key in wanted})


def _telling(frame: pd.DataFrame) -> pd.DataFrame:
    """A table without its empty columns: most flows have no datagrams, and each column takes space."""
    first = frame.columns[0]
    return frame[[key for key in frame if key == first or _says_something(frame[key])]]


def _says_something(column: pd.Series) -> bool:
    values = column.to_numpy()
    if values.dtype.kind == "f":
        return not np.isnan(values).all()
    return len(values) > 0 if values.dtype.kind in "iub" else any(value and value == value for value in values)


def _how(frame: pd.DataFrame, name: str) -> dict:
    if len(frame) <= _LONG:
        return _SMALL
    texts = [key for key, column in TABLES[name].items() if column.dtype == "str"]
    numbers = [key for key in frame if frame[key].dtype.kind == "f"]
    return _SMALL | {"use_dictionary": texts, "use_byte_stream_split": numbers}


def _missing(field: pa.Field, text: str, rows: int) -> pa.Array:
    numeric = pa.types.is_floating(field.type)
    return pa.nulls(rows, field.type) if numeric else pa.repeat(text, rows).cast(field.type)


def _metadata(place: Path, name: str) -> pq.FileMetaData:
    """The table's footer. Raises ValueError where the table is larger than a run's can be, also when unpacked."""
    with open_untrusted(_file(place, name), MOST_BYTES) as file:
        metadata = pq.read_metadata(_again(file))
    unpacked = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if metadata.num_rows > MOST_ROWS or unpacked > 4 * MOST_BYTES:
        raise ValueError(
            f"{name}.parquet has {metadata.num_rows:,} rows of {unpacked / 2**20:,.0f} MiB, more than any run"
        )
    return metadata


def _again(file: BinaryIO) -> str:
    """A path to that open file itself, whatever its name leads to by now."""
    return f"/proc/self/fd/{file.fileno()}"


def _shown(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts (dictionary and indices) as `visible` has them; all else as it is."""
    if not pa.types.is_dictionary(values.type):
        return values
    if all(escape_controls(text) == text for part in values.chunks for text in part.dictionary.to_pylist() if text):
        return values
    plain = [None if text is None else escape_controls(text) for text in values.cast(pa.string()).to_pylist()]
    return pa.chunked_array([pa.array(plain, pa.string()).dictionary_encode()])


def _left_out(place: Path, name: str) -> bool:
    """Whether the run has no such table, as most have none of the OPTIONAL."""
    return name in OPTIONAL and not os.path.lexists(_file(place, name))


def _file(place: Path, name: str) -> Path:
    return place / f"{name}.parquet"
