"""Which keys a filter can match: ranges of key bytes, or the keys themselves, and what is left to test on rows.

Key order is column order, so equality on leading columns and one range on the next make one range of bytes. An element
of the tuple layer is never the beginning of another one, but for a string that goes on with NUL: there 0xFF stands
where the type of the next element would, which is below. So the keys whose first elements are `p` are `[p, p FF)`.
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
from slatespark.encoding.predicates.ordering import array_of, has_bytes, universe
from slatespark.encoding.predicates.row_filter import Condition, Filter
from slatespark.encoding.row_codec import RowCodec
from slatespark.ranges import ALL_KEYS, KeyRange, point_range

MAX_POINTS: Final = 1_000_000
MAX_RANGES: Final = 1000

_NULL: Final = b"\x00"  # of the tuple layer
_BINARY: Final = b"\x01"
_STRING: Final = b"\x02"
_AFTER_STRING: Final = b"\x03"
_STRUCT: Final = b"\x05"
_AFTER: Final = b"\xff"  # above every type of element
_NEXT_TEXT: Final = b"\x00\xff\x00"  # with which a string or binary ends whose last byte is zero


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The keys that can match.

    Attributes
    ----------
    ranges : ascending, not overlapping; every matching key lies in one
    points : the keys that can match, ascending, where the filter names them all; then the ranges only enclose them
    residual : what a row has to pass besides: its key among the points, or in the ranges where there are none
    """

    ranges: tuple[KeyRange, ...]
    points: tuple[bytes, ...] | None
    residual: Filter


NOTHING: Final = KeyPlan((), None, Filter())


def plan_keys(condition: Filter, codec: RowCodec) -> KeyPlan:
    """Return which keys a filter can match.

    Parameters
    ----------
    condition : bound to the schema of the table, and metadata columns
    codec : of the table
    """
    if condition.is_impossible:
        return NOTHING
    leading = _leading(condition, codec)
    if not leading:
        return KeyPlan((ALL_KEYS,), None, condition)
    if _names_keys(leading, codec):
        points = _points(leading, codec)
        return KeyPlan(_enclosing(points), points, _without(condition, leading)) if points else NOTHING
    if codec.key_format != "tuple":
        return _plan_bytes(condition, leading[0])
    return _plan_tuples(condition, leading)


def plain_ends(ranges: Sequence[KeyRange], kind: pa.DataType) -> tuple[KeyRange, ...]:
    """Return the same ranges of tuples, ending behind all keys that begin with some columns where they can.

    So `tenant = 'a'` and `tenant = 'a' AND day >= 5` end at the same place, and there is no key in between.

    Parameters
    ----------
    kind : of the last column that the ranges tell apart
    """
    if has_bytes(kind):
        top = _AFTER_STRING if pa.types.is_string(kind) else _STRING
    elif flat_kind(kind) is None:
        return tuple(ranges)
    else:
        top = _encoded([universe(kind)[1] - 1], kind)[0] + _AFTER
    return tuple(KeyRange(keys.start, _plain_end(keys.end, top, kind)) for keys in ranges)


def _plain_end(end: bytes | None, top: bytes, kind: pa.DataType) -> bytes | None:
    if end is None:
        return None
    if has_bytes(kind) and end.endswith(_NEXT_TEXT):  # the value with a zero byte behind it comes next
        return end[:-1]
    return end.removesuffix(top) + _AFTER if end.endswith(top) else end


def _leading(condition: Filter, codec: RowCodec) -> list[Condition]:
    """Return the conditions on leading key columns: each but the last lists its values."""
    by_name = {part.column: part for part in condition.conditions}
    leading: list[Condition] = []
    for name in codec.key_columns:
        if name not in by_name or (leading and not leading[-1].is_points):
            break
        leading.append(by_name[name])
    return leading


def _names_keys(leading: Sequence[Condition], codec: RowCodec) -> bool:
    """Tell whether the conditions list all keys that can match, and not too many."""
    if len(leading) < len(codec.key_columns) or not leading[-1].is_points:
        return False
    return math.prod(map(_count, leading)) <= MAX_POINTS


def _count(part: Condition) -> int:
    return len(part.intervals) + part.nulls


