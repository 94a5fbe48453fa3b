"""Values of a type as ordinals: integers or bytes, in the order of the values in SQL.

| type | ordinal |
| --- | --- |
| boolean | 0, 1 |
| integers, dates, timestamps, times, intervals | the number that Arrow stores |
| decimal | the unscaled number |
| float, double | the bits without the sign, negated for negative numbers: -0.0 is 0.0; NaN is infinity + 1 |
| string, binary | the bytes |
| list, map, struct | none: only IS NULL and IS NOT NULL are supported |
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import flat_column, flat_kind
from slatespark.encoding.predicates.intervals import Interval
from slatespark.encoding.without_pandas import array_of, decimals_of
from slatespark.kernels.flat import FLOAT32, FLOAT64, ITEM_BYTES

MAX_NARROW_DIGITS: Final = 18  # of a decimal whose ordinals fit 64 bits

_INFINITY: Final = {FLOAT32: 0x7F80_0000, FLOAT64: 0x7FF0_0000_0000_0000}  # as bits, and as ordinals
_FLOATS: Final[dict[int, tuple[Any, Any]]] = {FLOAT32: (np.float32, np.int32), FLOAT64: (np.float64, np.int64)}
_DAY_NS: Final = 86_400 * 10**9


def universe(kind: pa.DataType) -> Interval:
    """Return the interval of all ordinals of a type."""
    if has_bytes(kind):
        return b"", None
    flat = flat_kind(kind)
    if flat is None or pa.types.is_boolean(kind):
        return 0, 2
    if flat in _INFINITY:
        return -_INFINITY[flat], _INFINITY[flat] + 2  # from -infinity to NaN
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision
    if pa.types.is_time(kind):
        return 0, _DAY_NS
    bits = 8 * ITEM_BYTES[flat]
    return -(1 << bits - 1), 1 << bits - 1


def has_bytes(kind: pa.DataType) -> bool:
    """Tell whether the ordinals of a type are bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def is_wide(kind: pa.DataType) -> bool:
    """Tell whether the ordinals of a type need more than 64 bits."""
    return bool(pa.types.is_decimal(kind) and kind.precision > MAX_NARROW_DIGITS)


# --- one value --------------------------------------------------------------------------------------------------------


def float_ordinal(value: float, kind: pa.DataType) -> int:
    """Return the ordinal of a number. Requires: the floating-point type represents it exactly."""
    flat = flat_kind(kind)
    assert flat is not None
    if math.isnan(value):
        return _INFINITY[flat] + 1
    as_float, as_bits = _FLOATS[flat]
    bits = int(as_float(value).view(as_bits))
    return bits if bits >= 0 else -(bits & np.iinfo(as_bits).max)


def is_float32(value: float) -> bool:
    """Tell whether a FLOAT represents the number exactly."""
    with np.errstate(over="ignore"):
        return math.isnan(value) or float(np.float32(value)) == value


def as_double(ordinal: int, kind: pa.DataType) -> float:
    """Return the value of an ordinal as Spark casts it to DOUBLE, rounded to nearest. Requires: a numeric type."""
    flat = flat_kind(kind)
    if flat not in _INFINITY:
        return ordinal / 10**kind.scale if pa.types.is_decimal(kind) else float(ordinal)  # both round once
    if ordinal > _INFINITY[flat]:
        return math.nan
    as_float, as_bits = _FLOATS[flat]
    magnitude = float(as_bits(abs(ordinal)).view(as_float))
    return magnitude if ordinal >= 0 else -magnitude


def first_double_at_least(bound: float, kind: pa.DataType, *, above: bool = False) -> int:
    """Return the first ordinal whose value, cast to DOUBLE, is at least `bound`, or greater if `above`.

    The cast keeps the order, so a binary search finds it. A comparison as DOUBLE becomes one of ordinals this way.
    """
    low, high = universe(kind)
    wanted = _sortable(bound)
    while low < high:
        middle = (low + high) // 2
        found = _sortable(as_double(middle, kind))
        if found > wanted if above else found >= wanted:
            high = middle
        else:
            low = middle + 1
    return int(low)


def _sortable(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


# --- arrays -----------------------------------------------------------------------------------------------------------


def ordinals(array: pa.Array) -> NDArray[Any]:
    """Return the ordinals of an array: (n,) int64, or for a wide type 16 bytes each, in the order of the numbers.

    Requires: a flat type whose ordinals are integers. Ordinals of nulls are undefined.
    """
    column = flat_column(array)
    if column.kind in _FLOATS:
        return _float_ordinals(column.data.view(_FLOATS[column.kind][0]), column.kind)
    if pa.types.is_decimal(array.type):
        words = column.data.view(np.int64).reshape(-1, 2)
        if not is_wide(array.type):
            return words[:, 0]  # little-endian: the low word
        return _wide(words[:, 1], words[:, 0].view(np.uint64))
    width = ITEM_BYTES[column.kind]
    numbers = column.data if width == 1 and pa.types.is_boolean(array.type) else column.data.view(f"<i{width}")
    return numbers.astype(np.int64, copy=False)


def constant_ordinals(values: list[int], kind: pa.DataType) -> NDArray[Any]:
    """Return ordinals from numbers, in the form of `ordinals`."""
    if not is_wide(kind):
        return np.array(values, np.int64)
    high = np.array([value >> 64 for value in values], np.int64)
    low = np.array([value & (1 << 64) - 1 for value in values], np.uint64)
    return _wide(high, low)


def ordinals_to_array(values: list[int | None], kind: pa.DataType) -> pa.Array:
    """Return the values of ordinals as an array, None as null. Requires: a flat type with integer ordinals."""
    flat = flat_kind(kind)
    if flat in _INFINITY:
        return array_of([None if item is None else as_double(item, kind) for item in values], kind)
    return decimals_of(values, kind) if pa.types.is_decimal(kind) else array_of(values, kind)


def _float_ordinals(values: NDArray[Any], flat: int) -> NDArray[np.int64]:
    as_bits = _FLOATS[flat][1]
    bits = values.view(as_bits)
    turned = np.where(bits >= 0, bits, -(bits & np.iinfo(as_bits).max))
    turned[np.isnan(values)] = _INFINITY[flat] + 1
    wide: NDArray[np.int64] = turned.astype(np.int64, copy=False)
    return wide


def _wide(high: NDArray[np.int64], low: NDArray[np.uint64]) -> NDArray[Any]:
    """Return 128-bit numbers as big-endian bytes with the sign bit flipped, which compare as unsigned."""
    words = np.empty((len(high), 2), ">u8")
    words[:, 0] = high.view(np.uint64) ^ np.uint64(1 << 63)
    words[:, 1] = low
    return words.view("S16").reshape(-1)
