"""Input rows: anything with columns becomes batches of one schema, grouped by size."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from slatespark.encoding.plain_layout import plain_array, plain_field
from slatespark.errors import SchemaError

ROW_OVERHEAD_BYTES: Final = 80  # of a row besides key and value: offsets, seq, times, flags, its place in the order

_READ_AHEAD: Final = 2  # batches of a dataset; pyarrow would hold up to 64 of 131,072 rows
_NOT_NULL: Final = " not null"  # as Arrow shows it
_OF_PANDAS: Final = b"pandas"  # in the metadata of its rows
_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")  # what pandas calls it in Arrow


class ArrowStream(Protocol):
    """Rows of another library, by the C interface of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with a stream of batches."""


Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch] | ArrowStream


def as_batches(batches: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return the rows as batches, and their schema; raises `SchemaError` for an object without columns."""
    if isinstance(batches, pa.RecordBatchReader):
        return _in_plain_layout(batches.schema, batches)
    if isinstance(batches, pa.Table):
        return _in_plain_layout(batches.schema, batches.to_batches())
    if isinstance(batches, pa.RecordBatch):
        batches = [batches]
    elif hasattr(batches, "__arrow_c_stream__"):  # DataFrames of pandas and Polars, relations of DuckDB
        return as_batches(_opened(batches))
    elif hasattr(batches, "scanner"):  # a dataset of pyarrow
        return as_batches(batches.scanner(batch_readahead=_READ_AHEAD, fragment_readahead=1).to_reader())
    rows = iter(batches) if isinstance(batches, Iterable) else iter([batches])
    try:
        first = next(rows)
    except StopIteration:
        raise SchemaError(
            "No batch of rows is given, and so no columns.", todo="Give a pyarrow Table: an empty one has columns."
        ) from None
    if not isinstance(first, pa.RecordBatch):
        raise SchemaError(
            f"The rows are of type {_type_name(batches)}, which has no columns.",
            todo="Give a pyarrow Table, RecordBatch, RecordBatchReader, several batches, or a DataFrame: "
            "pyarrow.Table.from_pylist makes a Table of dicts, pyarrow.table one of a dict of columns.",
        )
    return _in_plain_layout(first.schema, itertools.chain([first], rows))


def _type_name(rows: object) -> str:
    name = type(rows).__name__
    return f"{name} of {type(rows[0]).__name__}" if isinstance(rows, list | tuple) and rows else name


def _in_plain_layout(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return rows in layouts that Arrow can filter: without the view types of Polars, and without run ends."""
    plain = pa.schema([plain_field(field) for field in schema])
    if plain.equals(schema):
        return schema, batches
    # What is no batch, or has other columns than the first one, is refused later on.
    return plain, (
        _as_plain(_as_nullable_as(batch, schema), plain) if _has_columns(batch, schema) else batch for batch in batches
    )


def _as_plain(batch: pa.RecordBatch, plain: pa.Schema) -> pa.RecordBatch:
    columns = [plain_array(column, field.type) for column, field in zip(batch.columns, plain, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=plain)


def _has_columns(batch: object, schema: pa.Schema) -> bool:
    """Tell whether an object is a batch with the columns of a schema, whether or not it calls them nullable."""
    if not isinstance(batch, pa.RecordBatch):
        return False
    return bool((batch.schema.names, batch.schema.types) == (schema.names, schema.types))


def _opened(stream: Any) -> pa.RecordBatchReader:
    """Return the rows of an object with a stream of the Arrow C interface, without an index of pandas that has no name.

    A filter leaves such an index, which is no column of the rows.
    """
    try:
        reader = pa.RecordBatchReader.from_stream(stream)
    except (pa.ArrowException, ValueError, TypeError) as exc:  # a column alone has one, too
        raise SchemaError(
            f"The rows are of type {type(stream).__name__}, which pyarrow does not take: {exc}.",
            todo="Give a DataFrame or a pyarrow Table.",
        ) from exc
    names = [name for name in reader.schema.names if not _UNNAMED_INDEX.fullmatch(name)]
    if len(names) == len(reader.schema) or _OF_PANDAS not in (reader.schema.metadata or {}):
        return reader
    schema = pa.schema([reader.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in reader))


def require_schema(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches, all of the schema that the write was checked with: a column that one lacks would become null."""
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(f"A {type(batch).__name__} is not a batch of rows.", todo="Give pyarrow RecordBatches.")
        if not _has_columns(batch, schema):
            raise _other_columns(batch.schema, schema)
        yield batch if batch.schema.equals(schema) else _as_nullable_as(batch, schema)


def _other_columns(found: pa.Schema, first: pa.Schema) -> SchemaError:
    """Return the error for a batch whose columns are not those of the first one."""
    texts = _described(found), _described(first)
    # The types tell it of most parts, but not of the values of a map.
    nullable_alone = texts[0].replace(_NOT_NULL, "") == texts[1].replace(_NOT_NULL, "")
    return SchemaError(
        f"A batch has the columns {texts[0]}, the first one {texts[1]}.",
        why="They differ in whether a part of a column may be null." if nullable_alone else "",
        todo="Give all batches of a write the same columns.",
    )


def _as_nullable_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch that differs from a schema in what may be null alone, with that schema."""
    for field, column in zip(schema, batch.columns, strict=True):
        if column.null_count and not field.nullable:
            raise SchemaError(
                f"Column {field.name} of a batch has nulls, and the first batch says that it never has.",
                todo="Make the column of the first batch nullable.",
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def group_batches(batches: Iterable[pa.RecordBatch], buffer_bytes: int) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
    """Yield groups of batches that fit a buffer, and whether a group is the last; larger batches are cut."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for piece in _pieces(batch, buffer_bytes):
            size = _memory_of(piece)
            if held and held_bytes + size > buffer_bytes:
                yield held, False
                held, held_bytes = [], 0
            held.append(piece)
            held_bytes += size
    if held:
        yield held, True


def _memory_of(batch: pa.RecordBatch) -> int:
    try:
        size = int(batch.nbytes)
    except pa.ArrowTypeError:  # Arrow before 22 measures no views in a dictionary, but whole buffers
        size = batch.get_total_buffer_size()
    return size + ROW_OVERHEAD_BYTES * len(batch)


def _pieces(batch: pa.RecordBatch, limit_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch that is larger than the buffer."""
    parts = min(len(batch), -(-_memory_of(batch) // limit_bytes)) if len(batch) else 0
    rows = -(-len(batch) // parts) if parts else 0
    for start in range(0, len(batch), max(1, rows)):
        yield batch.slice(start, rows)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "none"
