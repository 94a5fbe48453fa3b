"""Comparisons bound to the columns of a table: the column gives each literal its type, as in Spark."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from slatespark.encoding.predicates import operators
from slatespark.encoding.predicates.coercion import compares_as_double, equal_ordinals
from slatespark.encoding.predicates.grammar import Comparison, RowComparison
from slatespark.encoding.predicates.intervals import Interval, Intervals, complement, intersect, parts_within, union
from slatespark.encoding.predicates.literals import NULL
from slatespark.encoding.predicates.ordering import has_bytes, universe
from slatespark.encoding.predicates.row_filter import Condition, Filter, RowSet
from slatespark.encoding.predicates.source_span import filter_error
from slatespark.encoding.type_names import sql_type
from slatespark.ranges import prefix_range
from slatespark.texts import listed

_Passing = tuple[Intervals, bool]  # the values that pass, and whether null passes


def bind_filter(comparisons: Sequence[Comparison | RowComparison], schema: pa.Schema) -> Filter:
    """Return the comparisons as a filter on the columns of a schema.

    Parameters
    ----------
    comparisons : what `parse_filter` returned
    schema : schema with canonical types; names are matched regardless of case

    Raises
    ------
    OptionError
        When a column does not exist (with the nearest name), or a literal does not fit its column.
    """
    found: dict[str, _Passing] = {}
    for comparison in _of_columns(comparisons):
        field = _resolve_column(comparison, schema)
        passes, nulls = _passing(comparison, field)
        if field.name in found:
            before, null_before = found[field.name]
            passes, nulls = intersect(before, passes), nulls and null_before
        found[field.name] = passes, nulls
    conditions = tuple(Condition(name, schema.field(name).type, *passing) for name, passing in found.items())
    rows = [item for item in comparisons if isinstance(item, RowComparison)]
    return Filter(conditions, tuple(_bind_rows(item, schema, found) for item in rows))


def _of_columns(comparisons: Sequence[Comparison | RowComparison]) -> Iterator[Comparison]:
    """Yield what is said of each column by itself."""
    for item in comparisons:
        if isinstance(item, RowComparison):
            yield from item.comparisons
        else:
            yield item


def _bind_rows(rows: RowComparison, schema: pa.Schema, passing: Mapping[str, _Passing]) -> RowSet:
    """Return the rows of literals that the conditions on single columns let pass; one with NULL equals nothing."""
    fields = [_resolve_column(comparison, schema) for comparison in rows.comparisons]
    names = [field.name for field in fields]
    if twice := [name for name in names if names.count(name) > 1]:
        raise filter_error(f"column {twice[0]} is twice in a row", rows.span, todo="Name each column once.")
    values = [_equal_ordinals(part, field) for part, field in zip(rows.comparisons, fields, strict=True)]
    kept: dict[tuple[Interval, ...], None] = {}
    for row in dict.fromkeys(zip(*values, strict=True)):
        parts = [
            () if item is None else parts_within(passing[name][0], item) for item, name in zip(row, names, strict=True)
        ]
        kept.update(dict.fromkeys(itertools.product(*parts)))
    return RowSet(tuple(names), tuple(field.type for field in fields), tuple(kept))


def _resolve_column(comparison: Comparison, schema: pa.Schema) -> pa.Field:
    by_name = {name.lower(): name for name in schema.names}
    name = by_name.get(comparison.column.lower())
    if name is not None:
        return schema.field(name)
    near = difflib.get_close_matches(comparison.column.lower(), by_name, n=1, cutoff=0.5)
    todo = f"Did you mean {by_name[near[0]]}?" if near else f"Columns: {listed(schema.names)}."
    raise filter_error(f"there is no column {comparison.column!r}", comparison.span, todo=todo)


def _passing(comparison: Comparison, field: pa.Field) -> _Passing:
    """Return the values for which a comparison is true."""
    whole = universe(field.type)
    operator = comparison.operator
    if operator == operators.IS_NULL:
        return (), True
    if operator == operators.IS_NOT_NULL:
        return (whole,), False
    if operator in (operators.STARTS_WITH, operators.LIKE_EXACT):
        return _like_intervals(comparison, field), False
    equal = _equal_ordinals(comparison, field)
    known = [item for item in equal if item is not None]
    if None in equal:
        return _passing_null(operator, known)
    return _INTERVALS_OF[operator](known, whole), False


def _equal_ordinals(comparison: Comparison, field: pa.Field) -> list[Interval | None]:
    """Return the ordinals equal to each literal, None for NULL."""
    is_list = comparison.operator in (operators.IN, operators.NOT_IN)
    as_double = is_list and compares_as_double(comparison.literals, field)
    return [
        None if literal.kind == NULL else equal_ordinals(literal, field, as_double=as_double)
        for literal in comparison.literals
    ]


def _passing_null(operator: str, known: list[Interval]) -> _Passing:
    """Return the values for which a comparison with NULL is true: IN may match other literals, others never match."""
    if operator == operators.NULL_SAFE_EQ:
        return (), True
    return (union(known) if operator == operators.IN else ()), False


_INTERVALS_OF: Final[dict[str, Callable[[list[Interval], Interval], Intervals]]] = {
    operators.EQ: lambda equal, _: union(equal),
    operators.NULL_SAFE_EQ: lambda equal, _: union(equal),
    operators.NE: lambda equal, whole: complement(union(equal), whole),
    operators.LT: lambda equal, whole: union([(whole[0], equal[0][0])]),
    operators.LE: lambda equal, whole: union([(whole[0], equal[0][1])]),
    operators.GT: lambda equal, whole: union([(equal[0][1], whole[1])]),
    operators.GE: lambda equal, whole: union([(equal[0][0], whole[1])]),
    operators.IN: lambda equal, _: union(equal),
    operators.NOT_IN: lambda equal, whole: complement(union(equal), whole),
    operators.BETWEEN: lambda equal, _: union([(equal[0][0], equal[1][1])]),
}


def _like_intervals(comparison: Comparison, field: pa.Field) -> Intervals:
    literal = comparison.literals[0]
    if not has_bytes(field.type):
        raise filter_error(
            f"LIKE needs a STRING or BINARY column, and {field.name} is {sql_type(field)}",
            literal.span,
            todo="Compare with = or BETWEEN.",
        )
    text: bytes = literal.value.encode()
    if comparison.operator == operators.LIKE_EXACT:
        return ((text, text + b"\0"),)
    prefix = prefix_range(text)
    return ((prefix.start, prefix.end),)
