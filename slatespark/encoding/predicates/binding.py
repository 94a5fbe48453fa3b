"""Comparisons bound to the columns of a table: each literal typed by its column, as Spark does it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from slatespark.encoding.predicates import grammar as does
from slatespark.encoding.predicates.coercion import check_list, span
from slatespark.encoding.predicates.grammar import Comparison
from slatespark.encoding.predicates.intervals import Interval, Intervals, complement, intersect, unite
from slatespark.encoding.predicates.literals import NULL
from slatespark.encoding.predicates.ordering import has_bytes, universe
from slatespark.encoding.predicates.place import filter_error
from slatespark.encoding.predicates.row_filter import Condition, Filter
from slatespark.encoding.type_names import sql_type
from slatespark.ranges import prefix_range

_Set = tuple[Intervals, bool]  # the values that pass, and whether null does


def bind_filter(comparisons: Sequence[Comparison], schema: pa.Schema) -> Filter:
    """Return the filter that the comparisons are on the columns of a schema.

    Parameters
    ----------
    comparisons : `parse_filter`
    schema : of canonical types; names are found whatever their case

    Raises
    ------
    OptionError
        When a column does not exist (naming the nearest), or a literal does not fit its column.
    """
    found: dict[str, _Set] = {}
    for comparison in comparisons:
        field = _resolve_column(comparison, schema)
        passes, nulls = _passing(comparison, field)
        if field.name in found:
            before, null_before = found[field.name]
            passes, nulls = intersect(before, passes), nulls and null_before
        found[field.name] = passes, nulls
    return Filter(tuple(Condition(name, schema.field(name).type, *passing) for name, passing in found.items()))


def _resolve_column(comparison: Comparison, schema: pa.Schema) -> pa.Field:
    by_name = {name.lower(): name for name in schema.names}
    name = by_name.get(comparison.column.lower())
    if name is not None:
        return schema.field(name)
    near = difflib.get_close_matches(comparison.column.lower(), by_name, n=1, cutoff=0.5)
    todo = f"Did you mean {by_name[near[0]]}?" if near else f"Columns: {', '.join(schema.names)}."
    raise filter_error(f"there is no column {comparison.column!r}", comparison.place, todo=todo)


def _passing(comparison: Comparison, field: pa.Field) -> _Set:
    """Return the values for which a comparison is true."""
    whole = universe(field.type)
    word = comparison.does
    if word == does.IS_NULL:
        return (), True
    if word == does.IS_NOT_NULL:
        return (whole,), False
    if word in (does.STARTS_WITH, does.LIKE_EXACTLY):
        return _matching(comparison, field), False
    spans = _spans(comparison, field)
    if None in spans:
        return _passing_null(word, [item for item in spans if item is not None])
    known = [item for item in spans if item is not None]
    return _SETS[word](known, whole), False


def _spans(comparison: Comparison, field: pa.Field) -> list[Interval | None]:
    """Return the ordinals that equal each literal, None for NULL."""
    is_list = comparison.does in (does.IN, does.NOT_IN)
    as_double = is_list and check_list(comparison.literals, field)
    return [
        None if literal.kind == NULL else span(literal, field, as_double=as_double) for literal in comparison.literals
    ]


def _passing_null(word: str, known: list[Interval]) -> _Set:
    """Return the values for which a comparison with NULL is true: IN still finds others, the rest is never true."""
    if word == does.SAME:
        return (), True
    return (unite(known) if word == does.IN else ()), False


_SETS: Final[dict[str, Callable[[list[Interval], Interval], Intervals]]] = {
    does.EQUAL: lambda at, _: unite(at),
    does.SAME: lambda at, _: unite(at),
    does.NOT_EQUAL: lambda at, whole: complement(unite(at), whole),
    does.LESS: lambda at, whole: unite([(whole[0], at[0][0])]),
    does.AT_MOST: lambda at, whole: unite([(whole[0], at[0][1])]),
    does.MORE: lambda at, whole: unite([(at[0][1], whole[1])]),
    does.AT_LEAST: lambda at, whole: unite([(at[0][0], whole[1])]),
    does.IN: lambda at, _: unite(at),
    does.NOT_IN: lambda at, whole: complement(unite(at), whole),
    does.BETWEEN: lambda at, _: unite([(at[0][0], at[1][1])]),
}


def _matching(comparison: Comparison, field: pa.Field) -> Intervals:
    literal = comparison.literals[0]
    if not has_bytes(field.type):
        raise filter_error(
            f"LIKE needs a STRING or BINARY column, {field.name} is {sql_type(field)}",
            literal.place,
            todo="Compare with = or BETWEEN.",
        )
    text: bytes = literal.value.encode()
    if comparison.does == does.LIKE_EXACTLY:
        return ((text, text + b"\0"),)
    prefix = prefix_range(text)
    return ((prefix.start, prefix.end),)
