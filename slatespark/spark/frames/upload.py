"""DataFrames as uploaded files, by a Spark job without the data source: a transaction commits them later."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from slatespark.spark.failures import own_errors, spark_errors
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


def upload_frame(rows: DataFrame, location: TableLocation, load: Load) -> list[tuple[NewFile, ...]]:
    """Upload the rows of a DataFrame and return the files of each partition; no manifest lists them yet.

    Raises
    ------
    SlateError
        The error of a task, with its class.
    """
    with own_errors():
        # To `collect`, a connection that breaks is the end of the rows: their files would be missing from the commit.
        messages = map_in_arrow(rows, _Upload(location, load), _MESSAGE).toArrow().to_pylist()
    # Unpickling is safe: the messages come from slatespark's own tasks over Spark's channel.
    return [pickle.loads(message["files"]) for message in sorted(messages, key=itemgetter("task"))]


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
