"""What Spark does to rows before a table takes them: the sorted load, of which no two files overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_POSITION = "__slate_position"


def sort_for_load(rows: DataFrame, key_columns: Sequence[str]) -> DataFrame:
    """Return the rows partitioned by ranges of the key and sorted within, rows of one key in the order they came in.

    So each task writes a range of keys of its own, and of several rows of one key the later one wins, whatever Spark
    does: the row of the later partition, within it the later row.

    Raises
    ------
    SchemaError
        When a key column is missing.
    """
    keys = [F.col(quoted(name)) for name in resolve_columns(key_columns, rows.columns)]
    numbered = rows.withColumn(_POSITION, F.monotonically_increasing_id())
    return cluster_by_key(numbered, keys, F.col(_POSITION)).drop(_POSITION)


def cluster_by_key(rows: DataFrame, keys: Sequence[Column], *order: Column) -> DataFrame:
    """Return the rows partitioned by ranges of the key and sorted by it, then by `order`.

    A window partitioned by the key needs no further exchange on it.
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
                f"{called} {name} {what} among {', '.join(present)}.", todo="Select and rename the columns first."
            )
        found.append(hits[0])
    return found


def split_names(names: Sequence[str] | str) -> list[str]:
    """Return names that are given as a list or as a comma list."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def quoted(name: str) -> str:
    """Return a column's name so that Spark takes it as one name, whatever is in it."""
    return f"`{name.replace('`', '``')}`"
