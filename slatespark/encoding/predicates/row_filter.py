"""Filter: the rows that pass, tested on Arrow arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import flat_kind
from slatespark.encoding.predicates.intervals import Interval, Intervals, complement, is_single, join_touching
from slatespark.encoding.predicates.ordering import constant_ordinals, has_bytes, ordinals, universe
from slatespark.encoding.without_pandas import array_of, numpy_of

Mask = NDArray[np.bool_]

_MAX_LINEAR: Final = 4  # intervals; more are found by binary search


@dataclass(frozen=True, slots=True)
class Condition:
    """The values of one column that pass: all comparisons of the column combined.

    Attributes
    ----------
    column : name of the column in the schema
    kind : type of the column
    intervals : intervals of ordinals; see `ordering`
    nulls : whether null passes
    """

    column: str
    kind: pa.DataType
    intervals: Intervals
    nulls: bool = False

    @property
    def is_unsatisfiable(self) -> bool:
        """Whether no value passes."""
        return not self.intervals and not self.nulls

    @property
    def has_only_points(self) -> bool:
        """Whether every interval is a single value; null may pass as well."""
        return all(map(is_single, self.intervals))

    def mask(self, array: pa.Array) -> Mask:
        """Return for each value of the column whether it passes."""
        inside = _inside(array, self)  # undefined for nulls
        if not array.null_count:
            return inside
        valid = numpy_of(array.is_valid())
        passes: Mask = inside & valid
        return passes | ~valid if self.nulls else passes


@dataclass(frozen=True, slots=True)
class RowSet:
    """The combinations of values of several columns that pass.

    Attributes
    ----------
    columns : names of the columns in the schema
    kinds : types of the columns
    rows : for each combination, an interval of ordinals of each column; null is in none. Intervals of one column are
        equal or do not overlap
    """

    columns: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    rows: tuple[tuple[Interval, ...], ...]

    def mask(self, arrays: Mapping[str, pa.Array]) -> Mask:
        """Return for each row whether its combination passes."""
        if not self.rows:
            return np.zeros(len(arrays[self.columns[0]]), bool)
        # Column by column: `found` numbers the combinations of the columns so far, -1 if no wanted one begins so.
        found = np.zeros(len(arrays[self.columns[0]]), np.int64)
        wanted = np.zeros(len(self.rows), np.int64)
        for at, (column, kind) in enumerate(zip(self.columns, self.kinds, strict=True)):
            values = sorted({row[at] for row in self.rows})
            index_of = {item: index for index, item in enumerate(values)}
            both = wanted * len(index_of) + np.array([index_of[row[at]] for row in self.rows], np.int64)
            known, wanted = np.unique(both, return_inverse=True)
            indices = _indices(arrays[column], kind, values)
            pairs = found * len(index_of) + indices
            nearest = np.searchsorted(known, pairs).clip(max=len(known) - 1)
            found = np.where((found >= 0) & (indices >= 0) & (known[nearest] == pairs), nearest, -1)
        passes: Mask = found >= 0
        return passes


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of conditions, at most one for each column, and of sets of combinations.

    Attributes
    ----------
    conditions : conditions on single columns; they hold what `row_sets` say of each column by itself, too
    row_sets : sets of values of several columns
    """

    conditions: tuple[Condition, ...] = ()
    row_sets: tuple[RowSet, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there are any conditions."""
        return bool(self.conditions or self.row_sets)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `mask` needs."""
        single = (condition.column for condition in self.conditions)
        return tuple(dict.fromkeys([*single, *(name for rows in self.row_sets for name in rows.columns)]))

    @property
    def is_unsatisfiable(self) -> bool:
        """Whether no row can pass."""
        return any(part.is_unsatisfiable for part in self.conditions) or any(not part.rows for part in self.row_sets)

    def mask(self, arrays: Mapping[str, pa.Array]) -> Mask:
        """Return for each row whether the filter is true; null in SQL counts as false.

        Parameters
        ----------
        arrays : the columns of the filter by name, of equal length. Requires: at least one
        """
        single = (condition.mask(arrays[condition.column]) for condition in self.conditions)
        return functools.reduce(operator.and_, (*single, *(rows.mask(arrays) for rows in self.row_sets)))


def _indices(array: pa.Array, kind: pa.DataType, values: list[Interval]) -> NDArray[np.int64]:
    """Return for each value which of the intervals holds it, -1 for none and for null."""
    if has_bytes(kind):
        starts = array_of([start for start, _ in values], pa.binary())
        found = pc.index_in(array.cast(pa.binary()), value_set=starts)
        return numpy_of(found, -1).astype(np.int64)
    rows = ordinals(array)
    firsts = constant_ordinals([start for start, _ in values], kind)
    lasts = constant_ordinals([end - 1 for _, end in values], kind)
    nearest = np.searchsorted(firsts, rows, side="right") - 1
    is_inside = (nearest >= 0) & (rows <= lasts[nearest])
    if array.null_count:
        is_inside &= numpy_of(array.is_valid())
    return np.where(is_inside, nearest, -1)


def _inside(array: pa.Array, condition: Condition) -> Mask:
    """Return for each value whether it lies in the intervals; undefined for nulls."""
    intervals, whole = join_touching(condition.intervals), universe(condition.kind)
    if not intervals or intervals == (whole,):
        return np.full(len(array), bool(intervals))
    if has_bytes(condition.kind):
        return _bytes_inside(array.cast(pa.binary()), condition.intervals, whole)
    assert flat_kind(condition.kind) is not None  # nested types only have conditions on null
    values = ordinals(array)
    starts = constant_ordinals([start for start, _ in intervals], condition.kind)
    lasts = constant_ordinals([end - 1 for _, end in intervals], condition.kind)
    if len(intervals) <= _MAX_LINEAR:
        parts = ((values >= start) & (values <= last) for start, last in zip(starts, lasts, strict=True))
        return functools.reduce(operator.or_, parts)
    nearest = np.searchsorted(starts, values, side="right") - 1
    inside: Mask = (nearest >= 0) & (values <= lasts[nearest])
    return inside


def _bytes_inside(array: pa.Array, intervals: Intervals, whole: tuple[bytes, None]) -> Mask:
    outside = complement(intervals, whole)
    if sum(not is_single(item) for item in outside) < sum(not is_single(item) for item in intervals):
        return ~_bytes_in_intervals(array, outside)  # NOT IN: the complement lists single values
    return _bytes_in_intervals(array, intervals)


def _bytes_in_intervals(array: pa.Array, intervals: Intervals) -> Mask:
    parts = []
    points = [start for start, end in intervals if is_single((start, end))]
    if len(points) == 1:
        parts.append(pc.equal(array, _constant(points[0])))
    elif points:
        parts.append(pc.is_in(array, value_set=array_of(points, pa.binary())))
    for start, end in intervals:
        if is_single((start, end)):
            continue
        part = pc.greater_equal(array, _constant(start))
        if end is not None:
            part = pc.and_(part, pc.less(array, _constant(end)))
        parts.append(part)
    if not parts:
        return np.zeros(len(array), bool)
    whole = functools.reduce(pc.or_, parts)
    return numpy_of(whole, False)


def _constant(value: bytes) -> pa.Scalar:
    return array_of([value], pa.binary())[0]
