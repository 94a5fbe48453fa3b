"""Batch writes: executors upload SSTs, the driver commits them at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from slatespark.spark.failures import spark_errors
from slatespark.spark.source.kept_stores import kept_stores
from slatespark.spark.source.partitions import SlateCommitMessage, require_messages
from slatespark.spark.worker import SentToTasks, freeze_gc, task_context
from slatespark.table.clock import Clock, resolve_clock
from slatespark.table.stores import TableStores

if TYPE_CHECKING:
    import pyarrow as pa

    from slatespark.options import WriteOptions

# Spark plans in one process, runs tasks in others, and commits in one more. Each imports what its step needs.


class SlateWriter(SentToTasks, DataSourceArrowWriter):
    """Writes one DataFrame. The planner makes it once; Spark pickles it for every task and for the commit."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, overwrite: bool) -> None:
        from slatespark.table.write.load_plan import begin_load

        with spark_errors():
            self._options = options
            creates = options.read_set is None  # what was read is there, or was removed since
            stores, clock = self._stores(), self._clock()
            self._load = begin_load(stores, clock, schema, options, overwrite=overwrite, creates=creates)

    def _stores(self) -> TableStores:
        return kept_stores(self._options)

    def _clock(self) -> Clock:
        return resolve_clock(self._options.clock)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Upload the rows of one task as sorted files."""
        from slatespark.spark.source.catalog_writes import refuse_catalog_write
        from slatespark.table.write.load_task import run_task

        context = task_context()
        with spark_errors():
            refuse_catalog_write(context)
        partition = context.partitionId()
        if self._load is None:  # nothing to do
            return SlateCommitMessage(partition, ())
        with spark_errors():
            files = run_task(self._stores(), self._clock(), self._load, partition, iterator)
            freeze_gc()
            return SlateCommitMessage(partition, files)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of all tasks by one manifest."""
        if self._load is None:
            return
        from slatespark.table.compaction.after_write import compact_after_write
        from slatespark.table.write.load_commit import commit_load

        with spark_errors():
            arrived = require_messages(SlateCommitMessage, messages)
            outputs = [message.files for message in sorted(arrived, key=lambda message: message.partition)]
            record = commit_load(self._stores(), self._clock(), self._load, outputs)
        compact_after_write(self._stores(), self._clock(), record, self._options, self._load.job.definition)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abandon the write. Garbage collection takes the files, since a failed commit may have published them."""
        if self._load is not None:
            from slatespark.table.commit.job import abandon_write

            with spark_errors():
                abandon_write(self._stores(), self._load.job)
