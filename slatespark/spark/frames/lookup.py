"""Lookups of the keys of a DataFrame: each task looks up neighbouring keys, or one task all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark.options import ReadOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.frame_columns import cluster_by_key, quoted, resolve_columns
from slatespark.spark.pyspark_api import ArrowTask, estimated_bytes, map_in_arrow
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.table_location import TableLocation
from slatespark.spark.type_mapping import arrow_schema, spark_schema
from slatespark.spark.worker import freeze_gc
from slatespark.table.clock import Clock
from slatespark.table.read.key_lookup import KeyLookup, fetch_key_lookup, fetch_lookup_tail, look_up_rows
from slatespark.table.read.planning.wal_share import WalShare

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ONE_TASK_BYTES: Final = 1 << 20  # of keys; to sample and shuffle fewer takes longer than to look them up


def lookup_frame(
    keys: DataFrame, location: TableLocation, options: ReadOptions, clock: Clock, key_columns: tuple[str, ...]
) -> DataFrame:
    """Return the rows of a table that have the keys of a DataFrame: each once.

    Many keys are partitioned by ranges, so that a task reads neighbouring blocks; few are left to one task.

    Raises
    ------
    SchemaError
        When a key column is missing, or is collated, or has a type that does not fit.
    """
    names = resolve_columns(key_columns, keys.columns)
    needed = arrow_schema(StructType([keys.schema[name] for name in names]))
    plan = fetch_key_lookup(location.open(), options, clock, needed, keys.columns)
    order = [F.col(quoted(name)) for name in names]
    return map_in_arrow(_divide(keys.select(*order), order), _LookUp(location, plan), spark_schema(plan.schema))


def _divide(keys: DataFrame, order: Sequence[Column]) -> DataFrame:
    """Return the distinct keys, sorted within partitions: few in one, without a shuffle, others divided by ranges."""
    size = estimated_bytes(keys)
    if size is not None and size <= ONE_TASK_BYTES:
        return keys.coalesce(1).distinct().sortWithinPartitions(*order)
    return cluster_by_key(keys.distinct(), order)


@dataclass(frozen=True)
class _LookUp(ArrowTask):
    """Keys of one partition -> the rows that have them."""

    location: TableLocation
    plan: KeyLookup

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with spark_errors():
            stores = self.location.open()
            tail: WalShare | None = None
            for number, batch in enumerate(batches):
                if number == 0:
                    tail = fetch_lookup_tail(stores, self.plan)
                rows = look_up_rows(stores, self.plan, pa.Table.from_batches([batch]), tail)
                yield from with_bounded_times(rows, self.plan.settings.projection)
        freeze_gc()
