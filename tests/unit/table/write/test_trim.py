"""Trims and timed range deletions of history tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, OptionError, SlateStore
from slatespark.table.commit.job import WriteJob, begin_write
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.merge.cursor import Window, layer_windows
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write import trim
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
_numbers = count()


@pytest.fixture
def store() -> SlateStore:
    """Keys a, b, c with versions at 10, 20 and 30, a file each; d at 40 only."""
    table = SlateStore.create(f"memory://trim-{next(_numbers)}", clock=FakeClock(NOW_MS), history=True)
    for ts in (10, 20, 30):
        write(table, (b"a", ts), (b"b", ts), (b"c", ts))
    write(table, (b"d", 40))
    return table


def write(store: SlateStore, *rows: tuple[bytes, int], **options: Any) -> int:
    times = [ts for _, ts in rows]
    columns = {
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "value": [b"%d" % ts for ts in times],
        "ts": times,
    }
    return store.write(pa.table(columns), timestampColumn="ts", **options)


def shown(store: SlateStore, **options: Any) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in store.scan(**options).read_all().to_pylist()}


def test_a_trim_keeps_older_versions_and_can_be_undone(store: SlateStore) -> None:
    before = [file.id for file in store.files()]
    version = store.trimHistory(20)
    assert shown(store) == {b"a": b"20", b"b": b"20", b"c": b"20"}
    assert shown(store, timestampAsOf=35) == shown(store)
    assert shown(store, timestampAsOf=10) == {b"a": b"10", b"b": b"10", b"c": b"10"}
    assert [file.id for file in store.files()] == before[2:], "files without later versions stay as they are"
    assert store.history(1)[0].operation == "trim"
    assert shown(store, versionAsOf=version - 1)[b"d"] == b"40"
    store.restoreToVersion(version - 1)
    assert shown(store) == {b"a": b"30", b"b": b"30", b"c": b"30", b"d": b"40"}
    assert shown(store, timestampAsOf=25)[b"a"] == b"20"


def test_a_file_with_both_is_rewritten_and_keeps_its_seqs(store: SlateStore) -> None:
    write(store, (b"e", 5), (b"e", 45), (b"e", 50), (b"f", 60))
    seqs = {
        row["_key"]: row["_seq"] for row in store.scan(metadataColumns=True, timestampAsOf=45).read_all().to_pylist()
    }
    tick = fetch_latest_manifest(open_stores(store.url, storage={}))[1].last_l0_clock_tick
    store.trimHistory(45)
    rows = store.scan(metadataColumns=True).read_all().to_pylist()
    assert {row["_key"]: row["_seq"] for row in rows} == seqs
    manifest = fetch_latest_manifest(open_stores(store.url, storage={}))[1]
    assert manifest.last_l0_clock_tick == tick, "time does not go back"
    assert store.verify().findings == ()
    write(store, (b"e", 46))
    assert shown(store)[b"e"] == b"46", "what was trimmed does not count any more"


def test_a_file_that_is_known_to_hold_both_is_read_once(store: SlateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, (b"e", 5), (b"e", 45))
    read: list[FileSlice] = []

    def counted(stores: TableStores, layer: Layer, window_bytes: int) -> Iterator[Window]:
        read.extend(layer.slices)
        return layer_windows(stores, layer, window_bytes)

    monkeypatch.setattr(trim, "layer_windows", counted)
    store.trimHistory(40)
    assert len(read) == 1
    assert shown(store)[b"e"] == b"5"


def test_a_trim_of_nothing_does_not_commit(store: SlateStore) -> None:
    version = store.detail().version
    assert store.trimHistory(40) == version
    assert store.detail().version == version


def test_a_trim_to_before_everything_empties_the_table(store: SlateStore) -> None:
    store.trimHistory(9)
    assert shown(store) == {}
    write(store, (b"a", 3))
    assert shown(store) == {b"a": b"3"}


def test_trims_below_the_floor_are_refused(store: SlateStore) -> None:
    store.setHistoryFloor(20)
    with pytest.raises(HistoryTrimmedError, match=r"1970-01-01T00:00:00.020Z"):
        store.trimHistory(19)
    store.trimHistory(20)
    assert shown(store)[b"a"] == b"20"


def test_a_commit_in_between_is_a_conflict(store: SlateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(stores: TableStores, *arguments: Any, **options: Any) -> WriteJob:
        job = begin_write(stores, *arguments, **options)
        write(store, (b"z", 70))
        return job

    monkeypatch.setattr("slatespark.table.write.trim.begin_write", late)
    with pytest.raises(CommitConflictError):
        store.trimHistory(20)
    assert shown(store)[b"a"] == b"30"


# --- range deletions ------------------------------------------------------------------------------------------------


def test_a_deleted_range_is_readable_before_its_deletion(store: SlateStore) -> None:
    store.deleteRange("key >= X'61' AND key < X'63'", 35)
    assert shown(store) == {b"c": b"30", b"d": b"40"}
    assert shown(store, timestampAsOf=34) == {b"a": b"30", b"b": b"30", b"c": b"30"}
    assert shown(store, timestampAsOf=35) == {b"c": b"30"}
    gone = store.scan(readVersions="all", filter="_op = 'delete'").read_all()
    assert gone["key"].to_pylist() == [b"a", b"b"], "a tombstone for each row that lived, and no other"


def test_a_range_of_key_bytes_as_of_the_commit(store: SlateStore) -> None:
    store.deleteRange(keyPrefix=b"d")
    assert shown(store) == {b"a": b"30", b"b": b"30", b"c": b"30"}
    assert shown(store, timestampAsOf=NOW_MS - 1)[b"d"] == b"40"


def test_a_range_with_later_versions_is_a_conflict_that_names_keys(store: SlateStore) -> None:
    with pytest.raises(CommitConflictError, match="key 61"):
        store.deleteRange("key >= X'61'", 25)
    store.deleteRange("key = X'64'", 40)
    assert b"d" not in shown(store)


def test_bad_ranges(store: SlateStore) -> None:
    with pytest.raises(OptionError, match="key column"):
        store.deleteRange("value = X'31'")
    with pytest.raises(OptionError, match="range"):
        store.deleteRange()
    with pytest.raises(OptionError, match="keyPrefix"):
        store.deleteRange("key = X'61'", keyPrefix=b"a")
    with pytest.raises(OptionError, match="future"):
        store.deleteRange("key = X'61'", NOW_MS + 60_000)
    assert store.deleteRange("key = X'7a'") == store.detail().version, "no such row, no commit"
