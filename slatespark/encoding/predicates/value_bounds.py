"""The smallest and largest value of a column in many rows, by the statistics of Parquet; whether any row can pass.

Bounds are ordinals (see `ordering`). What Parquet's statistics do not say, or not exactly, counts as unknown, so that
anything may pass: they leave NaN out, and Python's values of some types are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slatespark.encoding.predicates.key_plan import plan_keys
from slatespark.encoding.predicates.ordering import float_ordinal, has_bytes
from slatespark.encoding.predicates.row_filter import Condition, Filter
from slatespark.encoding.row_codec import RowCodec
from slatespark.ranges import ALL_KEYS, KeyRange


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """Bounds of the values of a column.

    Attributes
    ----------
    first, last : smallest and largest ordinal; None if all values are null
    has_nulls : whether any value may be null
    has_nan : whether any value may be NaN, which the bounds leave out
    """

    first: Any
    last: Any
    has_nulls: bool
    has_nan: bool = True


def bounds_of(statistics: Any, kind: pa.DataType, *, has_nan: bool = True) -> ValueBounds | None:
    """Return the bounds of a column chunk; None if they are unknown.

    Parameters
    ----------
    statistics : pyarrow's, of a leaf column; None if it has none
    kind : type of the column
    has_nan : whether it may hold NaN
    """
    if statistics is None or not statistics.has_null_count or pa.types.is_nested(kind):
        return None
    has_nulls = statistics.null_count > 0
    if not statistics.has_min_max:
        return ValueBounds(None, None, has_nulls) if has_nulls and not statistics.num_values else None
    first, last = (_ordinal(value, kind) for value in (statistics.min_raw, statistics.max_raw))
    return None if first is None or last is None else ValueBounds(first, last, has_nulls, has_nan)


def _ordinal(raw: Any, kind: pa.DataType) -> Any:
    """Return the ordinal of a value as Parquet stores it; None for types that are stored in other ways."""
    if has_bytes(kind):
        return raw.encode() if isinstance(raw, str) else bytes(raw)
    if pa.types.is_floating(kind):
        return float_ordinal(raw, kind)
    if pa.types.is_decimal(kind) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return int(raw) if isinstance(raw, int) else None


def may_pass(condition: Filter, bounds: Mapping[str, ValueBounds]) -> bool:
    """Tell whether any row can pass a filter, by bounds of some of its columns."""
    known = ((part, bounds[part.column]) for part in condition.conditions if part.column in bounds)
    return all(_may_hold(part, found) for part, found in known)


def _may_hold(part: Condition, found: ValueBounds) -> bool:
    if part.nulls and found.has_nulls:
        return True
    if found.first is None:
        return False
    if found.has_nan and pa.types.is_floating(part.kind) and _takes_nan(part):
        return True
    return any(start <= found.last and (end is None or end > found.first) for start, end in part.intervals)


def _takes_nan(part: Condition) -> bool:
    nan = float_ordinal(float("nan"), part.kind)
    return any(start <= nan < end for start, end in part.intervals)


def key_range_of(bounds: Sequence[ValueBounds | None], codec: RowCodec) -> tuple[KeyRange, bool]:
    """Return a range that holds all keys whose columns have some bounds, and whether the range is exact.

    It is exact if it starts with the first of the keys and holds no key behind the last one.

    Parameters
    ----------
    bounds : bounds of the key columns in order; None if unknown
    """
    leading: list[Condition] = []
    for item, found in zip(codec.key_fields, bounds, strict=False):
        if found is None or found.first is None or pa.types.is_floating(item.type):
            break
        end = found.last + b"\0" if has_bytes(item.type) else found.last + 1
        leading.append(Condition(item.name, item.type, ((found.first, end),), found.has_nulls))
        if found.has_nulls or found.first != found.last:  # the order of the next column starts over within this one
            break
    ranges = plan_keys(Filter(tuple(leading)), codec).ranges
    if not leading or not ranges:
        return ALL_KEYS, False
    is_exact = len(leading) == len(codec.key_columns) and not leading[-1].nulls
    return KeyRange(ranges[0].start, ranges[-1].end), is_exact
