"""The change feed as a batch: planned on the driver, a task for each key range, or stretch of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from slatespark.options import ReadOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.source.kept_stores import kept_stores
from slatespark.spark.worker import SentToTasks, freeze_gc
from slatespark.table.changes.feed import FeedPlan, FeedSettings, FeedSplit, fetch_feed_plan, scan_feed
from slatespark.table.changes.plan import ChangePlan
from slatespark.table.clock import resolve_clock
from slatespark.table.read.arrow import Projection
from slatespark.table.stores import stores_of


@dataclass
class ChangePartition(InputPartition):
    """One split of a change feed."""

    split: FeedSplit
    settings: FeedSettings


class ChangeReader(SentToTasks, DataSourceReader):
    """Reads how one version of a table differs from another, or every write in between."""

    def __init__(self, options: ReadOptions, projection: Projection) -> None:
        self._options, self._projection = options, projection

    def partitions(self) -> Sequence[InputPartition]:
        """Resolve the bounds, and cut what lies between them into splits."""
        with spark_errors():
            clock = resolve_clock(self._options.clock)
            plan = fetch_feed_plan(kept_stores(self._options), self._options, clock, projection=self._projection)
            return change_partitions(plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one split."""
        return read_changes(partition, self._options)


def change_partitions(plan: FeedPlan) -> list[InputPartition]:
    """Return a partition for each split of a plan; none takes along a long list of files that it does not read."""
    if isinstance(plan, ChangePlan):
        return [ChangePartition(split, plan.settings.of(split)) for split in plan.splits]
    return [ChangePartition(split, plan.settings) for split in plan.splits]


def read_changes(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the changes of one split, in a task."""
    if not isinstance(partition, ChangePartition):  # Spark passes an empty one when a plan has no splits
        return
    with spark_errors():
        changes = scan_feed(stores_of(options), partition.split, partition.settings)
        yield from with_bounded_times(changes, partition.settings.projection)
    freeze_gc()
