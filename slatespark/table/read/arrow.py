"""The columns of a read, and packed rows -> their Arrow arrays."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.plain_values import first_value
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.encoding.without_pandas import array_of_numpy, words_of
from slatespark.errors import SchemaError
from slatespark.kernels import gather_fields, gather_keys
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.kernels.results import Fields
from slatespark.options import ReadOptions
from slatespark.texts import listed
from slatespark.units import MAX_TIMESTAMP_MS, us_to_ms

MAX_BATCH_ROWS: Final = 1 << 16
MAX_BATCH_BYTES: Final = 16 << 20
# Smaller batches are joined: each has a fixed cost for its reader, most of all where it crosses into the JVM.
SMALL_BATCH_ROWS: Final = 8192
SMALL_BATCH_BYTES: Final = 1 << 20

SEQ: Final = "_seq"
CREATE_TS: Final = "_create_ts"
EXPIRE_TS: Final = "_expire_ts"

METADATA_TYPES: Final[Mapping[str, pa.DataType]] = {
    "_key": pa.binary(),
    SEQ: pa.int64(),
    "_op": pa.string(),
    "_create_ts": pa.timestamp("us", tz="UTC"),
    "_expire_ts": pa.timestamp("us", tz="UTC"),
}
# Columns of a read of intervals: when a version became valid, when it ended, and whether it is still valid.
VALID_FROM: Final = "_valid_from"
VALID_TO: Final = "_valid_to"
IS_CURRENT: Final = "_is_current"
VALIDITY_TYPES: Final[Mapping[str, pa.DataType]] = {
    VALID_FROM: pa.timestamp("us", tz="UTC"),
    VALID_TO: pa.timestamp("us", tz="UTC"),
    IS_CURRENT: pa.bool_(),
}
# Columns of a change feed: what happened to the row, and the version that the feed ends with.
CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
CHANGE_TYPES: Final[Mapping[str, pa.DataType]] = {
    CHANGE_TYPE: pa.string(),
    COMMIT_VERSION: pa.int64(),
    COMMIT_TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
ADDED_TYPES: Final[Mapping[str, pa.DataType]] = {**METADATA_TYPES, **VALIDITY_TYPES, **CHANGE_TYPES}
_OPS: Final = ("put", "delete", "merge")


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a read, in order: those of the table, then metadata columns, or those asked for.

    Attributes
    ----------
    names : names of the columns, as the table spells them
    shows_deletes : whether rows may be tombstones, whose value columns are null
    codec : codec of the table
    labels : names of the columns in the batches, if different
    """

    names: tuple[str, ...]
    shows_deletes: bool = False
    codec: RowCodec = RAW_CODEC
    labels: tuple[str, ...] | None = None
    # Derived. No cached_property: in Python 3.11 all reads share its lock, for which a forked child would wait.
    _schema: pa.Schema | None = field(init=False, default=None, repr=False, compare=False)
    _row_size: tuple[bool, bool, int] | None = field(init=False, default=None, repr=False, compare=False)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the batches; every column may hold nulls."""
        if self._schema is None:
            labels = self.labels or self.names
            types = [type_of(name, self.codec) for name in self.names]
            found = pa.schema([pa.field(label, kind) for label, kind in zip(labels, types, strict=True)])
            object.__setattr__(self, "_schema", found)
        return self._schema

    @property
    def row_size(self) -> tuple[bool, bool, int]:
        """Whether the lengths of keys and of values count for the size of a row, and the bytes of its fixed widths."""
        if self._row_size is None:
            object.__setattr__(self, "_row_size", self._find_row_size())
        assert self._row_size is not None
        return self._row_size

    def _find_row_size(self) -> tuple[bool, bool, int]:
        of_key = of_value = False
        fixed_bytes = 0
        for name, item in zip(self.names, self.schema, strict=True):
            try:
                fixed_bytes += max(1, item.type.bit_width // 8)
            except ValueError:  # it has no fixed width
                in_key = name == "_key" or name in self.codec.key_columns
                of_key, of_value = of_key or in_key, of_value or (not in_key and name not in ADDED_TYPES)
        return of_key, of_value, fixed_bytes


def type_of(name: str, codec: RowCodec) -> pa.DataType:
    """Return the type of a column of a read."""
    position = codec.schema.get_field_index(name)
    return codec.schema.field(position).type if position >= 0 else ADDED_TYPES[name]


def readable_schema(codec: RowCodec, *, intervals: bool = False) -> pa.Schema:
    """Return all columns that a filter may name: those of the table, all metadata columns, and those of intervals."""
    taken = set(codec.schema.names)
    added = ADDED_TYPES if intervals else METADATA_TYPES
    extra = [pa.field(name, kind) for name, kind in added.items() if name not in taken]
    return pa.schema([*(item.with_nullable(True) for item in codec.schema), *extra])


def project(options: ReadOptions, columns: Sequence[str] | None = None, *, codec: RowCodec = RAW_CODEC) -> Projection:
    """Return the projection of a read.

    Parameters
    ----------
    options : say which columns there are and which are asked for
    columns : those to produce, if not those of the options; they are called as they are spelled here
    codec : codec of the table

    Raises
    ------
    SchemaError
        When a column does not exist, or is requested twice.
    """
    metadata = [f"_{name}" for name in options.metadata_columns]
    if options.shows_intervals:
        metadata += _added_columns(codec, VALIDITY_TYPES, "readVersions=intervals")
    if options.read_change_feed:
        metadata += _added_columns(codec, CHANGE_TYPES, "the change feed")
    if options.shows_log and SEQ not in metadata:
        metadata.append(SEQ)
    offered = [*codec.schema.names, *(name for name in metadata if name not in codec.schema.names)]
    asked = columns or options.columns or offered
    names = tuple(_resolve_name(name, offered) for name in asked)
    if len(set(names)) != len(names):
        raise SchemaError(f"A column is requested twice: {', '.join(asked)}.", todo="Request each column once.")
    shows_deletes = options.include_deleted or options.read_versions == "all"
    shows_deletes = shows_deletes or options.shows_log or not options.with_pre_images
    labels = tuple(columns) if columns and tuple(columns) != names else None
    return Projection(names, shows_deletes, codec, labels)


def _added_columns(codec: RowCodec, added: Iterable[str], reader: str) -> Sequence[str]:
    """Return the columns that a read adds; a table may not have one of its own that is called the same."""
    spellings = {name.lower(): name for name in codec.schema.names}
    for name in added:
        if name in spellings:
            raise SchemaError(
                f"The table has a column {spellings[name]}, and {reader} adds one of that name.",
                todo="Copy the rows to a table in which that column has another name.",
            )
    return tuple(added)


def _resolve_name(name: str, offered: Sequence[str]) -> str:
    """Return the column as the table spells it."""
    if name in offered:
        return name
    spellings = {known.lower(): known for known in offered}
    if name.lower() in spellings:
        return spellings[name.lower()]
    near = difflib.get_close_matches(name.lower(), spellings, n=1)
    hint = f"Did you mean {spellings[near[0]]}? " if near else ""
    if name.lower() in METADATA_TYPES:
        hint = f"Ask for it with metadataColumns={name.lower()[1:]}. "
    raise SchemaError(f"There is no column {name!r}.", todo=f"{hint}Columns of this read: {listed(offered)}.")


# --- batches --------------------------------------------------------------------------------------------------------


def make_batch(arrays: Mapping[str, pa.Array], projection: Projection) -> pa.RecordBatch:
    """Return decoded columns as a batch of the projection."""
    return pa.RecordBatch.from_arrays([arrays[name] for name in projection.names], schema=projection.schema)


# --- columns --------------------------------------------------------------------------------------------------------


def decode_columns(
    sources: Sequence[RowColumns],
    rows: NDArray[np.int64],
    names: Sequence[str],
    projection: Projection,
    where: str = "",
) -> dict[str, pa.Array]:
    """Return columns of packed rows by name.

    Parameters
    ----------
    sources, rows : packed rows
    names : columns of the table, and metadata columns, whether or not they are of the projection
    projection : says how rows are stored, and whether there may be tombstones
    where : the table, for messages

    Raises
    ------
    CorruptDataError
        Naming key and fingerprint of a row that does not decode.
    """
    codec = projection.codec
    known = set(codec.schema.names)
    stored = [name for name in names if name in known]
    arrays = codec.decode(sources, rows, stored, where=where, with_deletes=projection.shows_deletes)
    extra = [name for name in names if name not in arrays]
    fields = gather_fields(sources, rows) if set(extra) - {"_key"} else None
    for name in extra:
        if name == "_key":
            shared = arrays.get(codec.key_columns[0]) if codec.key_format == "raw" else None
            arrays[name] = _binary(*gather_keys(sources, rows)) if shared is None else shared
        elif fields is not None:
            arrays[name] = _metadata(name, fields)
    return arrays


def _metadata(name: str, fields: Fields) -> pa.Array:
    if name == SEQ:
        return array_of_numpy(fields.seqs.view(np.int64))
    if name == "_op":
        kinds = np.where(fields.flags & TOMBSTONE, 1, np.where(fields.flags & MERGE, 2, 0)).astype(np.int8)
        return words_of(kinds, _OPS)
    if name == "_create_ts":
        return instants(fields.create_ts, (fields.flags & HAS_CREATE) == 0)
    return instants(fields.expire_ts, (fields.flags & HAS_EXPIRE) == 0)


def _binary(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def instants(ms: NDArray[np.int64], absent: NDArray[np.bool_]) -> pa.Array:
    """Return ms as timestamps, null where absent; instants beyond microseconds become the nearest that fit."""
    shown = np.clip(ms, -MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS) * 1000
    return array_of_numpy(shown, ~absent).cast(pa.timestamp("us", tz="UTC"))


def turned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch from the last to the first."""
    return batch.take(array_of_numpy(np.arange(len(batch) - 1, -1, -1)))


def row_dict(batch: pa.RecordBatch) -> dict[str, Any]:
    """Return the first row of a batch as Python values.

    A value beyond date or datetime stays a number, of days or microseconds; of ms in metadata columns.
    """
    row: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        value = first_value(column)
        is_number = name in METADATA_TYPES and pa.types.is_timestamp(column.type) and isinstance(value, int)
        row[name] = us_to_ms(value) if is_number else value
    return row
