"""Rows past a table's retention are hidden wherever rows are read, and never uncover older versions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slatespark.table.read.scan as scan
from slatespark import CorruptDataError, SlateStore
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.kernels.columns import Visibility
from slatespark.options import ReadOptions
from slatespark.table.definition.versions import definition_path
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows, memory_windows
from slatespark.table.read.merge.retention import may_be_due, retired_until_ms
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.read.scan import visible_windows
from slatespark.table.stores import TableStores, open_stores
from slatespark.units import MAX_MS, MIN_MS
from tests.support.fake_clock import FakeClock
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.read.test_scan import CONCAT

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
LATEST = Visibility(max_seq=2**63, now_ms=0)
_names = itertools.count(1)


# --- the merge ------------------------------------------------------------------------------------------------------


def shown(windows: Any) -> list[Row]:
    found: list[Row] = []
    for sources, selection in windows:
        assert not selection.marks.any()
        found.extend(columns_to_rows(take_rows(sources, selection.rows)))
    return found


@pytest.mark.parametrize("window_bytes", [1, 1 << 20])
def test_a_group_of_operands_is_as_young_as_its_youngest(window_bytes: int) -> None:
    stores = new_stores()
    rows = [
        Row(b"a", 9, RowKind.MERGE, b"2", create_ts_ms=90),
        Row(b"a", 2, RowKind.PUT, b"1", create_ts_ms=20),
        Row(b"b", 8, RowKind.MERGE, b"2"),
        Row(b"b", 3, RowKind.PUT, b"1", create_ts_ms=30),
        Row(b"c", 7, RowKind.MERGE, b"2"),
        Row(b"c", 4, RowKind.PUT, b"1"),
    ]
    for retired_ms, keys in ((19, b"abc"), (30, b"ac"), (89, b"ac"), (90, b"c")):
        cursors = [LayerCursor(layer_windows(stores, layer_of(stores, rows), window_bytes))]
        found = shown(visible_windows(cursors, LATEST, CONCAT, retired_ms=retired_ms))
        assert b"".join(row.key for row in found) == keys


@pytest.mark.parametrize("window_bytes", [1, 1 << 20])
def test_what_is_hidden_needs_no_operator(window_bytes: int) -> None:
    stores = new_stores()
    rows = [Row(b"a", 9, RowKind.MERGE, b"2", create_ts_ms=10), Row(b"b", 8, RowKind.PUT, b"1", create_ts_ms=50)]
    cursors = [LayerCursor(layer_windows(stores, layer_of(stores, rows), window_bytes))]
    assert shown(visible_windows(cursors, LATEST, None, retired_ms=10)) == rows[1:]


def layer_of(stores: TableStores, rows: list[Row]) -> Layer:
    return Layer("L0", (put_file(stores, rows, block_size=1),))


def test_windows_of_young_rows_are_not_looked_at_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is due")

    monkeypatch.setattr(scan, "hide_retired", refuse)
    rows = rows_to_columns([Row(b"a", 2, create_ts_ms=11), Row(b"b", 1, create_ts_ms=12)])
    for retired_ms in (None, 10):
        cursors = [LayerCursor(memory_windows(rows))]
        assert len(shown(visible_windows(cursors, LATEST, None, retired_ms=retired_ms))) == 2


def test_only_rows_that_are_left_in_a_window_count() -> None:
    rows = rows_to_columns([Row(b"a", 2, create_ts_ms=5), Row(b"b", 1, create_ts_ms=12)])
    for low, high, due in ((0, 2, True), (1, 2, False), (0, 1, True), (1, 1, False)):
        assert may_be_due([rows], np.array([low]), np.array([high]), 5) is due


@pytest.mark.parametrize(
    ("retention_ms", "now_ms", "until_ms"),
    [
        (None, 5, None),
        (0, 5, 5),
        (10, 5, -5),
        (MAX_MS, -1, MIN_MS),
        (MAX_MS, -2, None),
        (MAX_MS, MIN_MS, None),
        (0, MIN_MS, MIN_MS),
        (0, MAX_MS, MAX_MS),
        (1, MAX_MS, MAX_MS - 1),
    ],
)
def test_the_boundary(retention_ms: int | None, now_ms: int, until_ms: int | None) -> None:
    assert retired_until_ms(retention_ms, now_ms) == until_ms


@pytest.mark.parametrize("created_ms", [MIN_MS, -1, 0, 1, MAX_MS])
def test_instants_at_the_ends_of_time(created_ms: int) -> None:
    rows = rows_to_columns([Row(b"a", 2, create_ts_ms=created_ms), Row(b"b", 1)])
    for retired_ms in {MIN_MS, max(created_ms - 1, MIN_MS), created_ms, MAX_MS}:
        found = shown(visible_windows([LayerCursor(memory_windows(rows))], LATEST, None, retired_ms=retired_ms))
        assert [row.key for row in found] == ([b"b"] if created_ms <= retired_ms else [b"a", b"b"])


# --- tables ---------------------------------------------------------------------------------------------------------


def new_store(clock: FakeClock, **properties: Any) -> SlateStore:
    return SlateStore.create(f"memory://retention-{next(_names)}", clock=clock, **properties)


def put(store: SlateStore, *keys: bytes, **options: Any) -> None:
    store.write(pa.table({"key": list(keys), "value": [b"v" for _ in keys]}), **options)


def keys_of(store: SlateStore, order: str = "asc", **options: Any) -> bytes:
    return b"".join(store.scan(order, **options).read_all()["key"].to_pylist())


def test_every_read_hides_a_row_from_its_deadline_on() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    put(store, b"a")
    clock.advance(1000)
    put(store, b"b")
    for now, keys in ((START_MS + HOUR_MS - 1, b"ab"), (START_MS + HOUR_MS, b"b"), (START_MS + HOUR_MS + 1000, b"")):
        for clocked in (False, True):
            if clocked:
                clock.advance(now - clock.now_ms())
            at: dict[str, Any] = {} if clocked else {"now": now}
            assert keys_of(store, **at) == keys
            assert keys_of(store, "desc", **at) == keys[::-1]
            assert keys_of(store, filter="key = X'61' AND value IS NOT NULL", **at) == keys[:-1]
            assert keys_of(store, filter="key >= X'61'", **at) == keys
            assert keys_of(store, keyPrefix="61", **at) == keys[:-1]
            assert (store.get(b"a", **at) is not None) == (b"a" in keys)
            assert keys_of(store, includeExpired=True, **at) == b"ab"
            assert keys_of(store, readVersions="all", **at) == b"ab"
            assert store.get(b"a", includeExpired=True, **at) is not None


def test_a_property_takes_effect_on_the_next_read_and_can_be_taken_back() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock)
    version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    clock.advance(HOUR_MS)
    other = SlateStore.open(store.url, clock=clock)
    assert keys_of(other) == b"a"
    before = other.scan()  # its snapshot is taken
    for retention, keys in (("1h", b""), ("61m", b"a"), ("0ms", b""), ("none", b"a"), (2**63 - 1, b"a")):
        store.setProperties(retention=retention)
        assert keys_of(other) == keys
    store.setProperties(retention="1h")
    assert before.read_all().num_rows == 1
    assert keys_of(other, versionAsOf=version, now=START_MS + HOUR_MS) == b"", "the newest definition counts"
    assert keys_of(other, versionAsOf=version) == b"a", "at the tick of that version"


def test_a_retired_row_uncovers_nothing_and_writing_it_again_renews_it() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    put(store, b"a", b"b")
    clock.advance(HOUR_MS // 2)
    put(store, b"b")
    clock.advance(HOUR_MS // 2)
    assert keys_of(store) == b"b"
    clock.advance(HOUR_MS // 2)
    assert keys_of(store) == b""
    put(store, b"a")
    assert keys_of(store) == b"a"


def test_tombstones_are_shown_however_old() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    put(store, b"a", b"b")
    store.write(pa.table({"key": [b"a"]}), operation="delete")
    clock.advance(2 * HOUR_MS)
    assert keys_of(store, includeDeleted=True) == b"a"


def test_ttl_and_retention_end_a_row_whichever_comes_first() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    put(store, b"a", ttl="30m")
    put(store, b"b", ttl="2h")
    assert keys_of(store, now=START_MS + HOUR_MS // 2) == b"b"
    assert keys_of(store, now=START_MS + HOUR_MS) == b""
    assert keys_of(store, now=START_MS + 2 * HOUR_MS, includeExpired=True) == b"ab"


def test_a_delete_by_condition_sees_what_a_read_sees() -> None:
    clock = FakeClock(START_MS)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    store = SlateStore.create(f"memory://retention-{next(_names)}", schema, "id", clock=clock, retention="1h")
    store.write(pa.table({"id": [1], "name": ["old"]}, schema=schema))
    clock.advance(HOUR_MS)
    store.write(pa.table({"id": [2], "name": ["new"]}, schema=schema))
    assert [row["id"] for row in store.scan().read_all().to_pylist()] == [2]
    store.delete("name IS NOT NULL")
    deleted = store.scan(readVersions="all", metadataColumns="op").read_all().to_pylist()
    assert [row["id"] for row in deleted if row["_op"] == "delete"] == [2]
    assert store.get(1) is None


def test_one_instant_for_all_splits() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    for key in (b"a", b"b", b"c"):
        put(store, key)
    batches = store.scan(splitSize=1)
    first = batches.read_next_batch()
    clock.advance(2 * HOUR_MS)
    assert first.num_rows + sum(len(batch) for batch in batches) == 3
    plan = fetch_read_plan(open_stores(store.url, storage={}), ReadOptions.parse({"path": store.url}), clock)
    assert plan.settings.retired_ms == plan.now_ms - HOUR_MS


@pytest.mark.parametrize("text", [b"soon", b"-1", b"9" * 5000, b""])
def test_a_retention_that_is_no_duration_is_damage(text: bytes) -> None:
    store = new_store(FakeClock(START_MS), retention="1h")
    stores, path = open_stores(store.url, storage={}), definition_path(1)
    stores.main.put(path, [bytes(stores.main.get(path)).replace(b'"1h"', b'"%s"' % text)])
    with pytest.raises(CorruptDataError, match="retention"):
        store.scan()
