"""MERGE INTO, UPDATE and DELETE FROM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from slatespark.errors import OptionError
from slatespark.spark.frame_columns import quoted_if_needed
from slatespark.spark.merge.builder import SlateMergeBuilder
from slatespark.spark.slate_table import SlateTable
from slatespark.spark.slate_table.base import frames_of
from slatespark.spark.sql.own_state import OwnState
from slatespark.spark.sql.queries import run_query
from slatespark.spark.sql.statement import Statement, enclosed
from slatespark.spark.sql.tables import Catalog

Assignments: TypeAlias = dict[str, str]


def update(statement: Statement, table: SlateTable) -> None:
    """Run the rest of `UPDATE table`: `[AS alias] SET column = value, ... [WHERE condition]`."""
    table = _aliased(statement, table)
    statement.expect("SET")
    assigned = _assignments(statement, "WHERE")
    condition = _where(statement)
    statement.end()
    table.update(condition, assigned)


def delete(statement: Statement, table: SlateTable) -> None:
    """Run the rest of `DELETE FROM table`: `[AS alias] [WHERE condition]`."""
    table = _aliased(statement, table)
    condition = _where(statement)
    statement.end()
    table.delete(condition)


def merge(statement: Statement, table: SlateTable, catalog: Catalog, *, evolves: bool) -> None:
    """Run the rest of `MERGE INTO table`: `[AS alias] USING source ON condition WHEN ...`.

    Parameters
    ----------
    catalog : the catalog of the tables that the source names
    evolves : whether the statement says WITH SCHEMA EVOLUTION

    Raises
    ------
    TransactionConflictError
        When another commit changed keys that the merge depends on: all keys, if the source reads the newest state of
        the table itself.
    """
    table = _aliased(statement, table)
    statement.expect("USING")
    text, alias = _source(statement)
    statement.expect("ON")
    condition = statement.expression_until("WHEN", called="a condition")
    clauses: list[Callable[[SlateMergeBuilder], SlateMergeBuilder]] = []
    while statement.take("WHEN"):
        clauses.append(_clause(statement))
    statement.end()
    if not clauses:
        raise statement.error("expected WHEN MATCHED or WHEN NOT MATCHED")
    frames = frames_of(table)
    own = OwnState(frames)
    source = run_query(text, catalog, before_read=own.note)
    named = source if alias is None else source.alias(alias)
    builder = SlateMergeBuilder(frames, named, condition, source_reads=own.reads)
    if evolves:
        builder = builder.withSchemaEvolution()
    for add in clauses:
        builder = add(builder)
    builder.execute()


def _aliased(statement: Statement, table: SlateTable) -> SlateTable:
    alias = statement.alias()
    return table if alias is None else table.alias(alias)


def _where(statement: Statement) -> str | None:
    return statement.expression_until(called="a condition") if statement.take("WHERE") else None


def _source(statement: Statement) -> tuple[str, str | None]:
    """Return the query of the source, and its alias: by default the name of the table, as in Spark."""
    if statement.next.is_sign("("):
        return statement.text_in_parentheses("a query"), statement.alias()
    start = statement.next.span.start
    name = statement.dotted_name()
    named = statement.text[start : statement.next.span.start]
    if statement.next.is_word("VERSION", "TIMESTAMP", "FOR"):
        raise statement.error("expected ON or an alias", todo="Put the source in parentheses: (SELECT * FROM ...).")
    return f"SELECT * FROM {named}", statement.alias() or name[-1]


def _clause(statement: Statement) -> Callable[[SlateMergeBuilder], SlateMergeBuilder]:
    """Read `[NOT] MATCHED [BY ...] [AND condition] THEN action`; return what adds it to a merge."""
    is_matched = not statement.take("NOT")
    statement.expect("MATCHED")
    by_source = not is_matched and statement.take("BY", "SOURCE")
    if not is_matched and not by_source:
        statement.take("BY", "TARGET")
    condition = statement.expression_until("THEN", called="a condition") if statement.take("AND") else None
    statement.expect("THEN")
    if is_matched:
        return _matched(statement, condition)
    return _by_source(statement, condition) if by_source else _not_matched(statement, condition)


def _matched(statement: Statement, condition: str | None) -> Callable[[SlateMergeBuilder], SlateMergeBuilder]:
    if statement.take("DELETE"):
        return lambda merge: merge.whenMatchedDelete(condition)
    statement.expect("UPDATE")
    statement.expect("SET")
    if statement.take_sign("*"):
        return lambda merge: merge.whenMatchedUpdateAll(condition)
    assigned = _assignments(statement, "WHEN")
    return lambda merge: merge.whenMatchedUpdate(condition, assigned)


def _by_source(statement: Statement, condition: str | None) -> Callable[[SlateMergeBuilder], SlateMergeBuilder]:
    if statement.take("DELETE"):
        return lambda merge: merge.whenNotMatchedBySourceDelete(condition)
    statement.expect("UPDATE")
    statement.expect("SET")
    assigned = _assignments(statement, "WHEN")
    return lambda merge: merge.whenNotMatchedBySourceUpdate(condition, assigned)


def _not_matched(statement: Statement, condition: str | None) -> Callable[[SlateMergeBuilder], SlateMergeBuilder]:
    statement.expect("INSERT")
    if statement.take_sign("*"):
        return lambda merge: merge.whenNotMatchedInsertAll(condition)
    columns = statement.list_in_parentheses("a column")
    statement.expect("VALUES")
    at = statement.next
    values = statement.list_in_parentheses("a value")
    if len(values) != len(columns):
        raise statement.error(f"expected {len(columns)} values, found {len(values)}", at=at)
    assigned: Assignments = {}
    for column, value in zip(columns, values, strict=True):
        _assign(assigned, _dotted(_column(column)), enclosed(value))
    return lambda merge: merge.whenNotMatchedInsert(condition, assigned)


def _column(text: str) -> tuple[str, ...]:
    name = Statement(text)
    parts = name.dotted_name()
    name.end()
    return parts


def _dotted(parts: Sequence[str]) -> str:
    return ".".join(map(quoted_if_needed, parts))


def _assignments(statement: Statement, *ends: str) -> Assignments:
    assigned: Assignments = {}
    while True:
        column = _dotted(statement.dotted_name())
        statement.expect_sign("=")
        _assign(assigned, column, statement.expression_until(*ends, sign=",", called="a value"))
        if not statement.take_sign(","):
            return assigned


def _assign(assigned: Assignments, column: str, value: str) -> None:
    if column.lower() in {name.lower() for name in assigned}:
        raise OptionError(f"sql: column {column} is set twice.", todo="Set it once.")
    if value.upper() == "DEFAULT":
        raise OptionError(f"sql: {column} = DEFAULT is not supported.", why="Columns have no defaults.")
    assigned[column] = value
