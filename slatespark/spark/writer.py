"""Batch writes: SSTs from executors, one commit on the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from slatespark.errors import InternalError, TableExistsError
from slatespark.options import WriteOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.partitions import SlateCommitMessage
from slatespark.spark.worker import settle_modules
from slatespark.table.clock import SystemClock
from slatespark.table.read.fold import resolve_operator
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.commit import WriteJob, abandon_write, commit_write, find_latest_manifest, plan_write
from slatespark.table.write.rows import check_schema
from slatespark.table.write.sort_spill import sort_rows_of_task
from slatespark.table.write.sst_upload import upload_sorted


class SlateWriter(DataSourceArrowWriter):
    """Writes one DataFrame. Made once by the planner, then pickled into every task and into the commit."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, overwrite: bool) -> None:
        with spark_errors():
            self._options = options
            check_schema(schema, options)
            resolve_operator(options.merge_operator)
            self._job = self._plan(overwrite=overwrite)

    def _plan(self, *, overwrite: bool) -> WriteJob | None:
        """Return the job; None when `ifExists=ignore` says to do nothing."""
        stores = self._stores()
        if self._options.if_exists is not None and find_latest_manifest(stores) is not None:
            if self._options.if_exists == "ignore":
                return None
            raise TableExistsError(f"{stores.url} exists already.", todo="Drop ifExists, or choose another path.")
        return plan_write(stores, SystemClock(), operation="overwrite" if overwrite else "write")

    def _stores(self) -> TableStores:
        options = self._options
        return open_stores(options.path, storage=options.storage, wal_path=options.wal_path)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Upload the rows of one task as sorted files."""
        context = TaskContext.get()
        if context is None:
            raise InternalError("A write task has no TaskContext.")
        partition = context.partitionId()
        if self._job is None:
            return SlateCommitMessage(partition, ())
        with spark_errors():
            options = self._options
            fold = resolve_operator(options.merge_operator)
            pieces = sort_rows_of_task(iterator, options, self._job.stamp(partition, options), fold)
            files = upload_sorted(self._stores().main, pieces, options, SystemClock(), self._job.planned_ms)
            settle_modules()
            return SlateCommitMessage(partition, files)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of all tasks in one manifest."""
        if self._job is None:
            return
        arrived = [message for message in messages if isinstance(message, SlateCommitMessage)]
        outputs = [message.files for message in sorted(arrived, key=lambda message: message.partition)]
        with spark_errors():
            commit_write(self._stores(), SystemClock(), self._job, outputs, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give the write up. Files stay for collection: a failed commit may have published them after all."""
        if self._job is not None:
            with spark_errors():
                abandon_write(self._stores(), self._job)
