"""A table whose rows are reaped, with a clock and counted requests."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from slatespark import (
    SlateStore,
)
from slatespark.kernels.columns import Visibility
from slatespark.options import WriteOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.job import begin_write
from slatespark.table.commit.tree_edit import ReplaceViews
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.scan import visible_windows
from slatespark.table.records.operations import Operation
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import reap_table
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import upload_sorted
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
_names = itertools.count(1)


class Table:
    """A table in a store that counts requests, with a clock of its own."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock(START_MS)
        store = FailingStore(MemoryStore(f"reap/{next(_names)}"))
        self.store, self.stores = store, TableStores(main=store, wal=store)
        given = {"clock": self.clock, **properties}
        SlateStore.create(store.inner.url, **given)
        self.table = SlateStore(self.stores, self.clock, {"path": self.stores.url})

    def write(self, keys: Any, value: bytes = b"v", **options: Any) -> int:
        keys = list(keys)
        return self.table.write(pa.table({"key": keys, "value": [value] * len(keys)}), **options)

    def reap(self, **given: Any) -> ReapReport:
        self.store.clear()
        return reap_table(self.stores, self.clock, **given)

    def keys(self, **options: Any) -> list[bytes]:
        found: list[bytes] = self.table.scan(mergeOperator="concat", **options).read_all()["key"].to_pylist()
        return found

    def data_reads(self) -> list[str]:
        """Paths of SSTs that were read."""
        calls = self.store.matching(path="compacted/*")
        return [call.path for call in calls if call.operation.startswith(("get", "head"))]

    def other(self) -> SlateStore:
        """The same table for another client, whose requests are not counted."""
        stores = TableStores(main=self.store.inner, wal=self.store.inner)
        return SlateStore(stores, FakeClock(self.clock.now_ms(), seed=7), {"path": stores.url})

    def pass_time(self, by_ms: int) -> None:
        """Let time pass, plus the allowed skew of clocks."""
        self.clock.advance(by_ms + SKEW_MS)


def ignore(answer: object) -> None:
    """Call a function, and ignore its result."""


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%08d" % number for number in range(first, end)]


def merged_file(table: Table, **given: str) -> None:
    """Put all rows into one file, with their sequence numbers and times; into several with a small `sstSize`."""

    found = fetch_latest_manifest(table.stores)
    layers = fetch_layers(table.stores, found[1])
    cursors = [LayerCursor(layer_windows(table.stores, layer, 1 << 20)) for layer in layers]
    everything = Visibility(max_seq=2**62, now_ms=0, all_versions=True)
    pieces = (SortedRows(sources, chosen.rows) for sources, chosen in visible_windows(cursors, everything, None))
    options = WriteOptions.parse({"path": table.stores.url, **given})
    job = begin_write(
        table.stores, table.clock, operation=Operation.COMPACT, found=found, definition=table.table.definition
    )
    files = upload_sorted(table.stores.main, pieces, options, table.clock, job.planned_ms)
    first, *others = found[1].views()
    edit = ReplaceViews({first: files, **dict.fromkeys(others, ())})
    commit_write(table.stores, table.clock, job, (), options, edit=edit)
