"""INSERT INTO and INSERT OVERWRITE: rows of a query are upserted, or replace the table or a range of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark.errors import SchemaError
from slatespark.spark.expressions.assignments import resolve_names
from slatespark.spark.expressions.stored_values import GivenValue, fit_values
from slatespark.spark.slate_table import SlateTable
from slatespark.spark.slate_table.base import frames_of
from slatespark.spark.sql.own_state import OwnState
from slatespark.spark.sql.queries import run_query
from slatespark.spark.sql.session_times import in_session_zone
from slatespark.spark.sql.statement import QUERY_BEGINS, Statement
from slatespark.spark.sql.tables import Catalog
from slatespark.spark.type_mapping import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CALLED = "INSERT"


def insert(statement: Statement, table: SlateTable, catalog: Catalog, *, overwrite: bool, tables: str = "") -> None:
    """Run the rest of `INSERT INTO table`: `[(column, ...) | BY NAME] [REPLACE WHERE condition] query`.

    Parameters
    ----------
    catalog : the catalog of the tables that the query names
    overwrite : whether the statement says OVERWRITE
    tables : the `WITH name AS (...)` before the statement

    Raises
    ------
    TransactionConflictError
        When the query reads the newest state of the table itself, and another commit changed it meanwhile.
    """
    columns = None if statement.opens_query() else _columns(statement)
    by_name = columns is None and statement.take("BY", "NAME")
    condition = None
    if not overwrite and statement.take("REPLACE", "WHERE"):
        condition = statement.text_until(*QUERY_BEGINS, called="a condition")
    if not statement.opens_query():
        raise statement.error("expected a query")
    if tables and statement.next.is_word("WITH"):
        raise statement.error("there is a WITH before the INSERT too", todo="Put all names into one of them.")
    text = tables + statement.text_until(called="a query")
    statement.end()
    frames = frames_of(table)
    own = OwnState(frames)
    rows = run_query(text, catalog, before_read=own.note)
    stored = frames.codec().schema
    if condition is not None:
        condition = in_session_zone(condition, stored, rows.sparkSession, name="replaceWhere")
    schema = spark_schema(stored)
    named = rows.columns if by_name else columns or schema.names
    mode = "overwrite" if overwrite or condition is not None else "append"
    frames.load(_fitted(rows, named, schema), mode, {"replaceWhere": condition, **own.write_options()})


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
            todo=f"Select {', '.join(named)}, in this order, or name columns after the table.",
        )
    indices = [f"c{index}" for index in range(len(named))]
    numbered = rows.toDF(*indices)
    if len({name.lower() for name in named}) < len(named):
        raise SchemaError(f"{_CALLED} names a column twice.", todo="Name it once.")
    given = resolve_names(dict(zip(named, indices, strict=True)), schema.names, None, called=_CALLED)
    kinds = {field.name: field.dataType for field in numbered.schema.fields}
    values = {name: GivenValue(str(index), kinds[str(index)]) for name, index in given.items()}
    types = {field.name: field.dataType for field in schema.fields}
    fitted = {name: F.expr(text) for name, text in fit_values(values, types, called=_CALLED).items()}
    empty = {name: F.lit(None).cast(kind) for name, kind in types.items() if name not in fitted}
    return numbered.select(*[(fitted | empty)[name].alias(name) for name in types])
