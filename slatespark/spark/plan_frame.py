"""Read plans as DataFrames, and DataFrames as uploaded files, by Spark jobs without the data source.

For requests that the data source cannot express: reads that see a transaction's writes, and writes without a commit.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from slatespark.errors import InternalError
from slatespark.spark.failures import own_errors, spark_errors
from slatespark.spark.pyspark_api import map_in_arrow
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.type_mapping import spark_schema
from slatespark.spark.worker import freeze_gc
from slatespark.table.clock import resolve_clock
from slatespark.table.read.plan import Split
from slatespark.table.read.reader import ReadPlan
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.load import Load, run_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MESSAGE = "task INT, files BINARY"


def plan_frame(spark: SparkSession, place: Place, plan: ReadPlan) -> DataFrame:
    """Return the rows of a plan as a DataFrame with one partition per split."""
    schema = spark_schema(plan.schema)
    count = len(plan.splits)
    if not count:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, count, 1, count)
    splits = tuple(replace(split, wal=None) for split in plan.splits)  # each task gets all of them
    return map_in_arrow(numbers, _Scan(place, plan.settings, splits), schema)


def upload_frame(rows: DataFrame, place: Place, load: Load) -> list[tuple[NewFile, ...]]:
    """Upload the rows of a DataFrame and return the files of each partition; no manifest lists them yet.

    Raises
    ------
    SlateError
        The error of a task, with its class.
    """
    with own_errors():
        messages = map_in_arrow(rows, _Upload(place, load), _MESSAGE).collect()
    # Unpickling is safe: the messages come from our own tasks over Spark's channel.
    return [pickle.loads(message.files) for message in sorted(messages, key=lambda message: message.task)]


@dataclass(frozen=True)
class Place:
    """The location of a table and its clock, for tasks in other processes.

    Attributes
    ----------
    path, wal_path : of the table, and of its WAL if that is elsewhere
    storage : options of the storage backend; never shown, since they may hold credentials
    clock : `module:function`; None for the system clock
    """

    path: str
    wal_path: str | None
    storage: Mapping[str, str]
    clock: str | None = None

    def __repr__(self) -> str:
        return f"Place({self.path!r})"

    def open(self) -> TableStores:
        """Return the stores of the table."""
        return open_stores(self.path, storage=self.storage, wal_path=self.wal_path)


@dataclass(frozen=True)
class _Scan:
    """Split numbers -> rows."""

    place: Place
    settings: ScanSettings
    splits: tuple[Split, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores = self.place.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with spark_errors():
                    rows = scan_split(stores, self.splits[number], self.settings)
                    yield from with_bounded_times(rows, self.settings.projection)
        freeze_gc()


@dataclass(frozen=True)
class _Upload:
    """Rows of one partition -> uploaded files."""

    place: Place
    load: Load

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            raise InternalError("A write task has no TaskContext.")
        task = context.partitionId()
        with spark_errors():
            files = run_task(self.place.open(), resolve_clock(self.place.clock), self.load, task, batches)
        freeze_gc()
        yield pa.record_batch([pa.array([task], pa.int32()), pa.array([pickle.dumps(files)])], ["task", "files"])
