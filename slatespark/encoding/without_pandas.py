"""Python and numpy values -> Arrow arrays, and back, without pandas.

Where pandas is installed, pyarrow imports it in the first call of `pa.array`, `pa.scalar`, `to_numpy` or a compute
function with a Python value: a third of a second, several times what a lookup needs. So what a process may need for its
first read or deletion goes through here. pandas is not imported by `from_buffers`, `pa.nulls`, by compute functions of
arrays and scalars, nor by `to_pylist` (except of nanoseconds, and of times with a zone).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import combine_chunks, flat_column
from slatespark.encoding.plain_values import unscaled
from slatespark.errors import InternalError
from slatespark.kernels.flat import BOOL, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64

_DTYPES: Final[dict[int, Any]] = {
    BOOL: np.bool_,
    INT8: np.int8,
    INT16: np.int16,
    INT32: np.int32,
    INT64: np.int64,
    FLOAT32: np.float32,
    FLOAT64: np.float64,
}
_EPOCH: Final = date(1970, 1, 1)
_MAX_OFFSET: Final = (1 << 31) - 1


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return what `pa.array(values, kind)` does; None is null, and pyarrow makes arrays of nested and other types.

    Requires: the type holds each value exactly, which is not checked. Dates and times may be the numbers that Arrow
    stores.

    Raises
    ------
    ValueError, OverflowError
        When a number is out of range, or a text has half of a surrogate pair.
    """
    if any(value is None for value in values):
        there = np.array([value is not None for value in values], np.bool_)
    else:
        there = None
    if kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return _of_bytes(values, kind, there)
    if kinds.is_decimal128(kind):
        return decimals_of([None if value is None else unscaled(value, kind.scale) for value in values], kind)
    if kinds.is_boolean(kind):
        return array_of_numpy(np.array([bool(value) for value in values], np.bool_), there)
    if kinds.is_floating(kind):
        floats = np.array([0.0 if value is None else value for value in values], np.float64)
        return array_of_numpy(floats, there).cast(kind)
    if kinds.is_integer(kind) or kinds.is_date32(kind) or (_is_counted(kind) and _are_integers(values)):
        whole = np.array([0 if value is None else _stored(value) for value in values], np.int64)
        stored = pa.int32() if kinds.is_date32(kind) else kind if kinds.is_integer(kind) else pa.int64()
        return array_of_numpy(whole, there).cast(stored).view(kind)
    return pa.array(values, kind)


def array_of_numpy(values: NDArray[Any], there: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers or booleans as an array that shares the memory of numbers.

    Parameters
    ----------
    there : which of them are not null; by default all
    """
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_validity(there), pa.py_buffer(data)])


def words_of(numbers: NDArray[Any], words: Sequence[str]) -> pa.Array:
    """Return the word of each number, as text."""
    return array_of(words, pa.string()).take(array_of_numpy(numbers))


def decimals_of(numbers: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Return decimals from their unscaled numbers; None is null."""
    there = np.array([number is not None for number in numbers], np.bool_)
    data = b"".join((number or 0).to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(kind, len(numbers), [_validity(there), pa.py_buffer(data)])


def numpy_of(array: pa.Array | pa.ChunkedArray, null: Any = None) -> NDArray[Any]:
    """Return booleans, signed or floating-point numbers, or the numbers of dates and times, as numpy has them.

    Parameters
    ----------
    null : the value of nulls. Requires: it is given, or there are no nulls
    """
    column = flat_column(combine_chunks(array))
    values: NDArray[Any] = column.data.view(_DTYPES[column.kind])
    if column.valid is None:
        return values
    if null is None:
        raise InternalError(f"{array.null_count} nulls have no value in numpy.")
    filled: NDArray[Any] = np.where(column.valid.view(np.bool_), values, values.dtype.type(null))
    return filled


def _of_bytes(values: Sequence[Any], kind: pa.DataType, there: NDArray[np.bool_] | None) -> pa.Array:
    given = values if there is None else [b"" if value is None else value for value in values]
    pieces = [value.encode() if isinstance(value, str) else value for value in given]
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=offsets[1:])
    if not kinds.is_large_binary(kind):
        if offsets[-1] > _MAX_OFFSET:
            return pa.array(values, kind)
        offsets = offsets.astype(np.int32)
    buffers = [_validity(there), pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(kind, len(pieces), buffers)


def _validity(there: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))


def _is_counted(kind: pa.DataType) -> bool:
    """Tell whether Arrow stores 64-bit numbers of ticks."""
    return bool(kinds.is_timestamp(kind) or kinds.is_duration(kind) or kinds.is_time64(kind))


def _are_integers(values: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, int) for value in values)


def _stored(value: date | int) -> int:
    return (value - _EPOCH).days if isinstance(value, date) else value
