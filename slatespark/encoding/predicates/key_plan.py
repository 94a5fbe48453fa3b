"""The keys that a filter can match, as ranges of key bytes or as single keys, and the filter left to test on rows.

Key order is column order, so equality on leading columns and one range on the next make one range of bytes. No element
of the tuple layer is a prefix of another, except for a string that continues with NUL: there 0xFF follows instead of
the type code of the next element, which is less. So the keys with the first elements `p` are `[p, p FF)`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.arrow_columns import flat_kind
from slatespark.encoding.predicates.intervals import Intervals, join_touching
from slatespark.encoding.predicates.ordering import has_bytes, ordinals_to_array
from slatespark.encoding.predicates.row_filter import Condition, Filter, RowSet
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.tuple_key import encode_tuple_keys
from slatespark.ranges import ALL_KEYS, KeyRange, point_range

MAX_POINTS: Final = 1_000_000
MAX_RANGES: Final = 1000

_NULL: Final = b"\x00"  # of the tuple layer
_BINARY: Final = b"\x01"
_STRING: Final = b"\x02"
_AFTER_STRING: Final = b"\x03"
_STRUCT: Final = b"\x05"
_AFTER: Final = b"\xff"  # above the type codes of all elements


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The keys that can match.

    Attributes
    ----------
    ranges : key ranges, ascending, not overlapping; every matching key lies in one
    points : the keys that can match, ascending, if the filter lists them all; the ranges only enclose them then
    residual : the filter left to test on rows whose keys are among the points, or in the ranges if there are no points
    """

    ranges: tuple[KeyRange, ...]
    points: tuple[bytes, ...] | None
    residual: Filter


NO_KEYS: Final = KeyPlan((), None, Filter())


def plan_keys(condition: Filter, codec: RowCodec) -> KeyPlan:
    """Return the keys that a filter can match.

    Parameters
    ----------
    condition : condition bound to the columns of the table and metadata columns
    codec : codec of the table
    """
    if condition.is_unsatisfiable:
        return NO_KEYS
    leading = _leading_conditions(condition, codec)
    if not leading:
        return KeyPlan((ALL_KEYS,), None, condition)
    rows = _leading_rows(condition, leading)
    if _lists_keys(leading, rows, codec):
        points = _points(leading, rows, codec)
        return KeyPlan(_point_ranges(points), points, _without(condition, leading, rows)) if points else NO_KEYS
    if codec.key_format != "tuple":
        return _plan_bytes(condition, leading[0])
    if rows is not None and leading[-1].has_only_points and _combinations(leading, rows) <= MAX_RANGES:
        prefixes = _tuples(leading, rows)
        ranges = tuple(KeyRange(prefix, prefix + _AFTER) for prefix in prefixes)
        return KeyPlan(ranges, None, _without(condition, leading, rows)) if prefixes else NO_KEYS
    return _plan_tuples(condition, leading)


def _leading_conditions(condition: Filter, codec: RowCodec) -> list[Condition]:
    """Return the conditions on leading key columns, of which all but the last list their values."""
    by_name = {part.column: part for part in condition.conditions}
    leading: list[Condition] = []
    for name in codec.key_columns:
        if name not in by_name or (leading and not leading[-1].has_only_points):
            break
        leading.append(by_name[name])
    return leading


def _leading_rows(condition: Filter, leading: Sequence[Condition]) -> RowSet | None:
    """Return the set of combinations that has most of the leading columns, if it lists single values of them."""
    names = {part.column for part in leading if part.has_only_points}
    return max(condition.row_sets, key=lambda rows: len(names.intersection(rows.columns)), default=None)


def _lists_keys(leading: Sequence[Condition], rows: RowSet | None, codec: RowCodec) -> bool:
    """Tell whether the conditions list all keys that can match, at most `MAX_POINTS`."""
    if len(leading) < len(codec.key_columns) or not leading[-1].has_only_points:
        return False
    return _combinations(leading, rows) <= MAX_POINTS


def _combinations(leading: Sequence[Condition], rows: RowSet | None) -> int:
    """Return how many combinations of their values conditions list, at most."""
    if rows is None:
        return math.prod(map(_count, leading))
    apart = [part for part in leading if part.column not in rows.columns]
    return len(rows.rows) * math.prod(map(_count, apart))


def _count(part: Condition) -> int:
    return len(part.intervals) + part.nulls


def _without(condition: Filter, done: Sequence[Condition], rows: RowSet | None = None) -> Filter:
    """Return the filter without conditions that are fulfilled, and without `rows` if they have no other columns."""
    names = {part.column for part in done}
    left = tuple(item for item in condition.row_sets if item is not rows or not names.issuperset(item.columns))
    return Filter(tuple(part for part in condition.conditions if part.column not in names), left)


