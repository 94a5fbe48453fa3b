"""Batches of a stream as its sink writes them, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from slatespark.options.streaming import StreamWriteOptions
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import SystemClock
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.table.write.load import Load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.table.write.stream_batch import StreamBatch, commit_batch


@dataclass(slots=True)
class Batch:
    """A batch whose rows are uploaded."""

    store: ObjectStore
    load: Load
    files: tuple[NewFile, ...]
    named: StreamBatch

    def commit(self) -> CommitRecord | None:
        """Commit it, as a process of its own does."""
        return commit_batch(_stores(self.store), SystemClock(), self.load, [self.files], self.named)


@dataclass(slots=True)
class Stream:
    """A query into a table."""

    store: ObjectStore
    query: str = "query"
    options: dict[str, Any] = field(default_factory=dict)

    def upload(self, number: int, rows: pa.Table, *, overwrite: bool = False) -> Batch:
        """Plan a batch, and write its rows as one task."""
        options = StreamWriteOptions.parse({"path": self.store.url, **self.options})
        stores, clock = _stores(self.store), SystemClock()
        load = begin_load(stores, clock, rows.schema, options.write, overwrite=overwrite)
        assert load is not None
        files = run_task(stores, clock, load, 0, rows.to_batches())
        return Batch(self.store, load, files, StreamBatch(self.query, number, options.name))

    def write(self, number: int, rows: pa.Table, *, overwrite: bool = False) -> CommitRecord | None:
        """Write and commit a batch."""
        return self.upload(number, rows, overwrite=overwrite).commit()


def _stores(store: ObjectStore) -> TableStores:
    return TableStores(main=store, wal=store)
