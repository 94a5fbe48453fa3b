"""DataFrames as uploaded files, by a Spark job without the data source: a transaction commits them later."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from slatespark.spark.failures import lost_results, own_errors, spark_errors
from slatespark.spark.jobs.run_job import run_job
from slatespark.spark.pyspark_api import ArrowTask, map_in_arrow
from slatespark.spark.table_location import TableLocation
from slatespark.spark.worker import freeze_gc, task_context
from slatespark.table.clock import resolve_clock
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.write.load import Load
from slatespark.table.write.load_task import run_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MESSAGE = "task INT, files BINARY"
_LAST = "SELECT CAST(NULL AS INT) AS task, CAST(NULL AS BINARY) AS files"


def upload_frame(rows: DataFrame, location: TableLocation, load: Load) -> list[tuple[NewFile, ...]]:
    """Upload the rows of a DataFrame and return the files of each partition; no manifest lists them yet.

    Raises
    ------
    SlateError
        The error of a task, with its class.
    MemoryLimitError
        When Spark's driver broke off while it sent what the tasks returned.
    """
    with own_errors():
        spark = rows.sparkSession
        # How many tasks there are is not known, so a row behind all others tells that these arrived.
        messages = map_in_arrow(rows, _Upload(location, load), _MESSAGE).union(spark.sql(_LAST))
        received = run_job(spark, messages.collect)
    if not received or received.pop().task is not None:
        raise lost_results("The names of files that tasks have written did not arrive.")
    # Unpickling is safe: the messages come from slatespark's own tasks over Spark's channel.
    return [pickle.loads(message.files) for message in sorted(received, key=lambda message: message.task)]


@dataclass(frozen=True)
class _Upload(ArrowTask):
    """Rows of one partition -> uploaded files."""

    location: TableLocation
    load: Load

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = task_context().partitionId()
        with spark_errors():
            files = run_task(self.location.open(), resolve_clock(self.location.clock), self.load, task, batches)
        freeze_gc()
        yield pa.record_batch([pa.array([task], pa.int32()), pa.array([pickle.dumps(files)])], ["task", "files"])
