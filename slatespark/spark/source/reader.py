"""Batch reads: planned on the driver, executed as Arrow batches on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from slatespark.options import ReadOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.source.kept_stores import kept_stores
from slatespark.spark.source.load_point import LoadPoint
from slatespark.spark.source.partitions import SlatePartition
from slatespark.spark.worker import SentToTasks, freeze_gc
from slatespark.table.clock import resolve_clock
from slatespark.table.read.arrow import Projection
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.read.scan import scan_split
from slatespark.table.stores import stores_of

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Comparison


def open_reader(options: ReadOptions, projection: Projection, load: str | None = None) -> DataSourceReader:
    """Return the reader for these options.

    Parameters
    ----------
    load : names the DataFrame, of which Spark may make several readers; None for one of its own
    """
    if options.read_change_feed:
        from slatespark.spark.source.change_reader import ChangeReader  # most reads are of rows

        return ChangeReader(options, projection)
    return PushdownReader(options, projection) if options.pushdown else SlateReader(options, projection, load)


class SlateReader(SentToTasks, DataSourceReader):
    """Reads one table. Spark pickles it before `partitions` runs, so partitions hold all that their tasks need."""

    def __init__(self, options: ReadOptions, projection: Projection, load: str | None = None) -> None:
        self._options, self._projection, self._load = options, projection, load
        self._pushed: tuple[Comparison, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        """Resolve the snapshot and cut it into splits."""
        with spark_errors():
            options = self._options
            stores, clock = kept_stores(options), resolve_clock(options.clock)
            point = None
            if self._load is not None and options.version_as_of is None:  # a version is the same in all processes
                point = LoadPoint(stores, clock, self._load)
            plan = fetch_read_plan(
                stores, options, clock, projection=self._projection, pushed=self._pushed, point=point
            )
            without_files = plan.settings.without_wal_files()  # a long list, which each task would get
            return [SlatePartition(each, plan.settings if each.wal is None else without_files) for each in plan.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split."""
        if not isinstance(partition, SlatePartition):  # Spark passes an empty one when a plan has no splits
            return
        with spark_errors():
            rows = scan_split(stores_of(self._options), partition.split, partition.settings)
            yield from with_bounded_times(rows, partition.settings.projection)
        freeze_gc()


class PushdownReader(SlateReader):
    """Evaluates filters of `where` too: option `pushdown`.

    A class of its own: if its configuration does not allow pushdown, Spark refuses every query of a reader that
    overrides `pushFilters`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # Spark's name
        """Keep the filters that a read evaluates exactly, and return the rest."""
        from slatespark.spark.source.filters import split_filters  # most reads have no filter

        with spark_errors():
            taken, left = split_filters(filters, self._projection.schema)
        self._pushed = tuple(taken)
        return left
