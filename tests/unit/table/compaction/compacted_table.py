"""A table of a few runs to be compacted, with a clock and counted requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from slatespark import (
    SlateStore,
)
from slatespark.options import WriteOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.plan import Pick
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
_names = itertools.count(1)


class Table:
    """A table in a store that counts requests, with a clock of its own."""

    def __init__(self, schema: pa.Schema | None = None, keys: Sequence[str] | None = None, **properties: Any) -> None:
        self.clock = FakeClock(START_MS)
        store = FailingStore(MemoryStore(f"compact/{next(_names)}"))
        self.objects, self.stores = store, TableStores(main=store, wal=store)
        self.url = store.url
        SlateStore.create(self.url, schema, keys, **{"clock": self.clock, "autoCompact": False, **properties})
        self.store = SlateStore(self.stores, self.clock, {"path": self.url})

    def put(self, keys: Iterable[int], value: bytes = b"v", **options: Any) -> None:
        """Write rows, and let an hour pass."""
        numbers = list(keys)
        columns = {"key": [b"%03d" % key for key in numbers], "value": [value] * len(numbers)}
        self.store.write(pa.table(columns, _RAW), **options)
        self.clock.advance(HOUR_MS)

    def compact(
        self, meanwhile: Callable[[], object] | None = None, *, pick: Pick | None = None, **arguments: Any
    ) -> CompactionReport:
        """Compact, and do something between merge and commit."""
        options = WriteOptions.parse({"path": self.url, **arguments.pop("options", {})})
        runner = None if meanwhile is None else self.interrupted(meanwhile)
        return compact_table(self.stores, self.clock, CompactionRequest(**arguments), options, pick=pick, runner=runner)

    def interrupted(self, meanwhile: Callable[[], object]) -> Any:
        def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
            merged = list(run_here(self.stores, self.clock, tasks))
            meanwhile()
            return merged

        return run

    def layers(self) -> list[str]:
        return [layer.name for layer in self.store.runs()]

    def versions(self) -> list[tuple[bytes, str, bytes | None]]:
        """All stored versions: keys, kinds, values."""
        rows = self.store.scan(readVersions="all").read_all().to_pylist()
        return [(row["_key"], row["_op"], row["value"]) for row in rows]

    def objects_in(self, folder: str) -> set[str]:
        return {meta.path for meta in self.objects.list(folder)}


_RAW = pa.schema([("key", pa.binary()), ("value", pa.binary())])