def _without(condition: Filter, done: Sequence[Condition]) -> Filter:
    names = {part.column for part in done}
    return Filter(tuple(part for part in condition.conditions if part.column not in names))


# --- whole keys -------------------------------------------------------------------------------------------------------


def _points(leading: Sequence[Condition], codec: RowCodec) -> tuple[bytes, ...]:
    if codec.key_format != "tuple":  # such keys are never null, and no key is empty
        return tuple(start for start, _ in leading[0].intervals if start)
    return tuple(_products(leading))


def _enclosing(points: Sequence[bytes]) -> tuple[KeyRange, ...]:
    if len(points) <= MAX_RANGES:
        return tuple(map(point_range, points))
    return (KeyRange(points[0], point_range(points[-1]).end),)


def _products(leading: Sequence[Condition]) -> list[bytes]:
    """Return the tuples of all combinations of the values that conditions list, ascending."""
    elements = [_elements(part) for part in leading]
    return [b"".join(parts) for parts in itertools.product(*elements)]


def _elements(part: Condition) -> list[bytes]:
    """Return the values that a condition lists as elements of a tuple, ascending; nulls are first."""
    values = _encoded([start for start, _ in part.intervals], part.kind)
    return [_NULL, *values] if part.nulls else values


# --- ranges -----------------------------------------------------------------------------------------------------------


def _plan_bytes(condition: Filter, part: Condition) -> KeyPlan:
    """Plan keys that are the bytes of one column."""
    intervals, is_exact = _few(join_touching(part.intervals), MAX_RANGES)
    ranges = tuple(KeyRange(start, end) for start, end in intervals)
    return KeyPlan(ranges, None, _without(condition, [part] if is_exact else []))


def _plan_tuples(condition: Filter, leading: list[Condition]) -> KeyPlan:
    while len(leading) > 1 and math.prod(map(_count, leading[:-1])) > MAX_RANGES:
        leading.pop()
    *fixed, last = leading
    prefixes = _products(fixed)
    intervals, is_exact = _few(join_touching(last.intervals), MAX_RANGES // len(prefixes) - last.nulls)
    spans = _spans(Condition(last.column, last.kind, intervals, last.nulls))
    ranges = tuple(KeyRange(prefix + start, prefix + end) for prefix in prefixes for start, end in spans)
    return KeyPlan(ranges, None, _without(condition, leading if is_exact else fixed))


def _few(intervals: Intervals, most: int) -> tuple[Intervals, bool]:
    """Return the intervals if they are few enough, else one around them; and whether they are what they were."""
    if len(intervals) <= max(most, 1):
        return intervals, True
    return ((intervals[0][0], intervals[-1][1]),), False


def _spans(part: Condition) -> list[tuple[bytes, bytes]]:
    """Return what a condition allows as ranges of elements of a tuple, ascending."""
    spans = [(_NULL, _NULL + _AFTER)] if part.nulls else []
    if flat_kind(part.kind) is None:  # a struct, there or not
        return [*spans, *((_STRUCT, _STRUCT + _AFTER) for _ in part.intervals)]
    starts = _encoded([start for start, _ in part.intervals], part.kind)
    if has_bytes(part.kind):
        unbounded = _AFTER_STRING if pa.types.is_string(part.kind) else _STRING  # bytes may begin with 0xFF
        known = iter(_encoded([end for _, end in part.intervals if end is not None], part.kind))
        ends = [unbounded if end is None else next(known) for _, end in part.intervals]
    else:
        ends = [last + _AFTER for last in _encoded([end - 1 for _, end in part.intervals], part.kind)]
    return [*spans, *zip(starts, ends, strict=True)]


def _encoded(values: list[Any], kind: pa.DataType) -> list[bytes]:
    """Return ordinals of a flat type as elements of a tuple."""
    if not values:
        return []
    if has_bytes(kind):  # not by way of an array: a bound may end within a letter
        mark = _STRING if pa.types.is_string(kind) else _BINARY
        return [mark + item.replace(b"\0", b"\0\xff") + b"\0" for item in values]
    from slatespark.encoding.tuple_key import encode_tuple_keys

    data, offsets = encode_tuple_keys([array_of(values, kind)])
    whole, reach = data.tobytes(), offsets.tolist()
    return [whole[start:end] for start, end in itertools.pairwise(reach)]
