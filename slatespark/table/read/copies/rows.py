"""Rows of a columnar copy beside packed rows of SSTs: merged by their keys, and their columns taken, not decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.encoding.without_pandas import array_of, array_of_numpy, numpy_of
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, ROW_BITS, ROW_MASK, RowColumns
from slatespark.table.read.arrow import (
    CREATE_TS,
    EXPIRE_TS,
    Projection,
    decode_columns,
    type_of,
)

_DENSE: Final = 2  # rows in a span for each that is wanted


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CopyRows(RowColumns):
    """Row versions without values: the columns of the read lie beside them.

    Attributes
    ----------
    columns : columns with the types of the read, as long as there are rows
    """

    columns: Mapping[str, pa.Array]
    _row_bytes: list[NDArray[np.int64]] = field(default_factory=list, init=False, repr=False)

    @property
    def row_bytes(self) -> NDArray[np.int64]:
        """(n,) bytes of the columns without a fixed width; of nested ones their average."""
        if not self._row_bytes:
            total = np.zeros(len(self), np.int64)
            for array in self.columns.values():
                total += _other_bytes(array)
            self._row_bytes.append(total)
        return self._row_bytes[0]


def _other_bytes(array: pa.Array) -> NDArray[np.int64] | int:
    """Return what each value takes, 0 if its type has a fixed width."""
    kind = array.type
    if pa.types.is_nested(kind):
        return -(-int(array.nbytes) // max(1, len(array)))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths: NDArray[np.int64] = numpy_of(pc.binary_length(array), 0)
        return lengths.astype(np.int64)
    return 0


def copy_rows(rows: pa.Table, names: Sequence[str], projection: Projection, *, seq: int, with_keys: bool) -> CopyRows:
    """Return rows of a copy.

    Parameters
    ----------
    rows : all columns of the copy that are needed
    names : columns of the read
    seq : a sequence number that none of the rows lies below
    with_keys : encode the keys; without, all keys are empty
    """
    codec, count = projection.codec, rows.num_rows
    offsets, key_bytes = _filled(count + 1, 0, "int64"), np.zeros(0, np.uint8)
    if with_keys:
        keys = {name: _column(rows, name, projection, key_bytes, offsets) for name in codec.key_columns}
        key_bytes, offsets = codec.encode_keys(pa.table(keys))
    columns = {name: _column(rows, name, projection, key_bytes, offsets) for name in names}
    create_ts, has_create = _times(rows, CREATE_TS)
    expire_ts, has_expire = _times(rows, EXPIRE_TS)
    nothing = _filled(count, 0, "int64")
    return CopyRows(
        key_bytes=key_bytes,
        key_offsets=offsets.astype(np.int64, copy=False),
        seqs=_filled(count, seq, "uint64"),
        flags=(has_create * np.uint8(HAS_CREATE) | has_expire * np.uint8(HAS_EXPIRE)).astype(np.uint8),
        create_ts=create_ts,
        expire_ts=expire_ts,
        value_bytes=np.zeros(0, np.uint8),
        value_starts=nothing,
        value_lengths=nothing,
        columns=columns,
    )


def _column(
    rows: pa.Table, name: str, projection: Projection, key_bytes: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> pa.Array:
    kind = type_of(name, projection.codec)
    if name in rows.schema.names:
        array = _whole(rows.column(name))
        return array if array.type == kind else array.cast(kind)
    if name == "_key":
        buffers = [None, pa.py_buffer(offsets.astype(np.int64, copy=False)), pa.py_buffer(key_bytes)]
        return pa.Array.from_buffers(pa.large_binary(), rows.num_rows, buffers).cast(kind)
    if name == "_op":
        return pa.repeat(array_of(["put"], kind)[0], rows.num_rows)
    return pa.nulls(rows.num_rows, kind)  # times that no row has, or a column that was added later


def _times(rows: pa.Table, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a column of instants as ms, 0 for null, and which rows have one."""
    if name not in rows.schema.names:
        return _filled(rows.num_rows, 0, "int64"), _filled(rows.num_rows, False, "bool")
    micros = _whole(rows.column(name)).cast(pa.int64())
    there = numpy_of(micros.is_valid())
    return numpy_of(micros, 0) // 1000, there


def _filled(count: int, value: int, kind: str) -> NDArray[Any]:
    """Return an array of one value, which must not be written to. All row groups share it: most have as many rows."""
    return _longest(value, kind, 1 << max(0, count - 1).bit_length())[:count]


@lru_cache(maxsize=16)
def _longest(value: int, kind: str, count: int) -> NDArray[Any]:
    array = np.full(count, value, kind)
    array.flags.writeable = False
    return array


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def read_columns(
    sources: Sequence[RowColumns],
    rows: NDArray[np.int64],
    names: Sequence[str],
    projection: Projection,
    where: str = "",
) -> dict[str, pa.Array]:
    """Return columns of packed rows, of which some may be of copies; parameters and errors as `decode_columns`."""
    copies = [number for number, source in enumerate(sources) if isinstance(source, CopyRows)]
    if not copies or not len(rows):
        return decode_columns(sources, rows, names, projection, where)
    numbers = rows >> ROW_BITS
    parts = [
        (at, source.columns)
        for number in copies
        if isinstance(source := sources[number], CopyRows) and len(at := np.flatnonzero(numbers == number))
    ]
    if len(parts) == 1 and len(parts[0][0]) == len(rows):
        pick = _picker(rows & ROW_MASK)
        return {name: pick(parts[0][1][name]) for name in names}
    pieces, order, held = [], np.empty(len(rows), np.int64), 0
    is_rest = np.ones(len(rows), bool)
    for at, columns in parts:
        piece, places = _piece({name: columns[name] for name in names}, rows[at] & ROW_MASK)
        pieces.append(piece)
        order[at], is_rest[at] = held + places, False
        held += int(places[-1]) + 1
    if len(rest := np.flatnonzero(is_rest)):
        pieces.append(decode_columns(sources, rows[rest], names, projection, where))
        order[rest] = held + np.arange(len(rest), dtype=np.int64)
    pick = _picker(order)
    return {name: pick(pa.concat_arrays([piece[name] for piece in pieces])) for name in names}


def _piece(
    columns: Mapping[str, pa.Array], positions: NDArray[np.int64]
) -> tuple[dict[str, pa.Array], NDArray[np.int64]]:
    """Return columns that hold the rows of some ascending positions, and the new positions of these rows."""
    first = int(positions[0])
    span = int(positions[-1]) - first + 1
    if span <= _DENSE * len(positions):  # they are picked once, where they are put in order
        return {name: array.slice(first, span) for name, array in columns.items()}, positions - first
    pick = _picker(positions)
    return {name: pick(array) for name, array in columns.items()}, np.arange(len(positions), dtype=np.int64)


def _picker(positions: NDArray[np.int64]) -> Callable[[pa.Array], pa.Array]:
    """Return what picks the values at some positions; ascending ones without gaps need no copy."""
    first, count = int(positions[0]), len(positions)
    if np.array_equal(positions, np.arange(first, first + count)):
        return lambda array: array.slice(first, count)
    indices = array_of_numpy(positions)
    return lambda array: array.take(indices)
