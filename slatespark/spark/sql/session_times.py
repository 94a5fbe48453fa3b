"""Conditions on keys that are not expressions of Spark: their times as the session reads them, instead of as UTC.

`REPLACE WHERE` and the `WHERE` of `OPTIMIZE` are read as the options of the same meaning, in which times without an
offset are UTC. Everything else in a statement is read by Spark, in the time zone of the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slatespark.encoding.predicates import Comparison, Literal, bind_filter, parse_alternatives
from slatespark.encoding.predicates.literals import DATE, STRING, TIMESTAMP
from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.errors import OptionError
from slatespark.spark.expressions.conditions import is_in_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMES = (DATE, STRING, TIMESTAMP)


def in_session_zone(condition: str, schema: pa.Schema, spark: SparkSession, *, name: str) -> str:
    """Return a condition in which every instant has an offset: the one that Spark finds for it in this session.

    Parameters
    ----------
    condition : condition in the grammar of `replaceWhere`
    schema : the columns that may be named
    name : the name of the clause, for messages

    Raises
    ------
    OptionError
        When the condition cannot be parsed or bound, or compares an instant with a column that has no time zone.
    """
    if is_in_utc(spark):
        return condition
    spans = find_instants(condition, schema, name=name)
    if not spans:
        return condition
    texts = [condition[span.start : span.end] for span in spans]
    asked = ", ".join(f"unix_micros(CAST({text} AS TIMESTAMP_LTZ))" for text in texts)
    found = spark.sql(f"SELECT {asked}").collect()[0]
    return with_instants(condition, dict(zip(spans, found, strict=True)))


def find_instants(condition: str, schema: pa.Schema, *, name: str) -> list[SourceSpan]:
    """Return where a condition has literals that are compared with a column of type TIMESTAMP, ascending."""
    found: dict[int, SourceSpan] = {}
    for alternative in parse_alternatives(condition, name=name):
        bind_filter(alternative, schema)  # refuses literals that are not times before Spark sees them
        parts = [one for item in alternative for one in ([item] if isinstance(item, Comparison) else item.comparisons)]
        for part in parts:
            found.update((span.start, span) for span in _instants(part, schema))
    return [found[start] for start in sorted(found)]


def with_instants(condition: str, instants: Mapping[SourceSpan, int | None]) -> str:
    """Return a condition with literals replaced by instants, in microseconds since 1970, ascending by place."""
    pieces, at = list[str](), 0
    for span, micros in instants.items():
        if micros is None:
            raise filter_error("this is not a timestamp", span, todo="Write it like '2026-01-31 12:00:00'.")
        pieces += [condition[at : span.start], f"TIMESTAMP '{np.datetime64(micros, 'us')}Z'"]
        at = span.end
    return "".join([*pieces, condition[at:]])


def _instants(part: Comparison, schema: pa.Schema) -> Iterator[SourceSpan]:
    """Yield the literals of a comparison that depend on the time zone; refuse those of a column that has none."""
    kind = next(field.type for field in schema if field.name.lower() == part.column.lower())
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return
    for literal in part.literals:
        if literal.span is None or literal.kind not in _TIMES:
            continue
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            yield literal.span
        elif _is_instant(literal):
            raise _without_zone(literal.span, part.column, is_date=pa.types.is_date(kind))


def _is_instant(literal: Literal) -> bool:
    span = literal.span
    return span is not None and literal.kind == TIMESTAMP and "_NTZ" not in span.text[span.start : span.end].upper()


def _without_zone(span: SourceSpan, column: str, *, is_date: bool) -> OptionError:
    return filter_error(
        f"column {column} has no time zone, so this instant is another value in every session",
        span,
        todo=f"Write {'DATE' if is_date else 'TIMESTAMP_NTZ'} '...'.",
    )
