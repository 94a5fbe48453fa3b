"""The order of the writes of one commit that the log divides, and which of them are in one part."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.table.changes.log.plan import fetch_log
from slatespark.table.changes.log.scan import scan_log
from tests.support.fake_clock import FakeClock

KEYS, TIMES = 3, 300


@pytest.fixture(scope="module")
def store() -> SlateStore:
    """A history table with one commit, in whose files the versions of a key go on from one file to the next."""
    found = SlateStore.create(
        "memory://log-order", "id BIGINT, ts BIGINT, s STRING", keyColumns="id", history=True, autoCompact=False
    )
    named = [
        (key, ts, hashlib.sha256(b"%d %d" % (key, ts)).hexdigest()) for key in range(KEYS) for ts in range(1, TIMES + 1)
    ]
    rows = [{"id": key, "ts": ts, "s": text} for key, ts, text in named]
    found.write(pa.Table.from_pylist(rows), timestampColumn="ts", sstSize=4096, blockSize=1024)
    assert len([*found.files()]) > 2 * KEYS
    return found


def versions(rows: list[dict[str, Any]]) -> dict[int, list[int]]:
    found = defaultdict(list)
    for row in rows:
        found[row["id"]].append(row["ts"])
    return dict(found)


@pytest.mark.parametrize("split_bytes", [1, 2000, 6000, 1 << 20])
def test_versions_of_a_key_come_in_their_order_and_in_one_part(store: SlateStore, split_bytes: int) -> None:
    """Whoever applies the writes in this order, or part by part, has the newest version of each key at the end."""
    asked = {"readChangeFeed": True, "changes": "log", "startingVersion": 1, "splitSize": split_bytes}
    plan = fetch_log(store._stores, store._read_options(asked), FakeClock(1_000_000))
    found = [
        versions([row for batch in scan_log(store._stores, split, plan.settings) for row in batch.to_pylist()])
        for split in plan.splits
    ]
    parts = [part for part in found if part]  # a key range may be empty
    assert len(parts) == (1 if split_bytes > 100_000 else KEYS)
    assert [key for part in parts for key in part] == list(range(KEYS))
    assert all(times == list(range(1, TIMES + 1)) for part in parts for times in part.values())


def test_rows_that_decompress_to_more_than_the_buffer_come_some_at_a_time() -> None:
    """The keys of a commit are divided by stored bytes, of which there are few; each key is whole all the same."""
    found = SlateStore.create("memory://log-memory", autoCompact=False)
    keys = [b"%04d" % number for number in range(1000)]
    rows = pa.table({"key": keys, "value": [b"v" * 100_000] * len(keys)})  # 100 MB
    found.write(rows, compression="zstd")
    feed = found.changes(changes="log", startingVersion=1, readBuffer="4m", columns="key")
    tracemalloc.start()
    try:
        shown = [key for batch in feed for key in batch.column("key").to_pylist()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown == keys
    assert peak < 32_000_000


@pytest.mark.parametrize("buffer", [1, 3000, 30_000])
def test_a_small_buffer_parts_no_key(store: SlateStore, buffer: int) -> None:
    rows = store.changes(changes="log", startingVersion=1, readBuffer=buffer).read_all().to_pylist()
    assert versions(rows) == {key: list(range(1, TIMES + 1)) for key in range(KEYS)}