# --- whole keys -------------------------------------------------------------------------------------------------------


def _points(leading: Sequence[Condition], rows: RowSet | None, codec: RowCodec) -> tuple[bytes, ...]:
    if codec.key_format != "tuple":  # such keys are never null, and never empty
        return tuple(start for start, _ in leading[0].intervals if start)
    return tuple(_tuples(leading, rows))


def _point_ranges(points: Sequence[bytes]) -> tuple[KeyRange, ...]:
    if len(points) <= MAX_RANGES:
        return tuple(map(point_range, points))
    return (KeyRange(points[0], point_range(points[-1]).end),)


def _tuples(leading: Sequence[Condition], rows: RowSet | None = None) -> list[bytes]:
    """Return the encoded tuples of the combinations of the listed values, all or those of `rows`, ascending."""
    elements = [_elements(part) for part in leading]
    if rows is None:
        return [b"".join(parts) for parts in itertools.product(*elements)]
    encoded = [dict(zip((start for start, _ in part.intervals), _listed(part), strict=True)) for part in leading]
    indices = [rows.columns.index(part.column) if part.column in rows.columns else None for part in leading]
    found: set[bytes] = set()
    for row in rows.rows:
        choices = [elements[at] if index is None else [encoded[at][row[index][0]]] for at, index in enumerate(indices)]
        found.update(b"".join(parts) for parts in itertools.product(*choices))
    return sorted(found)


def _elements(part: Condition) -> list[bytes]:
    """Return the listed values of a condition as encoded elements, ascending; null is first."""
    return [_NULL, *_listed(part)] if part.nulls else _listed(part)


def _listed(part: Condition) -> list[bytes]:
    """Return the listed values of a condition without null, in their order."""
    return _encode_elements([start for start, _ in part.intervals], part.kind)


# --- ranges -----------------------------------------------------------------------------------------------------------


def _plan_bytes(condition: Filter, part: Condition) -> KeyPlan:
    """Plan keys that are the bytes of one column."""
    intervals, is_exact = _limit(join_touching(part.intervals), MAX_RANGES)
    ranges = tuple(KeyRange(start, end) for start, end in intervals)
    return KeyPlan(ranges, None, _without(condition, [part] if is_exact else []))


def _plan_tuples(condition: Filter, leading: list[Condition]) -> KeyPlan:
    while len(leading) > 1 and math.prod(map(_count, leading[:-1])) > MAX_RANGES:
        leading.pop()
    *fixed, last = leading
    prefixes = _tuples(fixed)
    intervals, is_exact = _limit(join_touching(last.intervals), MAX_RANGES // len(prefixes) - last.nulls)
    found = _element_ranges(Condition(last.column, last.kind, intervals, last.nulls))
    ranges = tuple(KeyRange(prefix + start, prefix + end) for prefix in prefixes for start, end in found)
    return KeyPlan(ranges, None, _without(condition, leading if is_exact else fixed))


def _limit(intervals: Intervals, most: int) -> tuple[Intervals, bool]:
    """Return at most `most` intervals, or one that encloses them all; and whether they are exact."""
    if len(intervals) <= max(most, 1):
        return intervals, True
    return ((intervals[0][0], intervals[-1][1]),), False


def _element_ranges(part: Condition) -> list[tuple[bytes, bytes]]:
    """Return a condition as ranges of encoded elements, ascending."""
    found = [(_NULL, _NULL + _AFTER)] if part.nulls else []
    if flat_kind(part.kind) is None:  # a struct: only conditions on null
        return [*found, *((_STRUCT, _STRUCT + _AFTER) for _ in part.intervals)]
    starts = _encode_elements([start for start, _ in part.intervals], part.kind)
    if has_bytes(part.kind):
        unbounded = _AFTER_STRING if pa.types.is_string(part.kind) else _STRING  # bytes may begin with 0xFF
        known = iter(_encode_elements([end for _, end in part.intervals if end is not None], part.kind))
        ends = [unbounded if end is None else next(known) for _, end in part.intervals]
    else:
        ends = [last + _AFTER for last in _encode_elements([end - 1 for _, end in part.intervals], part.kind)]
    return [*found, *zip(starts, ends, strict=True)]


def _encode_elements(values: list[Any], kind: pa.DataType) -> list[bytes]:
    """Return ordinals of a flat type as encoded elements of a tuple."""
    if not values:
        return []
    if has_bytes(kind):  # not through an array: a bound may end within a character
        mark = _STRING if pa.types.is_string(kind) else _BINARY
        return [mark + item.replace(b"\0", b"\0\xff") + b"\0" for item in values]
    data, offsets = encode_tuple_keys([ordinals_to_array(values, kind)])
    whole, reach = data.tobytes(), offsets.tolist()
    return [whole[start:end] for start, end in itertools.pairwise(reach)]
