"""`SlateStore.snapshot` and `refresh`: reads of one moment, and of a state that may be a little old."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, InvalidRequestError, OptionError, SlateStore, SnapshotExpiredError
from tests.support.counted_tables import CountedTable
from tests.support.fake_clock import FakeClock

NOW_MS = 1_800_000_000_000
_names = itertools.count()


def new_store(clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    return SlateStore.create(f"memory://snapshots-{next(_names)}", clock=clock or FakeClock(NOW_MS), **properties)


def put(store: SlateStore, key: bytes, value: bytes, **options: Any) -> int:
    return store.write(pa.table({"key": [key], "value": [value]}), **options)


def keys(rows: pa.RecordBatchReader) -> list[bytes]:
    found: list[bytes] = rows.read_all()["key"].to_pylist()
    return found


def test_all_reads_of_a_snapshot_show_the_same_rows() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    first = put(store, b"a", b"1", ttl="1h")
    snapshot = store.snapshot()
    put(store, b"a", b"2")
    put(store, b"b", b"1")
    clock.advance(3_600_001)
    assert (snapshot.version, snapshot.now, snapshot.seq) == (first, NOW_MS, 1)
    assert snapshot.get(b"a") == {"key": b"a", "value": b"1"}
    assert snapshot.get(b"b") is None
    assert keys(snapshot.scan()) == [b"a"]
    assert keys(store.scan("desc")) == [b"b", b"a"]


def test_a_snapshot_of_the_past() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock, history="true")
    first = put(store, b"a", b"1")
    clock.advance(1)
    put(store, b"a", b"2")
    assert store.snapshot(versionAsOf=first).get(b"a") == {"key": b"a", "value": b"1"}
    assert store.snapshot(seqAsOf=1).scan().read_all().num_rows == 1
    assert [row["value"] for row in store.snapshot().versions().read_all().to_pylist()] == [b"2", b"1"]
    with pytest.raises(InvalidRequestError):
        store.snapshot(versionAsOf=99)
    with pytest.raises(HistoryTrimmedError):
        store.snapshot(timestampAsOf=0)


def test_a_look_up_in_a_snapshot_looks_for_no_newer_version() -> None:
    store = new_store()
    put(store, b"a", b"1")
    table = CountedTable(store.url)
    snapshot = table.store.snapshot()
    snapshot.get(b"a")
    spent = table.spent(lambda _: snapshot.get(b"a"))
    assert (spent.list, spent.put, spent.get) == (0, 0, 1)


def test_options_that_do_not_apply_are_refused() -> None:
    store = new_store()
    put(store, b"a", b"1")
    snapshot = store.snapshot()
    for name in ("versionAsOf", "pin", "readChangeFeed", "path", "clock", "storage.key"):
        with pytest.raises(OptionError, match=name):
            snapshot.get(b"a", **{name: 1})
    for name in ("filter", "startKey", "columns", "refresh", "mode"):
        with pytest.raises(OptionError, match=name):
            store.snapshot(**{name: "1"})
    with pytest.raises(OptionError, match="order"):
        snapshot.scan(order="sideways")


def test_a_pin_keeps_the_files_of_a_snapshot() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    for value in (b"1", b"2"):
        put(store, b"a", value)
    kept, loose = store.snapshot(pin="2h"), store.snapshot()
    put(store, b"a", b"3")
    store.compact(full=True)
    clock.advance(3_700_000)
    store.vacuum("1h")
    assert kept.get(b"a") == {"key": b"a", "value": b"2"}
    clock.advance(7_300_000)
    store.vacuum("1h")
    with pytest.raises(SnapshotExpiredError):
        loose.scan().read_all()


# --- refresh --------------------------------------------------------------------------------------------------------


def reopened(store: SlateStore, clock: FakeClock, refresh: Any) -> SlateStore:
    return SlateStore.open(store.url, clock=clock, refresh=refresh)


def test_a_state_is_kept_up_to_the_duration() -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    put(writer, b"a", b"1")
    store = reopened(writer, clock, "10s")
    assert keys(store.scan()) == [b"a"]
    put(writer, b"b", b"1")
    clock.advance(9_999)
    assert (keys(store.scan()), store.get(b"b")) == ([b"a"], None)
    clock.advance(1)
    assert (keys(store.scan()), store.get(b"a")) == ([b"a", b"b"], {"key": b"a", "value": b"1"})
    put(writer, b"c", b"1")
    clock.advance(-1)  # the clock is set back
    assert store.get(b"c") is not None


def test_own_writes_and_chosen_versions_are_read_at_once() -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    store = reopened(writer, clock, "1h")
    assert store.get(b"a") is None
    put(store, b"a", b"1")
    assert store.get(b"a") is not None
    newer = put(writer, b"b", b"1")
    assert store.get(b"b") is None
    assert store.get(b"b", versionAsOf=newer) is not None
    with pytest.raises(OptionError, match="changes"):
        store.scan(readChangeFeed=True, startingVersion=1)


def test_an_operation_that_is_run_to_be_explained_is_an_own_write() -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    put(writer, b"a", b"1")
    put(writer, b"b", b"1")
    store = reopened(writer, clock, "1h")
    assert keys(store.scan()) == [b"a", b"b"]
    store.explain("erase", keys=[b"a"], analyze=True)
    assert (keys(store.scan()), store.get(b"a")) == ([b"b"], None)


def test_expiry_is_judged_by_the_present() -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    put(writer, b"a", b"1", ttl="1m")
    store = reopened(writer, clock, "1h")
    assert store.get(b"a") is not None
    clock.advance(60_000)
    assert store.get(b"a") is None


def test_look_ups_of_a_kept_state_look_for_nothing_newer() -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    put(writer, b"a", b"1")
    table = CountedTable(writer.url, clock, refresh_ms=3_600_000)
    table.store.get(b"a")
    spent = table.spent(lambda store: store.get(b"a"))
    assert (spent.list, spent.put, spent.get) == (0, 0, 1)


@pytest.mark.parametrize(
    "read",
    [
        lambda table: keys(table.scan()),
        lambda table: [table.get(b"b")["key"]],
        lambda table: keys(table.lookup(pa.table({"key": [b"a", b"b"]}))),
    ],
    ids=["scan", "get", "lookup"],
)
def test_a_state_whose_files_were_collected_is_kept_no_longer(read: Callable[[SlateStore], list[bytes]]) -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    writer.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"1"]}))
    table = reopened(writer, clock, "1h")
    assert keys(table.scan()) == [b"a", b"b"]
    writer.erase(b"a")
    with pytest.raises(SnapshotExpiredError):
        read(table)
    assert read(table) == [b"b"]


def test_a_chosen_version_that_was_collected_leaves_the_kept_state() -> None:
    clock = FakeClock(NOW_MS)
    writer = new_store(clock)
    old = put(writer, b"a", b"1")
    writer.write(pa.table({"key": [b"a"], "value": [b"2"]}), mode="overwrite")
    clock.advance(1 << 40)
    writer.vacuum("0s", force=True)
    table = CountedTable(writer.url, clock, refresh_ms=3_600_000)
    table.store.get(b"a")
    with pytest.raises(SnapshotExpiredError):
        table.store.get(b"a", versionAsOf=old)
    spent = table.spent(lambda store: store.get(b"a"))
    assert (spent.list, spent.put, spent.get) == (0, 0, 1)


@pytest.mark.parametrize("refresh", ["sometimes", "-1s", "", -1])
def test_a_refresh_that_is_no_duration_is_refused(refresh: Any) -> None:
    with pytest.raises(OptionError, match="refresh"):
        SlateStore.open(new_store().url, refresh=refresh)


def test_a_table_with_a_refresh_can_be_pickled(tmp_path: Path) -> None:
    writer = SlateStore.create(tmp_path / "t")
    writer.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    table = SlateStore.open(writer.url, refresh="1h")
    assert table.get(b"b") is None
    writer.write(pa.table({"key": [b"b"], "value": [b"2"]}))
    sent = pickle.loads(pickle.dumps(table))
    assert table.get(b"b") is None
    assert sent.get(b"b") is not None, "what was kept does not travel"
    writer.write(pa.table({"key": [b"c"], "value": [b"3"]}))
    assert sent.get(b"c") is None, "it keeps what it has read"
