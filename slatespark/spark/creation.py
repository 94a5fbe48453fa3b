"""Creation of a table, and the questions that come with it: is there one, and does it have these key columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from slatespark.errors import InvalidRequestError, OptionError, TableNotFoundError
from slatespark.slate_store import SlateStore
from slatespark.spark.arguments import Names, PathArgument, path_text, store_arguments
from slatespark.spark.distributed import split_names
from slatespark.spark.type_mapping import arrow_schema, struct_type


def create_table(
    path: PathArgument, schema: StructType | str, key_columns: Names, properties: Mapping[str, Any]
) -> None:
    """Create an empty typed table; see `SlateTable.create`."""
    keys = split_names(key_columns)
    columns = arrow_schema(struct_type(schema), keys)
    SlateStore.create(path_text(path), schema=columns, keyColumns=keys, **store_arguments(properties))


def has_table(path: object, storage: Mapping[str, Any]) -> bool:
    """Tell whether there is a database, raw or typed, at a path.

    Raises
    ------
    OptionError
        When the argument is not a path.
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"isSlateTable: {path!r} is not a path.", todo="Call isSlateTable(spark, path).")
    try:
        SlateStore.open(path_text(path), **store_arguments(storage))
    except TableNotFoundError:
        return False
    return True


def require_key_columns(url: str, present: Sequence[str], wanted: Names) -> None:
    """Refuse a table that has other key columns; case does not matter.

    Raises
    ------
    InvalidRequestError
        When they differ.
    """
    names = split_names(wanted)
    if [name.lower() for name in present] != [name.lower() for name in names]:
        raise InvalidRequestError(
            f"The table {url} exists with key columns {', '.join(present)} instead of {', '.join(names)}.",
            todo="Choose another path, or open it with forPath.",
        )
