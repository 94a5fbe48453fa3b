"""A change feed of several splits decodes the WAL of its versions once, and shows what each split would show alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.options import ReadOptions
from slatespark.ranges import KeyRange
from slatespark.storage.object_store import Buffer
from slatespark.table.changes.bounds import resolve_bounds
from slatespark.table.changes.feed import fetch_feed_plan
from slatespark.table.changes.plan import ChangePlan, plan_between
from slatespark.table.clock import SystemClock
from slatespark.table.read import fetch
from slatespark.table.stores import open_stores
from slatespark.table.streams.limits import LimitedUnit, Limits
from tests.support.client import Client, ClientOptions, Delete, Location, Put

FILES = 6
SOME = "key IN (X'303031', X'303530', X'313939', X'393939')"
FEEDS: dict[str, dict[str, Any]] = {
    "of two versions": {"startingVersion": 5},
    "from nothing": {"startingVersion": 1},
    "without old rows": {"startingVersion": 5, "preImages": False},
    "range": {"startingVersion": 5, "startKey": b"030", "endKey": b"170"},
    "keys": {"startingVersion": 5, "filter": SOME},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten runs, and above them puts and deletions of a client in six files of the WAL."""
    path, rng = tmp_path_factory.mktemp("feed") / "t", np.random.default_rng(3)
    store = SlateStore.create(str(path), autoCompact=False)
    for number in range(10):
        keys = [b"%03d" % key for key in range(number * 20, number * 20 + 20)]
        store.write(pa.table({"key": keys, "value": [b"v%d" % number] * 20}))
    with Client.open(Location.local(path), ClientOptions()) as client:
        for number in range(FILES):
            keys = [b"%03d" % key for key in rng.choice(250, 20, replace=False).tolist()]
            client.write([Put(key, b"w%d" % number) if rng.integers(3) else Delete(key) for key in keys])
            client.flush_wal()
        client.close(flush=False)
    return path


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the WAL files that were decoded."""
    found: list[int] = []
    decode = fetch._decoded

    def count(stores: Any, files: Sequence[tuple[int, Buffer]]) -> Any:
        found.extend(number for number, _ in files)
        return decode(stores, files)

    monkeypatch.setattr(fetch, "_decoded", count)
    return found


@pytest.mark.parametrize("options", FEEDS.values(), ids=FEEDS)
def test_the_wal_is_decoded_once_for_all_splits(table: Path, decoded: list[int], options: dict[str, Any]) -> None:
    def changes(**more: Any) -> tuple[list[dict[str, Any]], int]:
        decoded.clear()
        return SlateStore.open(str(table)).changes(**options, **more).read_all().to_pylist(), len(decoded)

    together, of_one_split = changes()
    assert of_one_split == FILES
    assert any(row["_change_type"] in ("insert", "upsert") and row["value"].startswith(b"w") for row in together)
    assert changes(splitSize=1) == (together, FILES)
    apart, of_each = changes(splitSize=1, walBuffer=1)
    assert apart == together
    given = ReadOptions.parse({"path": str(table), "readChangeFeed": True, "splitSize": 1, **options})
    splits = fetch_feed_plan(open_stores(str(table), storage={}), given, SystemClock()).splits
    assert of_each == FILES * len(splits)


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(size_bytes=100)], ids=["files", "bytes"])
def test_where_batches_end_by_size_is_told_without_the_wal(table: Path, decoded: list[int], limits: Limits) -> None:
    stores, clock = open_stores(str(table), storage={}), SystemClock()
    given = ReadOptions.parse({"path": str(table), "readChangeFeed": True, "startingVersion": 1})
    bounds = resolve_bounds(stores, given, clock)

    def plan_of(keys: KeyRange, split_bytes: int | None) -> ChangePlan:
        options = given if split_bytes is None else replace(given, split_bytes=split_bytes)
        return plan_between(stores, options, clock, bounds, keys=keys)

    assert LimitedUnit(stores, plan_of, limits).end_of_batch(b"") is not None
    assert not decoded
