"""The as-of join of a DataFrame: a Spark job in which each task looks up the keys of its own rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark.options import ReadOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.frame_columns import cluster_by_key, quoted, resolve_columns
from slatespark.spark.pyspark_api import ArrowTask, map_in_arrow
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.table_location import TableLocation
from slatespark.spark.type_mapping import arrow_schema, spark_schema
from slatespark.spark.worker import freeze_gc
from slatespark.table.clock import Clock
from slatespark.table.read.as_of_join import AsOfJoin, join_as_of
from slatespark.table.read.reader import fetch_as_of_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_of_frame(
    rows: DataFrame,
    location: TableLocation,
    options: ReadOptions,
    clock: Clock,
    key_columns: tuple[str, ...],
    ts: str,
    how: str,
) -> DataFrame:
    """Return rows with the columns of the version of their key that was valid at their time.

    They are partitioned by ranges of key and time, so that a task reads neighbouring keys, and a key with many rows is
    shared by several tasks.

    Parameters
    ----------
    options : what `parse_join` returned
    ts : the column of times

    Raises
    ------
    SchemaError
        When a column is missing or occurs twice, or has a type that does not fit, or a key column is collated.
    """
    keys = resolve_columns(key_columns, rows.columns)
    [time] = resolve_columns([ts], rows.columns, called="Column")
    resolve_columns(rows.columns, rows.columns, called="Column")
    needed = arrow_schema(StructType([rows.schema[name] for name in dict.fromkeys((*keys, time))]))
    plan = fetch_as_of_join(location.open(), options, clock, needed, rows.columns, ts, how)
    order = [F.col(quoted(name)) for name in (*keys, time)]
    schema = StructType([*rows.schema.fields, *spark_schema(plan.added).fields])
    return map_in_arrow(cluster_by_key(rows, order), _Join(location, plan, len(rows.columns)), schema)


@dataclass(frozen=True)
class _Join(ArrowTask):
    """Rows of one partition -> the same rows with more columns."""

    location: TableLocation
    plan: AsOfJoin
    width: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with spark_errors():
            joined = join_as_of(self.location.open(), self.plan, batches)
            yield from with_bounded_times(joined, self.plan.settings.projection, first=self.width)
        freeze_gc()
