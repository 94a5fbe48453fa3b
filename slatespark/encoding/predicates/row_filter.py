"""Filter: the rows that pass, tested on Arrow arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import flat_kind
from slatespark.encoding.predicates.intervals import Interval, Intervals, complement, is_single, join_touching
from slatespark.encoding.predicates.ordering import constant_ordinals, has_bytes, ordinals, universe
from slatespark.encoding.without_pandas import array_of, numpy_of

Mask: TypeAlias = NDArray[np.bool_]
ValueTest: TypeAlias = Callable[[pa.Array], Mask]
RowTest: TypeAlias = Callable[[Mapping[str, pa.Array]], Mask]

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

    def test(self) -> ValueTest:
        """Return the test of an array of the column: whether each value passes. A long list is prepared once."""
        inside = _membership(self)

        def passes(array: pa.Array) -> Mask:
            found = inside(array)
            if not array.null_count:
                return found
            valid: Mask = numpy_of(array.is_valid())
            return found | ~valid if self.nulls else found & valid

        return passes


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

    def test(self) -> RowTest:
        """Return the test of columns by name: whether the combination of each row passes."""
        # Column by column: `wanted` numbers the combinations of the columns so far.
        wanted, steps = np.zeros(len(self.rows), np.int64), []
        for at, (column, kind) in enumerate(zip(self.columns, self.kinds, strict=True)):
            values = sorted({row[at] for row in self.rows})
            index_of = {item: index for index, item in enumerate(values)}
            both = wanted * len(index_of) + np.array([index_of[row[at]] for row in self.rows], np.int64)
            known, wanted = np.unique(both, return_inverse=True)
            steps.append((column, _numbering(kind, values), len(index_of), known))

        def passes(arrays: Mapping[str, pa.Array]) -> Mask:
            found = np.full(len(arrays[self.columns[0]]), 0 if self.rows else -1, np.int64)
            for column, number, count, known in steps if self.rows else ():
                indices = number(arrays[column])
                pairs = found * count + indices
                nearest = np.searchsorted(known, pairs).clip(max=len(known) - 1)
                found = np.where((found >= 0) & (indices >= 0) & (known[nearest] == pairs), nearest, -1)
            return found >= 0

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

    def test(self) -> RowTest:
        """Return the test of columns by name, of equal length: for each row whether the filter is true.

        Null in SQL counts as false. Requires: there are conditions.
        """
        tests = [
            *(_of_column(condition.column, condition.test()) for condition in self.conditions),
            *(rows.test() for rows in self.row_sets),
        ]
        return lambda arrays: functools.reduce(operator.and_, (test(arrays) for test in tests))

    def mask(self, arrays: Mapping[str, pa.Array]) -> Mask:
        """Return the outcome of `test` for columns; for many batches, keep the test."""
        return self.test()(arrays)


def _of_column(name: str, test: ValueTest) -> RowTest:
    return lambda arrays: test(arrays[name])


def _numbering(kind: pa.DataType, values: list[Interval]) -> Callable[[pa.Array], NDArray[np.int64]]:
    """Return what numbers each value of an array by the interval that holds it, -1 for none and for null."""
    if has_bytes(kind):
        starts = array_of([start for start, _ in values], pa.binary())
        return lambda array: numpy_of(pc.index_in(array.cast(pa.binary()), value_set=starts), -1).astype(np.int64)
    firsts = constant_ordinals([start for start, _ in values], kind)
    lasts = constant_ordinals([end - 1 for _, end in values], kind)

    def number(array: pa.Array) -> NDArray[np.int64]:
        rows = ordinals(array)
        nearest = np.searchsorted(firsts, rows, side="right") - 1
        is_inside = (nearest >= 0) & (rows <= lasts[nearest])
        if array.null_count:
            is_inside &= numpy_of(array.is_valid())
        return np.where(is_inside, nearest, -1)

    return number


def _membership(condition: Condition) -> ValueTest:
    """Return the test whether values lie in the intervals; undefined for nulls."""
    intervals, whole = join_touching(condition.intervals), universe(condition.kind)
    if not intervals or intervals == (whole,):
        return lambda array: np.full(len(array), bool(intervals))
    if has_bytes(condition.kind):
        return _bytes_membership(condition.intervals, whole)
    assert flat_kind(condition.kind) is not None  # nested types only have conditions on null
    starts = constant_ordinals([start for start, _ in intervals], condition.kind)
    lasts = constant_ordinals([end - 1 for _, end in intervals], condition.kind)

    def inside(array: pa.Array) -> Mask:
        values = ordinals(array)
        if len(intervals) <= _MAX_LINEAR:
            parts = ((values >= start) & (values <= last) for start, last in zip(starts, lasts, strict=True))
            return functools.reduce(operator.or_, parts)
        nearest = np.searchsorted(starts, values, side="right") - 1
        found: Mask = (nearest >= 0) & (values <= lasts[nearest])
        return found

    return inside


def _bytes_membership(intervals: Intervals, whole: tuple[bytes, None]) -> ValueTest:
    outside = complement(intervals, whole)
    if sum(not is_single(item) for item in outside) < sum(not is_single(item) for item in intervals):
        is_outside = _bytes_in_intervals(outside)  # NOT IN: the complement lists single values
        return lambda array: ~is_outside(array)
    return _bytes_in_intervals(intervals)


def _bytes_in_intervals(intervals: Intervals) -> ValueTest:
    points = array_of([start for start, end in intervals if is_single((start, end))], pa.binary())
    ranges = [
        (_constant(start), None if end is None else _constant(end))
        for start, end in intervals
        if not is_single((start, end))
    ]

    def inside(array: pa.Array) -> Mask:
        values, parts = array.cast(pa.binary()), []
        if len(points) == 1:
            parts.append(pc.equal(values, points[0]))
        elif len(points):
            parts.append(pc.is_in(values, value_set=points))
        for start, end in ranges:
            part = pc.greater_equal(values, start)
            parts.append(part if end is None else pc.and_(part, pc.less(values, end)))
        return numpy_of(functools.reduce(pc.or_, parts), False) if parts else np.zeros(len(array), bool)

    return inside


def _constant(value: bytes) -> pa.Scalar:
    return array_of([value], pa.binary())[0]
