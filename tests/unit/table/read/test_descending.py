"""Descending reads hold little, also where the plan cuts the files at their first keys alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read import descending
from slatespark.table.read.planning import plan
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.reader import options_for_order
from slatespark.table.read.scan import scan_split
from tests.support.wal_files import encode_wal, forget_own_commits

ROWS = 12_000
PART_BYTES = 16 << 10


@pytest.fixture
def held_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each part has that was read and held; parts are small."""
    found: list[int] = []

    def spied(stores: Any, split: Split, *others: Any) -> Iterator[pa.RecordBatch]:
        batches = [*scan_split(stores, split, *others)]
        found.append(sum(map(len, batches)))
        return iter(batches)

    monkeypatch.setattr(descending, "DESCENDING_SPLIT_BYTES", PART_BYTES)
    monkeypatch.setattr(descending, "scan_split", spied)
    return found


def scan(store: SlateStore, order: str, **options: Any) -> pa.RecordBatchReader:
    """Return a scan whose plan knew keys within one of the files alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MAX_SAMPLED_INDEXES", 1)
        return store.scan(order=order, splitSize=PART_BYTES, parallelism=1, **options)


def rows_of(store: SlateStore, order: str, **options: Any) -> list[dict[str, Any]]:
    return list(scan(store, order, **options).read_all().to_pylist())


def key(number: int) -> bytes:
    return b"key-%06d" % number


def fill(store: SlateStore) -> None:
    """Write one run of several files, some newer rows and deletions above it, and rows that only the WAL has."""
    keys = [key(number) for number in range(ROWS)]
    store.write(pa.table({"key": keys, "value": [b"v" * 40] * ROWS}), sstSize="192k")
    store.write(pa.table({"key": keys[::7], "value": [b"newer"] * len(keys[::7])}))
    store.delete(keys=keys[3::100])
    latest = fetch_latest_manifest(store._stores).value
    for number, at in enumerate((5, ROWS - 2, ROWS + 10), 1):
        row = Row(key(at), latest.last_l0_seq + number, value=b"wal", create_ts_ms=1)
        store._stores.wal.put(wal_path(latest.wal_id_last_seen + number), [encode_wal([row])])
    forget_own_commits(store)


@pytest.mark.parametrize("columnar", [False, True])
def test_a_plan_of_many_files(held_rows: list[int], columnar: bool) -> None:
    store = SlateStore.create(f"memory://descending/{columnar}", autoCompact=False)
    fill(store)
    if columnar:
        store.compact(columnar=True)
    expected = rows_of(store, "asc")
    assert len(expected) == ROWS - len(range(3, ROWS, 100)) + 1
    assert rows_of(store, "desc") == expected[::-1]
    assert max(held_rows) < ROWS // 10
    assert len(held_rows) < 200
    for options in ({"startKey": key(100), "endKey": key(9000)}, {"filter": "_seq > 0"}, {"keyPrefix": b"key-0001"}):
        assert rows_of(store, "desc", **options) == rows_of(store, "asc", **options)[::-1]


def test_the_last_rows_read_one_part(held_rows: list[int]) -> None:
    store = SlateStore.create("memory://descending/last", autoCompact=False)
    fill(store)
    reader = scan(store, "desc")
    assert reader.read_next_batch()["key"][0].as_py() == key(ROWS + 10)
    assert len(held_rows) <= 2


def test_a_split_size_of_none_is_not_given() -> None:
    small = descending.DESCENDING_SPLIT_BYTES
    assert options_for_order("desc", {"splitSize": None, "columns": "id"}) == {"splitSize": small, "columns": "id"}
    assert options_for_order("desc", {"split_size": None}) == {"splitSize": small}
    assert options_for_order("desc", {"split_size": "1g"}) == {"split_size": "1g"}
    assert options_for_order("asc", {"splitSize": "1g"}, threads=2) == {"splitSize": "1g"}
