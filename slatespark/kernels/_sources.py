"""Rows of several sources for kernels: a table of addresses.

The table has one line of LINE_BYTES for each source. Kernels take its address; the arrays must outlive the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyarrow import py_buffer

from slatespark.errors import InternalError
from slatespark.kernels._compile import inlined
from slatespark.kernels._native import load64
from slatespark.kernels.columns import ROW_BITS, ROW_MASK, RowColumns
from slatespark.kernels.flat import check_spans

# Byte offsets in a line of the table.
ROWS: Final = 0
KEYS: Final = 8
KEYS_END: Final = 16
KEY_OFFSETS: Final = 24
SEQS: Final = 32
FLAGS: Final = 40
CREATE_TS: Final = 48
EXPIRE_TS: Final = 56
VALUES: Final = 64
VALUES_END: Final = 72
VALUE_STARTS: Final = 80
VALUE_LENGTHS: Final = 88
LINE_BYTES: Final = 96

_LINE: Final = Struct(f"={LINE_BYTES // 8}q")


def address_of(array: NDArray[Any]) -> int:
    """Return the address of the array's first element."""
    address: int = py_buffer(array).address  # takes a tenth of the time of numpy's own
    return address


def checked_address(array: NDArray[Any], dtype: type[np.generic], length: int) -> int:
    """Return the address of an array that must have at least `length` contiguous elements of `dtype`."""
    if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous or len(array) < length:
        wanted, found = f"{length} contiguous {np.dtype(dtype)}", f"shape {array.shape} of {array.dtype}"
        raise InternalError(f"A kernel needs an array of at least {wanted}, got {found}.")
    return address_of(array)


def address_of_spans(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], valid: NDArray[np.uint8] | None
) -> tuple[int, int, int, int, int]:
    """Return address and size of the data, and the addresses of the others; 0 where no span is null.

    Raises
    ------
    InternalError : a span lies outside the data
    """
    count = len(starts)
    check_spans(data, starts, ends)
    there = 0 if valid is None else checked_address(valid, np.uint8, count)
    return (
        checked_address(data, np.uint8, 0),
        len(data),
        checked_address(starts, np.int64, count),
        checked_address(ends, np.int64, count),
        there,
    )


def cut_to(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return the first items of a new array, which nobody else has; what is left of its memory is given back."""
    if not array.flags.owndata:  # tests put arrays into memory of their own
        return array[:length]
    array.resize(length, refcheck=False)
    return array


def source_table(sources: Sequence[RowColumns]) -> NDArray[np.int64]:
    """Return the address table of the sources; keep it alive while it is used."""
    return np.frombuffer(b"".join([_line(rows) for rows in sources]), np.int64)


def line_numbers(rows: RowColumns) -> tuple[int, ...]:
    """Return the line of a source."""
    return _LINE.unpack(_line(rows))


def _line(rows: RowColumns) -> bytes:
    if not rows.lines:
        rows.lines.append(_LINE.pack(*_addresses(rows)))
    return rows.lines[0]


def _addresses(rows: RowColumns) -> tuple[int, ...]:
    count = len(rows)
    keys = checked_address(rows.key_bytes, np.uint8, 0)
    values = checked_address(rows.value_bytes, np.uint8, 0)
    return (
        count,
        keys,
        keys + len(rows.key_bytes),
        checked_address(rows.key_offsets, np.int64, count + 1),
        checked_address(rows.seqs, np.uint64, count),
        checked_address(rows.flags, np.uint8, count),
        checked_address(rows.create_ts, np.int64, count),
        checked_address(rows.expire_ts, np.int64, count),
        values,
        values + len(rows.value_bytes),
        checked_address(rows.value_starts, np.int64, count),
        checked_address(rows.value_lengths, np.int64, count),
    )


@inlined
def line_of(table: int, sources: int, packed: int) -> int:
    """Return the table's line for a packed row, or 0 if the row does not exist."""
    source = packed >> ROW_BITS
    if source < 0 or source >= sources:
        return 0
    line = table + source * LINE_BYTES
    return line if position_of(packed) < load64(line + ROWS) else 0


@inlined
def position_of(packed: int) -> int:
    """Return a packed row's position in its source."""
    return packed & ROW_MASK


def row_error(packed: int, sources: Sequence[RowColumns]) -> InternalError:
    """Return the error for a packed row that does not exist, or whose offsets lie outside its buffers."""
    source, position = packed >> ROW_BITS, packed & ROW_MASK
    if 0 <= source < len(sources) and position < len(sources[source]):
        return InternalError(f"Row {position} of source {source} lies outside the buffers of its source.")
    return InternalError(f"Row {position} of source {source} does not exist.")
