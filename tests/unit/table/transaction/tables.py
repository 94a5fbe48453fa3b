"""Stores for tests of transactions, and what they show."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa

from slatespark import (
    SlateStore,
)
from slatespark.table.transaction.transaction import Transaction
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
SCHEMA = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("amount", pa.int64())])
store_numbers = count()


def new_store(*columns: Any, clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    return SlateStore.create(
        f"memory://transactions-{next(store_numbers)}", *columns, clock=clock or FakeClock(NOW_MS), **properties
    )


def typed_store(**properties: Any) -> SlateStore:
    return new_store(SCHEMA, ["tenant", "id"], **properties)


def amounts(*rows: tuple[str, int, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def pairs(*rows: tuple[bytes, bytes], **more: Any) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary()), **more})


def shown(source: SlateStore | Transaction, **options: Any) -> list[tuple[Any, ...]]:
    reader = source.scan(**options) if isinstance(source, SlateStore) else source.read(**options)
    return [tuple(row.values()) for row in reader.read_all().to_pylist()]


def stored(store: SlateStore, *columns: str) -> list[tuple[Any, ...]]:
    """All row versions, times in ms since `NOW_MS`."""
    names = [f"_{name}" for name in ("key", "seq", "op", "create_ts", "expire_ts")]
    rows = store.scan(readVersions="all", includeExpired=True, columns=[*columns, *names]).read_all().to_pylist()
    for row in rows:
        for name in ("_create_ts", "_expire_ts"):
            row[name] = None if row[name] is None else round(row[name].timestamp() * 1000) - NOW_MS
    return [tuple(row[name] for name in (*columns, "_op", "_create_ts", "_expire_ts")) for row in rows]


def shown_for_update(txn: Transaction, *given: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in txn.getForUpdate(*given, **options).read_all().to_pylist()]
