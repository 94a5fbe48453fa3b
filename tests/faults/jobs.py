"""A write of ours in its phases, so that something may happen between them, as between the tasks of a Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from slatespark import SlateStore
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.job import abandon_write, begin_write
from slatespark.table.commit.tree_edit import DROP_TREES, KEEP_TREES
from slatespark.table.log.manifests import find_latest_manifest
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.encoder_plan import plan_encoder
from slatespark.table.rows.sst_upload import NewFile, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.stores import TableStores

Pair: TypeAlias = tuple[bytes, bytes]


def stores_of(store: ObjectStore) -> TableStores:
    """The stores of a table whose objects are all in one."""
    return TableStores(main=store, wal=store)


def table_of(rows: Sequence[Pair]) -> pa.Table:
    """Rows to upsert."""
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def store_on(store: ObjectStore, clock: Clock | None = None) -> SlateStore:
    """A `SlateStore` on a store of the test's own."""
    return SlateStore(stores_of(store), clock or SystemClock(), {"path": store.url})


class Job:
    """One write, planned when it is made; `upload` each task, then `commit`."""

    def __init__(
        self,
        place: ObjectStore | Path | str,
        clock: Clock | None = None,
        *,
        operation: Operation = Operation.WRITE,
        own_time: bool = False,
        **options: Any,
    ) -> None:
        self.own_time = own_time  # so that times may be any numbers
        store = LocalStore(place) if isinstance(place, Path | str) else place
        self.stores = stores_of(store)
        self.clock = clock or SystemClock()
        self.options = WriteOptions.parse({"path": store.url, **options})
        timestamp_ms = self.options.timestamp_ms
        found = find_latest_manifest(self.stores)
        self.plan = begin_write(self.stores, self.clock, operation=operation, found=found, timestamp_ms=timestamp_ms)
        self.outputs: list[tuple[NewFile, ...]] = []

    def upload(self, *tables: pa.Table) -> Job:
        """Run a task for each table."""
        fold = resolve_operator(self.options.merge_operator)
        for table in tables:
            stamp = self.plan.stamp(len(self.outputs), self.options)
            encoder = plan_encoder(table.schema, RAW_CODEC, self.options, own_time=self.own_time)
            buffer_bytes = self.options.write_buffer_bytes
            sorter = TaskSorter(table.to_batches(), encoder, stamp, fold, buffer_bytes=buffer_bytes)
            self.outputs.append(upload_task(self.stores, self.clock, sorter, self.options, self.plan.planned_ms))
        return self

    def commit(self) -> CommitRecord | None:
        """Publish what was uploaded."""
        try:
            edit = DROP_TREES if self.plan.operation == "overwrite" else KEEP_TREES
            return commit_write(self.stores, self.clock, self.plan, self.outputs, self.options, edit=edit)
        except BaseException:
            abandon_write(self.stores, self.plan)
            raise
