"""Compaction by Spark: each task merges one key range and uploads the result; the driver plans and commits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from slatespark.errors import InvalidRequestError
from slatespark.spark.failures import own_errors, spark_errors
from slatespark.spark.pyspark_api import map_in_arrow
from slatespark.spark.worker import freeze_gc
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.compaction.merge import MergedRange, merge_range
from slatespark.table.compaction.plan import RangeTask
from slatespark.table.stores import open_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULT = "merged BINARY"


class SparkRunner:
    """Merges ranges as the tasks of one Spark job.

    Filters travel with the tasks. Classes from a notebook or script are pickled by value; classes from a module by
    name, so executors need that module.

    Parameters
    ----------
    clock : of the table; it travels too

    Attributes
    ----------
    together : how many tasks Spark runs at a time; 1 with Spark Connect, which does not tell
    """

    def __init__(self, spark: SparkSession, clock: Clock | None = None) -> None:
        self._spark, self._clock = spark, SystemClock() if clock is None else clock
        self.together = 1
        with contextlib.suppress(PySparkException):
            self.together = max(1, spark.sparkContext.defaultParallelism)

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
        """Return the merged ranges, in the order of the tasks."""
        if not tasks:
            return []
        packed = [_packed((task, self._clock)) for task in tasks]

        def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                results = [run_packed(packed[number]) for number in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_pydict({"merged": pa.array(results, pa.binary())})

        # One number per partition: Spark splits ranges of numbers evenly, without a shuffle.
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        with own_errors():
            rows = map_in_arrow(numbers, merge, _RESULT).collect()  # in the order of partitions
        return [cloudpickle.loads(bytes(row[0])) for row in rows]


def check_filters_travel(filters: object) -> None:
    """Refuse filters that cannot be sent to executors before anything is begun; a wrong type is refused later."""
    for chosen in filters if isinstance(filters, Sequence) else ():
        try:
            _packed(chosen)
        except Exception as exc:  # pickling can raise anything
            raise InvalidRequestError(
                f"filters: {type(chosen).__name__} cannot be pickled: {exc}.",
                why="Filters travel to Spark's executors.",
                todo="Create objects that cannot be pickled, such as locks and connections, in decide.",
            ) from exc


def run_packed(packed: bytes) -> bytes:
    """Merge one key range in a worker."""
    with spark_errors():
        task: RangeTask
        task, clock = cloudpickle.loads(packed)
        options = task.options
        stores = open_stores(options.path, storage=options.storage, wal_path=options.wal_path)
        merged = merge_range(stores, clock, task.layers, task.rules, options, task.planned_ms, filters=task.filters)
        freeze_gc()
        return _packed(merged)


def _packed(value: object) -> bytes:
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # pyspark's own copy has no types
