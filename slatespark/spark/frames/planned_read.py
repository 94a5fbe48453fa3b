"""Plans of reads as DataFrames, by a Spark job without the data source: planned on the driver, a partition per split.

For reads that see a transaction's writes, which the data source cannot express, and for those that need not begin with
the Python processes in which Spark plans reads of a data source.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from slatespark.spark.failures import spark_errors
from slatespark.spark.pyspark_api import ArrowTask, arrow_frame, map_in_arrow
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.table_location import TableLocation
from slatespark.spark.type_mapping import spark_schema
from slatespark.spark.worker import freeze_gc
from slatespark.table.read.scan import scan_split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.table.changes.feed import FeedPlan, FeedSettings
    from slatespark.table.read.reader import ReadPlan
    from slatespark.table.read.scan_settings import ScanSettings
    from slatespark.table.stores import TableStores

_ScanOfSplit: TypeAlias = "Callable[[TableStores, Any, Any], Iterator[pa.RecordBatch]]"


def plan_frame(spark: SparkSession, location: TableLocation, plan: ReadPlan) -> DataFrame:
    """Return the rows of a plan as a DataFrame with one partition per split."""
    splits = [replace(split, wal=None) for split in plan.splits]  # each task gets all of them
    return _scan_frame(spark, location, plan.settings, splits, scan_split)


def feed_frame(spark: SparkSession, location: TableLocation, plan: FeedPlan) -> DataFrame:
    """Return the changes of a plan as a DataFrame with one partition per split."""
    from slatespark.table.changes.feed import scan_feed  # most reads are of rows

    return _scan_frame(spark, location, plan.settings, plan.splits, scan_feed)


def _scan_frame(
    spark: SparkSession,
    location: TableLocation,
    settings: ScanSettings | FeedSettings,
    splits: Sequence[object],
    scan: _ScanOfSplit,
) -> DataFrame:
    schema, count = spark_schema(settings.projection.schema), len(splits)
    if not count:
        return arrow_frame(spark, settings.projection.schema.empty_table(), schema)
    numbers = spark.range(0, count, 1, count)
    return map_in_arrow(numbers, _Scan(location, settings, tuple(map(pickle.dumps, splits)), scan), schema)


@dataclass(frozen=True)
class _Scan(ArrowTask):
    """Split numbers -> rows.

    Attributes
    ----------
    splits : pickled one by one, since each task gets all of them and reads one
    scan : `scan_split` or `scan_feed`
    """

    location: TableLocation
    settings: ScanSettings | FeedSettings
    splits: tuple[bytes, ...]
    scan: _ScanOfSplit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores = self.location.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with spark_errors():
                    split = pickle.loads(self.splits[number])  # made by slatespark on the driver
                    rows = self.scan(stores, split, self.settings)
                    yield from with_bounded_times(rows, self.settings.projection)
        freeze_gc()
