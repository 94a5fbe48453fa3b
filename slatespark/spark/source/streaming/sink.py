"""The sink of a stream: each micro-batch is one commit, and takes effect once.

Spark makes a writer twice for each batch: in the process that plans it, which pickles the writer for the tasks, and in
the one that commits it. Nothing but the messages of the tasks goes from the one to the other, and only tasks are told
the id of the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from slatespark.errors import InternalError
from slatespark.options.streaming import StreamWriteOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.source.catalog_writes import QUERY_ID
from slatespark.spark.source.kept_stores import kept_stores
from slatespark.spark.source.partitions import require_messages
from slatespark.spark.worker import SentToTasks, freeze_gc, task_context
from slatespark.table.clock import Clock, resolve_clock
from slatespark.table.commit.job import WriteJob, abandon_write, abandoned_on_error
from slatespark.table.compaction.after_write import compact_after_write
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.table.write.stream_batch import StreamBatch, commit_batch


@dataclass
class BatchMessage(WriterCommitMessage):
    """The files that one task uploaded, in key order, and what the commit needs to know of the batch.

    Attributes
    ----------
    query : id of the query
    load : the plan of the batch, without the storage options, which may hold credentials
    """

    partition: int
    files: tuple[NewFile, ...]
    query: str
    load: Load


class SlateStreamWriter(SentToTasks, DataSourceStreamArrowWriter):
    """Writes one micro-batch."""

    def __init__(self, options: StreamWriteOptions, schema: pa.Schema, *, overwrite: bool) -> None:
        self._options, self._schema, self._overwrite = options, schema, overwrite
        self._load: Load | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Plan the batch: a writer is pickled in the process that plans it, and in no other.

        Planned by the constructor, a batch would be planned again in the process that commits it.
        """
        if self._load is None:
            with spark_errors():
                self._load = self._begin()
        return self.__dict__.copy()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Upload the rows of one task as sorted files."""
        context = task_context()
        query = context.getLocalProperty(QUERY_ID)
        if query is None or self._load is None:
            raise InternalError("A task of a stream has no query, or no plan.")
        load = self._load
        with spark_errors():
            files = run_task(self._stores(), self._clock(), load, context.partitionId(), iterator)
            freeze_gc()
        return BatchMessage(context.partitionId(), files, query, _without_storage(load))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Publish the files of all tasks by one manifest, unless the batch was committed before."""
        stores, clock, options = self._stores(), self._clock(), self._options.write
        with spark_errors():
            arrived = sorted(require_messages(BatchMessage, messages), key=lambda message: message.partition)
            if arrived:
                load = replace(arrived[0].load, options=options)
                batch = StreamBatch(arrived[0].query, batchId, self._options.name)
                record = commit_batch(stores, clock, load, [message.files for message in arrived], batch)
            elif self._overwrite:
                load = self._begin()
                with abandoned_on_error(stores, load.job):
                    record = self._commit_nothing(load, batchId)
            else:
                return
        compact_after_write(stores, clock, record, options, load.job.definition)

    def _commit_nothing(self, load: Load, number: int) -> CommitRecord | None:
        """Commit an empty whole result without partitions, of which no task tells the query.

        Without a name the batch is not known again: it may take effect a second time.
        """
        stores, clock, name = self._stores(), self._clock(), self._options.name
        if name is None:
            return commit_load(stores, clock, load, ())
        return commit_batch(stores, clock, load, (), StreamBatch(None, number, name))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Abandon the batch. Garbage collection takes the files, since a failed commit may have published them."""
        job: WriteJob | None = next((found.load.job for found in messages if isinstance(found, BatchMessage)), None)
        if job is not None:  # else its lease expires by itself
            with spark_errors():
                abandon_write(self._stores(), job)

    def _begin(self) -> Load:
        options = self._options.write
        load = begin_load(self._stores(), self._clock(), self._schema, options, overwrite=self._overwrite)
        if load is None:
            raise InternalError("A batch of a stream was skipped before its tasks.")
        return load

    def _stores(self) -> TableStores:
        return kept_stores(self._options.write)

    def _clock(self) -> Clock:
        return resolve_clock(self._options.write.clock)


def _without_storage(load: Load) -> Load:
    return replace(load, options=replace(load.options, storage={}))
