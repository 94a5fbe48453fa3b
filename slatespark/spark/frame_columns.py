"""Columns of DataFrames by name, and rows partitioned and sorted by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.options.values import parse_names
from slatespark.texts import listed

_POSITION = "__slate_position"


def require_frame(rows: object, name: str) -> None:
    """Raise `InvalidRequestError` if an argument is not a DataFrame of Spark, classic or Connect."""
    if not isinstance(rows, DataFrame):
        raise InvalidRequestError(
            f"{name}: {type(rows).__module__}.{type(rows).__qualname__} is not a DataFrame of Spark.",
            todo="Make one with spark.createDataFrame(...), or toDF() of a table. SlateStore takes pandas and Arrow.",
        )


def sort_for_load(rows: DataFrame, key_columns: Sequence[str]) -> DataFrame:
    """Return the rows partitioned by key range and sorted by key; rows of one key keep their order.

    So each task of a write has its own key range, and no two files overlap. Of several rows of one key the last wins:
    that of the later partition, and within a partition the later row.

    Raises
    ------
    SchemaError
        When a key column is missing.
    """
    keys = [F.col(quoted(name)) for name in resolve_columns(key_columns, rows.columns)]
    numbered = rows.withColumn(_POSITION, F.monotonically_increasing_id())
    return cluster_by_key(numbered, keys, F.col(_POSITION)).drop(_POSITION)


def cluster_by_key(rows: DataFrame, keys: Sequence[Column], *order: Column) -> DataFrame:
    """Return the rows partitioned by key range and sorted by key, then by `order`.

    A window partitioned by the key needs no further exchange.
    """
    return rows.repartitionByRange(*keys).sortWithinPartitions(*keys, *order)


def resolve_columns(wanted: Sequence[str], present: Sequence[str], *, called: str = "Key column") -> list[str]:
    """Return the names of columns as a DataFrame spells them; as in Spark, case does not matter.

    Parameters
    ----------
    called : how the message of the error calls such a column

    Raises
    ------
    SchemaError
        When one is missing or ambiguous.
    """
    found = []
    for name in wanted:
        hits = [column for column in present if column.lower() == name.lower()]
        if len(hits) != 1:
            what = "is missing" if not hits else f"occurs {len(hits)} times"
            raise SchemaError(
                f"{called} {name} {what} among {listed(present)}.", todo="Select and rename the columns first."
            )
        found.append(hits[0])
    return found


def select_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns of the rows, as these spell them.

    Raises
    ------
    SchemaError
        When one is missing, or requested twice.
    """
    found = resolve_columns(names, rows.columns, called="Column")
    if len(set(found)) != len(found):
        raise SchemaError(f"A column is requested twice: {listed(names)}.", todo="Request each column once.")
    return rows.select(*map(quoted, found))


def split_names(names: object, argument: str = "columns") -> list[str]:
    """Return distinct names from a list or a comma list; raises `OptionError` for anything else."""
    if isinstance(names, Iterable) and not isinstance(names, str | DataFrame | Column):
        names = list(names)
    return list(parse_names(names, argument))


def names_text(names: Iterable[str]) -> str:
    """Return names as a comma list; the inverse of `split_names`."""
    return ",".join(quoted(name) if "," in name or "`" in name or name != name.strip() else name for name in names)


def quoted(name: str) -> str:
    """Return a column's name in backticks, so that Spark reads it as one name."""
    return f"`{name.replace('`', '``')}`"


def dotted(names: Iterable[str]) -> str:
    """Return a qualified name, each part of it in backticks."""
    return ".".join(map(quoted, names))


def quoted_if_needed(name: str) -> str:
    """Return a name in backticks unless it is plain: `quotedRegexColumnNames` makes patterns of names in backticks."""
    return name if name.isidentifier() else quoted(name)
