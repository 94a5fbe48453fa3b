"""Creation and removal of a table, and the questions that come with it: is there one, and with these key columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from slatespark.display.progress import AskedProgress
from slatespark.errors import InvalidRequestError, OptionError, SchemaError, TableNotFoundError
from slatespark.slate_store import SlateStore
from slatespark.spark.frame_columns import split_names
from slatespark.spark.pyspark_api import parse_ddl
from slatespark.spark.slate_table.arguments import Names, PathArgument, path_text, store_arguments
from slatespark.spark.type_mapping import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slatespark.table.gc.drop_plan import DropReport


def create_table(
    spark: SparkSession,
    path: PathArgument,
    schema: StructType | str,
    key_columns: Names,
    properties: Mapping[str, Any],
) -> SlateStore:
    """Create an empty typed table and return it; see `SlateTable.create`."""
    keys = split_names(key_columns, "keyColumns")
    columns = arrow_schema(_struct_type(spark, schema))
    return SlateStore.create(path_text(path), schema=columns, keyColumns=keys, **store_arguments(properties))


def has_table(path: object, storage: Mapping[str, Any]) -> bool:
    """Tell whether there is a database, raw or typed, at a path.

    Raises
    ------
    OptionError
        When the argument is not a path.
    """
    try:
        SlateStore.open(_path(path, "isSlateTable"), **store_arguments(storage))
    except TableNotFoundError:
        return False
    return True


def drop_table(
    path: object, storage: Mapping[str, Any], progress: AskedProgress, *, force: bool, dry_run: bool
) -> DropReport:
    """Delete the table at a path; see `SlateTable.drop`. Raises as `has_table` for another argument."""
    where, given = _path(path, "drop"), store_arguments(storage)
    return SlateStore.drop(where, force=force, dryRun=dry_run, progress=progress, **given)


def _path(path: object, method: str) -> str:
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"{method}: {path!r} is not a path.", todo=f"Call {method}(spark, path).")
    return path_text(path)


def require_key_columns(url: str, present: Sequence[str], wanted: Names) -> None:
    """Refuse a table that has other key columns; case does not matter.

    Raises
    ------
    InvalidRequestError
        When they differ.
    """
    names = split_names(wanted, "keyColumns")
    if [name.lower() for name in present] != [name.lower() for name in names]:
        raise InvalidRequestError(
            f"The table {url} exists with key columns {', '.join(present)} instead of {', '.join(names)}.",
            todo="Choose another path, or open it with forPath.",
        )


def _struct_type(spark: SparkSession, schema: StructType | str) -> StructType:
    """Return a schema given as such, or as DDL text like `tenant STRING, id BIGINT`.

    Raises
    ------
    SchemaError
        When it is neither.
    """
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise _no_schema(schema)
    try:
        parsed: object = parse_ddl(spark, schema)
    except ParseException as exc:
        raise _no_schema(schema) from exc
    if not isinstance(parsed, StructType):
        raise _no_schema(schema)
    return parsed


def _no_schema(given: object) -> SchemaError:
    return SchemaError(
        f"The schema is {given!r}.", todo="Give a StructType, or DDL text like 'tenant STRING NOT NULL, id BIGINT'."
    )
