"""slatespark without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks.typed_schema import KEYS
from slatespark import SlateStore


class SlateStoreTable:
    """A table of `SlateStore`, with its defaults."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder)

    def load(self, rows: pa.Table) -> None:
        SlateStore.create(self._path, rows.schema, list(KEYS)).write(rows)

    def scan(self, columns: list[str]) -> pa.Table:
        return self._store().scan(columns=columns).read_all()

    def look_up(self, condition: str) -> pa.Table:
        return self._store().scan(filter=condition).read_all()

    def look_up_keys(self, keys: pa.Table) -> pa.Table:
        return self._store().lookup(keys).read_all()

    def upsert(self, rows: pa.Table) -> None:
        self._store().write(rows)

    def delete_keys(self, keys: pa.Table) -> None:
        self._store().write(keys, operation="delete")

    def delete_range(self, condition: str) -> None:
        self._store().deleteRange(condition)

    def replace_range(self, condition: str, rows: pa.Table) -> None:
        self._store().write(rows, mode="overwrite", replaceWhere=condition)

    def compact(self) -> None:
        self._store().compact(full=True)

    def stored_bytes(self) -> int:
        return self._store().detail().stored_bytes

    def _store(self) -> SlateStore:
        return SlateStore.open(self._path)
