"""`clone(history=True)`: a history table that begins with the rows of a plain one, from their times on."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.hold import is_hold
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.versions.floor import HistoryFloors
from slatespark.table.stores import open_stores
from slatespark.table.write.clone import clone_table
from slatespark.units import ms_to_text
from tests.faults.jobs import stores_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import to_ms

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000

_numbers = count()


class Family:
    """A plain table with two rows, written a minute apart, and its clone, made another minute later."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock(NOW_MS)
        self.folder = f"memory://history-clones-{next(_numbers)}"
        SlateStore.create(f"{self.folder}/plain", **{"clock": self.clock, **properties})
        self.plain = SlateStore.open(f"{self.folder}/plain", clock=self.clock)
        self.own_time = properties.get("clock") == "custom"
        self.put(b"a", b"gone")
        self.versions = [self.put(b"a", b"1"), self.put(b"b", b"2")]
        self.clock.advance(MINUTE_MS)

    def put(self, key: bytes, value: bytes) -> int:
        self.clock.advance(MINUTE_MS)
        timestamp: dict[str, Any] = {"timestamp": self.clock.now_ms()} if self.own_time else {}
        return self.plain.write(pa.table({"key": [key], "value": [value]}), **timestamp)

    def clone(self, **given: Any) -> SlateStore:
        return self.plain.clone(f"{self.folder}/clone-{next(_numbers)}", history=True, **given)


def write(store: SlateStore, key: bytes, value: bytes, ts: int) -> int:
    return store.write(pa.table({"key": [key], "value": [value], "ts": [ts]}), timestampColumn="ts")


def shown(store: SlateStore, **options: Any) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in store.scan(**options).read_all().to_pylist()}


def test_rows_are_valid_from_their_times_on() -> None:
    family = Family()
    store = family.clone()
    rows = store.versions().read_all().to_pylist()
    valid = [(row["key"], row["value"], to_ms(row["_valid_from"]), row["_is_current"]) for row in rows]
    assert valid == [(b"a", b"1", NOW_MS + 2 * MINUTE_MS, True), (b"b", b"2", NOW_MS + 3 * MINUTE_MS, True)]
    assert shown(store) == {b"a": b"1", b"b": b"2"}
    assert not family.plain.definition.has_history


def test_its_history_begins_with_the_clone() -> None:
    family = Family()
    store, began_ms = family.clone(), family.clock.now_ms()
    assert store.detail().history_floors == HistoryFloors(began_ms, began_ms)
    assert shown(store, timestampAsOf=began_ms) == {b"a": b"1", b"b": b"2"}
    with pytest.raises(HistoryTrimmedError, match=ms_to_text(began_ms)):
        shown(store, timestampAsOf=began_ms - 1)
    with pytest.raises(CommitConflictError, match="floor"):
        write(store, b"c", b"late", began_ms - 1)
    family.clock.advance(10)
    write(store, b"a", b"3", began_ms + 5)
    store.deleteRange(startKey=b"b", timestamp=began_ms + 6)
    write(store, b"a", b"4", began_ms + 7)
    store.compact(full=True)
    states = [shown(store, timestampAsOf=began_ms + later) for later in (4, 5, 6, 7)]
    assert states == [{b"a": b"1", b"b": b"2"}, {b"a": b"3", b"b": b"2"}, {b"a": b"3"}, {b"a": b"4"}]
    assert not store.verify().has_damage


def test_it_begins_behind_what_others_remove_while_the_state_is_fixed() -> None:
    """A range that is cut away leaves no trace, not even a clock tick."""
    family = Family()
    inner = MemoryStore(f"{family.folder}/plain".removeprefix("memory://"))

    def cut() -> None:
        family.clock.advance(MINUTE_MS)
        family.plain.deleteRange(startKey=b"b")

    stores, target = stores_of(FailingStore(inner).run(cut, "create", "manifest/*")), f"{family.folder}/clone"
    began_ms = family.clock.now_ms()
    clone_table(stores, family.clock, target, history=True)
    store = SlateStore.open(target, clock=family.clock)
    assert shown(store) == {b"a": b"1"}
    with pytest.raises(HistoryTrimmedError):  # b was there then
        shown(store, timestampAsOf=began_ms)


def test_of_an_older_version_it_begins_with_that() -> None:
    family = Family()
    store = family.clone(version=family.versions[0])
    assert shown(store) == {b"a": b"1"}
    floors = store.detail().history_floors
    assert floors is not None
    assert floors.stored_ms == NOW_MS + 2 * MINUTE_MS


def test_a_table_with_a_clock_of_its_own_begins_with_its_tick() -> None:
    family = Family(clock="custom")
    store = family.clone()
    assert store.definition.full_history_ts_low_ms == NOW_MS + 3 * MINUTE_MS
    write(store, b"a", b"3", NOW_MS + 5 * MINUTE_MS)
    assert shown(store, timestampAsOf=NOW_MS + 4 * MINUTE_MS) == {b"a": b"1", b"b": b"2"}


def test_an_empty_table_has_no_floor() -> None:
    folder = f"memory://history-clones-{next(_numbers)}"
    plain = SlateStore.create(f"{folder}/plain", clock=FakeClock(NOW_MS))
    store = plain.clone(f"{folder}/clone", history=True)
    assert store.definition.full_history_ts_low_ms is None
    write(store, b"a", b"1", 10)
    assert shown(store, timestampAsOf=10) == {b"a": b"1"}


def test_of_a_history_table_it_changes_nothing() -> None:
    folder = f"memory://history-clones-{next(_numbers)}"
    first = SlateStore.create(f"{folder}/first", clock=FakeClock(NOW_MS), history=True)
    write(first, b"a", b"1", 10)
    store = first.clone(f"{folder}/clone", history=True)
    assert shown(store, timestampAsOf=10) == {b"a": b"1"}
    assert store.definition.full_history_ts_low_ms is None


def test_a_clone_keeps_the_schedulers_of_clients_off_from_the_beginning() -> None:
    folder = f"memory://history-clones-{next(_numbers)}"
    store = SlateStore.create(f"{folder}/held", history=True, holdHistory=True)
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    clone = store.clone(f"{folder}/clone")
    stores = open_stores(clone.url, storage={})
    listed, manifest = fetch_compactions(stores).value, fetch_latest_manifest(stores).value
    (job,) = listed.active_jobs()
    assert is_hold(job)
    assert set(job.spec.sorted_runs) == set(manifest.run_ids())
    assert listed.compactor_epoch == manifest.compactor_epoch
    clone.write(pa.table({"key": [b"a"], "value": [b"2"]}))
    assert not clone.verify().has_damage
