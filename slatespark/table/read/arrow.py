"""Selected rows -> Arrow record batches, and the columns of raw tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.errors import SchemaError
from slatespark.kernels import gather_fields, gather_keys, gather_values, key_lengths, value_lengths
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.options import ReadOptions
from slatespark.units import MAX_MS, us_to_ms

MAX_BATCH_ROWS: Final = 1 << 16
MAX_BATCH_BYTES: Final = 16 << 20

RAW_COLUMNS: Final = ("key", "value")
_METADATA_TYPES: Final = {
    "_key": pa.binary(),
    "_seq": pa.int64(),
    "_op": pa.string(),
    "_create_ts": pa.timestamp("us", tz="UTC"),
    "_expire_ts": pa.timestamp("us", tz="UTC"),
}
_OPS: Final = ("put", "delete", "merge")


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a read, in order: `key`, `value`, then metadata columns, or those asked for.

    Attributes
    ----------
    names : of the columns
    shows_deletes : whether rows may be tombstones, whose value is null
    """

    names: tuple[str, ...]
    shows_deletes: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the batches."""
        return pa.schema([pa.field(name, _METADATA_TYPES.get(name, pa.binary())) for name in self.names])


def project(options: ReadOptions, columns: Sequence[str] | None = None) -> Projection:
    """Return the projection of a read of a raw table.

    Parameters
    ----------
    options : say which columns there are and which are asked for
    columns : those to produce, if not those of the options

    Raises
    ------
    SchemaError
        When a column does not exist.
    """
    offered = [*RAW_COLUMNS, *(f"_{name}" for name in options.metadata_columns)]
    names = columns or options.columns or offered
    for name in names:
        if name not in offered:
            raise SchemaError(f"There is no column {name!r}.", todo=f"Columns of this read: {', '.join(offered)}.")
    return Projection(tuple(names), options.include_deleted or options.read_versions == "all")


def selection_batches(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], projection: Projection
) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows as batches of at most 64 Ki rows and, unless a single row is larger, 16 MiB."""
    for start, end in _cut_batches(sources, rows, projection):
        yield _batch(sources, rows[start:end], projection)


def _cut_batches(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], projection: Projection
) -> Iterator[tuple[int, int]]:
    sizes = np.zeros(len(rows), np.int64)
    if "key" in projection.names or "_key" in projection.names:
        sizes += key_lengths(sources, rows)
    if "value" in projection.names:
        sizes += value_lengths(sources, rows)
    reach = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        before = int(reach[start - 1]) if start else 0
        fits = int(np.searchsorted(reach, before + MAX_BATCH_BYTES, side="right"))
        end = min(max(fits, start + 1), start + MAX_BATCH_ROWS)
        yield start, end
        start = end


def _batch(sources: Sequence[RowColumns], rows: NDArray[np.int64], projection: Projection) -> pa.RecordBatch:
    plain = {"key", "_key"} if projection.shows_deletes else {"key", "_key", "value"}
    fields = gather_fields(sources, rows) if set(projection.names) - plain else None
    arrays: dict[str, pa.Array] = {}
    for name in projection.names:
        if name in ("key", "_key"):
            arrays[name] = arrays.get("key") or _binary(*gather_keys(sources, rows))
            continue
        if name == "value":
            nulls = (fields.flags & TOMBSTONE) != 0 if fields is not None and projection.shows_deletes else None
            arrays[name] = _binary(*gather_values(sources, rows), nulls=nulls)
            continue
        assert fields is not None  # there is a column that needs them
        if name == "_seq":
            arrays[name] = pa.array(fields.seqs.view(np.int64))
        elif name == "_op":
            kinds = np.where(fields.flags & TOMBSTONE, 1, np.where(fields.flags & MERGE, 2, 0)).astype(np.int8)
            arrays[name] = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(_OPS)).dictionary_decode()
        elif name == "_create_ts":
            arrays[name] = _instants(fields.create_ts, (fields.flags & HAS_CREATE) == 0)
        else:
            arrays[name] = _instants(fields.expire_ts, (fields.flags & HAS_EXPIRE) == 0)
    return pa.RecordBatch.from_arrays([arrays[name] for name in projection.names], schema=projection.schema)


def _binary(offsets: NDArray[np.int32], data: NDArray[np.uint8], nulls: NDArray[np.bool_] | None = None) -> pa.Array:
    validity = None
    if nulls is not None and nulls.any():
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def row_dict(batch: pa.RecordBatch) -> dict[str, Any]:
    """Return the first row of a batch as Python values; an instant that no datetime can hold stays a number of ms."""
    row: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[0].as_py()
        except (OverflowError, ValueError):
            row[name] = us_to_ms(column[0].value)
    return row


def _instants(ms: NDArray[np.int64], absent: NDArray[np.bool_]) -> pa.Array:
    """Return ms as timestamps; what microseconds cannot hold is set to the nearest they can."""
    limit = MAX_MS // 1000
    return pa.array(np.clip(ms, -limit, limit) * 1000, mask=absent).cast(pa.timestamp("us", tz="UTC"))
