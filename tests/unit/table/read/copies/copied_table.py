"""A table whose one run has columnar copies, and what reads of it fetch."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.paths import COLUMNS_DIR
from slatespark.ranges import ByteRange
from slatespark.storage.memory_store import MemoryStore
from tests.support.fake_clock import FakeClock

COLUMNS: Final = [f"c{number}" for number in range(8)]
SCHEMA: Final = pa.schema([("tenant", pa.string()), ("id", pa.int32()), *((name, pa.int64()) for name in COLUMNS)])
ROWS: Final = 2000
GROUP: Final = 250
NAMES = itertools.count()


class Place:
    """A table whose one run has copies, and what reads of it fetched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, schema: pa.Schema = SCHEMA, **properties: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(f"copies-in-scans-{next(NAMES)}/db", self.clock.now_ms)
        given = {"columnar": True, "autoCompact": False, **properties}
        self.table = SlateStore.create(self.store.url, schema, "tenant, id", clock=self.clock, **given)
        self.fetched: list[tuple[str, int]] = []
        get_range = MemoryStore.get_range

        def noted(store: MemoryStore, path: str, span: ByteRange) -> Any:
            self.fetched.append((path, len(span)))
            return get_range(store, path, span)

        monkeypatch.setattr(MemoryStore, "get_range", noted)

    def load(self) -> None:
        self.table.write(rows(range(ROWS)))
        self.table.compact(full=True)

    def bytes_of(self, folder: str) -> int:
        return sum(size for path, size in self.fetched if path.startswith(folder))

    def scan(self, **options: Any) -> list[dict[str, Any]]:
        self.fetched.clear()
        rows: list[dict[str, Any]] = self.table.scan(**options).read_all().to_pylist()
        return rows

    def check(self, **options: Any) -> dict[str, int]:
        """Compare a scan with that of the SSTs, and return how its files are read."""
        assert self.scan(**options) == self.scan(**options, useCopies=False)
        given = {name: value for name, value in options.items() if name != "order"}
        return dict(self.table.explain(**given).copies)

    @property
    def path(self) -> str:
        [meta] = self.store.list(COLUMNS_DIR)
        return meta.path


def rows(numbers: range, add: int = 0, schema: pa.Schema = SCHEMA) -> pa.Table:
    generator = np.random.default_rng(7)
    found = [
        {
            "tenant": "a" if number < ROWS // 2 else "b",
            "id": number,
            **{name: number * 3 + add + int(generator.integers(100)) for name in COLUMNS},
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(found, schema)
