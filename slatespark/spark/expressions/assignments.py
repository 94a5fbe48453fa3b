"""Assignments, `{column: expression}`, of an update and of a merge's clauses: names, and values of a column's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType, StructType

from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.spark.expressions.nested_fields import FieldPath, resolve_path, split_path, with_fields
from slatespark.spark.expressions.stored_values import GivenValue, fit_values, sql_string
from slatespark.spark.frame_columns import dotted, quoted
from slatespark.texts import listed

Expression: TypeAlias = Column | str


def expression(given: Expression) -> Column:
    """Return a Column; SQL text is parsed. Raises `InvalidRequestError` for anything else."""
    require_expression(given)
    return F.expr(given) if isinstance(given, str) else given


def require_expression(given: object) -> None:
    """Raise `InvalidRequestError` for a condition or value that is not an expression."""
    if not isinstance(given, str | Column):
        raise InvalidRequestError(
            f"{given!r} is not an expression.",
            why=f"It is of the type {type(given).__name__}.",
            todo="Give SQL text such as 't.id = 1', or a Column; lit(...) makes one of a value.",
        )


def checked(assigned: Mapping[str, Expression] | None, method: str, argument: str) -> Mapping[str, Expression]:
    """Return the assignments of a method; refuse none, names that are not text, and values that are not expressions."""
    if not assigned:
        raise InvalidRequestError(f"{method} sets nothing.", todo=f"Give {argument}={{'column': expression}}.")
    if not isinstance(assigned, Mapping):
        raise InvalidRequestError(
            f"{method}: {argument} is of the type {type(assigned).__name__}.",
            why="It maps names of columns to expressions, and comes after the condition.",
            todo=f"Give {argument}={{'column': expression}}.",
        )
    for name, value in assigned.items():
        if not isinstance(name, str):
            raise InvalidRequestError(
                f"{method}: {argument} names a column by {name!r}, of the type {type(name).__name__}.",
                todo="Give the name of each column as text.",
            )
        if not isinstance(value, str | Column):
            raise InvalidRequestError(
                f"{method} sets column {name} to {value!r}, which is not an expression.",
                todo="Give SQL text or a Column; lit(...) makes one of a value.",
            )
    return dict(assigned)


def resolve_names(
    assigned: Mapping[str, Expression],
    columns: Sequence[str],
    alias: str | None,
    *,
    called: str,
    types: Mapping[str, DataType] | None = None,
    scope: str | None = None,
) -> dict[str, Expression]:
    """Return assignments by the names of columns as the table spells them.

    Parameters
    ----------
    alias : the alias of the table; None without one
    called : what assigns, for messages
    types : types of the columns, where fields of structs may be set by themselves
    scope : the name of the rows that have these structs, where it is not the alias
    """
    found: dict[str, Expression] = {}
    fields: dict[str, dict[FieldPath, Expression]] = {}
    for given, value in assigned.items():
        name, path = _target(given, columns, alias, types or {}, called)
        if name in found or any(_overlap(path, other) for other in fields.get(name, {})):
            raise SchemaError(f"{called} sets {'.'.join([name, *path])} twice.", todo="Set it once.")
        if path:
            fields.setdefault(name, {})[path] = value
        else:
            found[name] = value
    for name, values in fields.items():
        kind = (types or {})[name]
        assert isinstance(kind, StructType)  # it has these fields
        struct = F.col(dotted(part for part in (scope or alias, name) if part is not None))
        found[name] = with_fields(struct, kind, {path: expression(value) for path, value in values.items()})
    return found


def _overlap(path: FieldPath, other: FieldPath) -> bool:
    """Tell whether one of two parts of a column is in the other."""
    return path[: len(other)] == other[: len(path)]


def unchanged_key(key: str, given: str, name: str, *, called: str, takes_all: bool = False) -> str:
    """Return the SQL text of a key column that an update sets; the job fails where that would change it.

    Parameters
    ----------
    key, given : texts of the key that a row has, and of what it would get, in the type of the column
    takes_all : whether the update takes every column from the source, without naming them
    """
    message = (
        f"InvalidRequestError: {called}All would give a row another value in key column {name}. "
        "Match rows by all key columns, or name the columns to set."
        if takes_all
        else f"InvalidRequestError: {called} sets key column {name} to another value. The key of a row cannot change. "
        "Leave the column out, as the key stays, or delete the row and insert the new one."
    )
    return f"CASE WHEN {key} <=> {given} THEN {key} ELSE raise_error({sql_string(message)}) END"


def updated_rows(rows: DataFrame, assigned: Mapping[str, Expression], key_columns: Sequence[str]) -> DataFrame:
    """Return rows with new values of the assigned columns; expressions see the old ones.

    The job fails where a key would change. Raises Spark's error for a generator, such as `explode`: it would make any
    number of rows of one, with the same key.
    """
    types = {field.name: field.dataType for field in rows.schema.fields}
    indices = {name: index for index, name in enumerate(assigned)}
    given = rows.select(
        "*",
        *[_one_value(value).alias(_value(indices[name])) for name, value in assigned.items()],
        *[F.col(quoted(name)).alias(_key(indices[name])) for name in assigned if name in key_columns],
    )
    kinds = {field.name: field.dataType for field in given.schema.fields[len(types) :]}
    values = {name: GivenValue(_value(index), kinds[_value(index)]) for name, index in indices.items()}
    texts = fit_values(values, types, called="update")
    for name in set(texts) & set(key_columns):
        texts[name] = unchanged_key(_key(indices[name]), texts[name], name, called="update")
    columns = {name: F.expr(texts[name]) if name in texts else F.col(quoted(name)) for name in types}
    return given.select(*[column.alias(name) for name, column in columns.items()])


def _one_value(given: Expression) -> Column:
    """Return a value for each row; Spark takes no generator within an expression."""
    return F.when(F.lit(True), expression(given))


def _value(index: int) -> str:
    return f"__slate_value_{index}"


def _key(index: int) -> str:
    return f"__slate_key_{index}"


def _target(
    given: str, columns: Sequence[str], alias: str | None, types: Mapping[str, DataType], called: str
) -> tuple[str, FieldPath]:
    """Return the table's column for a name, which may be in backticks and qualified by the table's alias.

    And the path of a field in it, empty for the column itself.
    """
    by_name = {column.lower(): column for column in columns}
    parts = split_path(given)
    is_qualified = alias is not None and len(parts) > 1 and parts[0].lower() == alias.lower()
    error: SchemaError | None = None
    for first, *fields in [parts[1:], parts] if is_qualified else [parts]:  # as Spark reads names elsewhere
        column = by_name.get(first.lower())
        if column is not None and not fields:
            return column, ()
        if column is not None and column in types:
            try:
                return column, resolve_path(types[column], fields, where=f"{called} sets {given}")
            except SchemaError as exc:
                error = error or exc
    plain = [given, given[len(alias) + 1 :]] if is_qualified and alias is not None else [given]
    if found := [by_name[name.lower()] for name in plain if name.lower() in by_name]:  # dots, but no backticks
        return found[0], ()
    raise error or SchemaError(
        f"{called} sets column {given}, which the table does not have.", todo=f"Its columns are {listed(columns)}."
    )
