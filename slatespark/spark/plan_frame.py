"""Plans and writes of `table` as Spark jobs of their own: rows of a plan as a DataFrame, a DataFrame as files.

For what the data source cannot say: a read that sees the writes of a transaction, and a write that does not commit.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from slatespark.errors import InternalError
from slatespark.spark.failures import own_errors, spark_errors
from slatespark.spark.worker import freeze_gc
from slatespark.table.clock import SystemClock
from slatespark.table.read.plan import Split
from slatespark.table.read.reader import ReadPlan
from slatespark.table.read.scan import ScanSettings, scan_split
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.load import Load, run_task
from slatespark.table.write.sst_upload import NewFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MESSAGE = "task INT, files BINARY"


def plan_frame(spark: SparkSession, place: Place, plan: ReadPlan) -> DataFrame:
    """Return the rows of a plan as a DataFrame, a partition for each split."""
    schema = from_arrow_schema(plan.schema, prefer_timestamp_ntz=True)
    count = len(plan.splits)
    if not count:
        return spark.createDataFrame([], schema)
    return spark.range(0, count, 1, count).mapInArrow(_Scan(place, plan.settings, plan.splits), schema)


def upload_frame(rows: DataFrame, place: Place, load: Load) -> list[tuple[NewFile, ...]]:
    """Upload the rows of a DataFrame, and return the files per partition; no manifest shows them.

    Raises
    ------
    SlateError
        Of the tasks, as they raised it.
    """
    with own_errors():
        messages = rows.mapInArrow(_Upload(place, load), _MESSAGE).collect()
    # They come from our own tasks, over Spark's own channel.
    return [pickle.loads(message.files) for message in sorted(messages, key=lambda message: message.task)]


@dataclass(frozen=True)
class Place:
    """Where a table is, for tasks in other processes.

    Attributes
    ----------
    path, wal_path : of the table, and of its WAL if that is apart
    storage : what the storage backend takes; never shown, since there may be credentials among it
    """

    path: str
    wal_path: str | None
    storage: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Place({self.path!r})"

    def open(self) -> TableStores:
        """Return the stores of the table."""
        return open_stores(self.path, storage=self.storage, wal_path=self.wal_path)


@dataclass(frozen=True)
class _Scan:
    """Numbers of splits -> their rows."""

    place: Place
    settings: ScanSettings
    splits: tuple[Split, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores = self.place.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with spark_errors():
                    yield from scan_split(stores, self.splits[number], self.settings)
        freeze_gc()


@dataclass(frozen=True)
class _Upload:
    """Rows of one partition -> the files that hold them."""

    place: Place
    load: Load

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            raise InternalError("A write task has no TaskContext.")
        task = context.partitionId()
        with spark_errors():
            files = run_task(self.place.open(), SystemClock(), self.load, task, batches)
        freeze_gc()
        yield pa.record_batch([pa.array([task], pa.int32()), pa.array([pickle.dumps(files)])], ["task", "files"])
