"""INSERT INTO and INSERT OVERWRITE: rows of a query are upserted, or replace the table or a range of its keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark.errors import SchemaError
from slatespark.spark.assignments import fit_values, resolve_names
from slatespark.spark.slate_table import SlateTable
from slatespark.spark.sql.session_times import in_session_zone
from slatespark.spark.sql.statement import QUERY_BEGINS, Statement
from slatespark.spark.type_mapping import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CALLED = "INSERT"


def insert(statement: Statement, table: SlateTable, query: Callable[[str], DataFrame], *, overwrite: bool) -> None:
    """Run the rest of `INSERT INTO table`: `[(column, ...) | BY NAME] [REPLACE WHERE condition] query`.

    Parameters
    ----------
    query : returns the rows of a query
    overwrite : whether the statement says OVERWRITE
    """
    columns = None if statement.opens_query() else _columns(statement)
    by_name = columns is None and statement.take("BY", "NAME")
    condition = None
    if not overwrite and statement.take("REPLACE", "WHERE"):
        condition = statement.text_until(*QUERY_BEGINS, called="a condition")
    if not statement.opens_query():
        raise statement.error("expected a query")
    text = statement.text_until(called="a query")
    statement.end()
    rows = query(text)
    schema = table.toDF().schema
    if condition is not None:
        condition = in_session_zone(condition, arrow_schema(schema), rows.sparkSession, name="replaceWhere")
    named = rows.columns if by_name else columns or schema.names
    fitted = _fitted(rows, named, schema)
    if overwrite:
        table.write(fitted, mode="overwrite")
    elif condition is not None:
        table.write(fitted, mode="overwrite", replaceWhere=condition)
    else:
        table.write(fitted)


def _columns(statement: Statement) -> list[str] | None:
    """Read `(column, ...)` if it comes next."""
    if not statement.take_sign("("):
        return None
    found = [statement.name()]
    while statement.take_sign(","):
        found.append(statement.name())
    statement.expect_sign(")")
    return found


def _fitted(rows: DataFrame, named: Sequence[str], schema: StructType) -> DataFrame:
    """Return rows with all columns of a table, null where they have none, in its types.

    Parameters
    ----------
    named : the table's column for each column of the rows
    """
    if len(rows.columns) != len(named):
        raise SchemaError(
            f"{_CALLED}: the query has {len(rows.columns)} columns, expected {len(named)}.",
            todo=f"Select {', '.join(named)}, in this order, or name columns behind the table.",
        )
    places = [f"c{place}" for place in range(len(named))]
    numbered = rows.toDF(*places)
    if len({name.lower() for name in named}) < len(named):
        raise SchemaError(f"{_CALLED} names a column twice.", todo="Name it once.")
    given = resolve_names(dict(zip(named, places, strict=True)), schema.names, None, called=_CALLED)
    values = {name: F.col(str(place)) for name, place in given.items()}
    types = {field.name: field.dataType for field in schema.fields}
    fitted = fit_values(numbered, values, types, called=_CALLED)
    empty = {name: F.lit(None).cast(kind) for name, kind in types.items() if name not in fitted}
    return numbered.select(*[(fitted | empty)[name].alias(name) for name in types])
