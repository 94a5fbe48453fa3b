"""The read set of a commit: which later changes are conflicts, and which are not."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, TransactionConflictError
from slatespark.errors import InternalError, OptionError
from slatespark.format.paths import manifest_path
from slatespark.options import ReadOptions, WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.claim import claim_epochs
from slatespark.table.commit.conflicts import check_unchanged
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.fetch import filter_sets, indexes
from slatespark.table.read.versions.file_properties import recorded_files
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.stores import TableStores
from slatespark.table.write.load_run import load_batches
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

_numbers = count()
START = {b"a": b"0", b"b": b"0", b"c": b"0", b"d": b"0"}


def rows_of(rows: Mapping[bytes, bytes]) -> pa.Table:
    return pa.table({"key": pa.array(list(rows), pa.binary()), "value": pa.array(list(rows.values()), pa.binary())})


@pytest.fixture
def store() -> SlateStore:
    store = SlateStore.create(f"memory://conflicts-{next(_numbers)}", clock=FakeClock())
    store.write(rows_of(START))
    return store


def read(store: SlateStore, **depends_on: Any) -> ReadSet:
    """A read set of keys and ranges in their present state."""
    snapshot = resolve_snapshot(store._stores, ReadOptions.parse({"path": store.url}), SystemClock())
    return ReadSet.of(snapshot, **depends_on)


def commit(store: SlateStore, reads: ReadSet, rows: Mapping[bytes, bytes], **options: Any) -> None:
    table, parsed = rows_of(rows), WriteOptions.parse({"path": store.url, **options})
    load_batches(store._stores, store._clock, table.schema, table.to_batches(), parsed, depends_on=reads)


def content(store: SlateStore, **options: Any) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in store.scan(**options).read_all().to_pylist()}


def hexed(start: bytes, end: bytes) -> dict[str, Any]:
    return {"startKey": start.hex(), "endKey": end.hex()}


# --- changes of key b -----------------------------------------------------------------------------------------------


def delete_and_compact(store: SlateStore) -> None:
    """No row of the key is left, not even the deletion."""
    store.write(rows_of({b"b": b""}), operation="delete")
    store.compact(full=True)


def write_and_let_expire(store: SlateStore) -> None:
    """No row is left either of one that was added, expired and purged."""
    store.write(rows_of({b"b": b"1"}), ttl=1)
    clock = store._clock
    assert isinstance(clock, FakeClock)
    clock.advance(120_000)
    store.compact(full=True)


class Forget:
    """A compaction filter that drops key b and leaves no row."""

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pa.array(["drop" if key == b"b" else "keep" for key in versions["_key"].to_pylist()])


CHANGES: dict[str, Callable[[SlateStore], object]] = {
    "upsert": lambda store: store.write(rows_of({b"b": b"1"})),
    "the value it had": lambda store: store.write(rows_of({b"b": b"0"})),
    "delete": lambda store: store.write(rows_of({b"b": b""}), operation="delete"),
    "operand": lambda store: store.write(rows_of({b"b": b"1"}), operation="merge"),
    "in a large file": lambda store: store.write(rows_of({b"b%d" % n: b"1" for n in range(5000)} | {b"b": b"1"})),
    "deletion that was compacted away": delete_and_compact,
    "row that expired and was purged": write_and_let_expire,
    "filter of a compaction": lambda store: store.compact(full=True, filters=[Forget()]),
    "delete by condition": lambda store: store.delete("key = X'62'"),
    "delete range": lambda store: store.deleteRange(**hexed(b"aa", b"bb")),
    "replaced range": lambda store: store.write(rows_of({b"bx": b""}), mode="overwrite", **hexed(b"aa", b"bz")),
    "overwrite": lambda store: store.write(rows_of({}), mode="overwrite"),
    "restore": lambda store: store.restoreToVersion(1),
    "restore of what there is": lambda store: store.restoreToVersion(store.resolve().version),
}
DEPENDS: dict[str, tuple[dict[str, Any], dict[bytes, bytes]]] = {
    "key": ({"keys": [b"b"]}, {b"z": b"2"}),
    "several keys": ({"keys": [b"z", b"b", b"a", b"b"]}, {b"z": b"2"}),
    "range": ({"ranges": [KeyRange(b"b", b"b\0")]}, {b"z": b"2"}),
    "several ranges": ({"ranges": [KeyRange(b"x"), KeyRange(b"a", b"b"), KeyRange(b"b", b"c")]}, {b"z": b"2"}),
    "all keys": ({"ranges": [ALL_KEYS], "written": []}, {b"z": b"2"}),
    "what it writes": ({}, {b"a": b"2", b"b": b"2", b"c": b"2"}),
    "what it writes of what it read": (
        {"written": [KeyRange(b"b", b"b\0"), KeyRange(b"y")]},
        {b"a": b"2", b"b": b"2", b"c": b"2"},
    ),
    "much that it writes": ({}, {b"b": b"2"} | {b"a%d" % number: b"2" for number in range(5000)}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("depends", DEPENDS)
def test_changes_are_conflicts(store: SlateStore, change: str, depends: str) -> None:
    reads = read(store, **DEPENDS[depends][0])
    CHANGES[change](store)
    before = content(store, mergeOperator="concat")
    with pytest.raises(TransactionConflictError) as caught:
        commit(store, reads, DEPENDS[depends][1])
    assert caught.value.todo
    assert content(store, mergeOperator="concat") == before
    commit(store, read(store, **DEPENDS[depends][0]), DEPENDS[depends][1])


class KeepAll:
    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pa.array(["keep"] * len(versions))


APART: dict[str, Callable[[SlateStore], object]] = {
    "upsert": lambda store: store.write(rows_of({b"a": b"1", b"c": b"1"})),
    "around it": lambda store: store.write(rows_of({b"b" + bytes([n]): b"1" for n in range(200)} | {b"a": b"1"})),
    "delete range": lambda store: store.deleteRange(**hexed(b"b\0", b"z")),
    "delete range before": lambda store: store.deleteRange(**hexed(b"a", b"b")),
    "replaced range": lambda store: store.write(rows_of({b"cx": b""}), mode="overwrite", **hexed(b"c", b"d")),
    "delete by condition": lambda store: store.delete("key = X'63'"),
    "delete of nothing": lambda store: store.delete("key = X'63' AND value = X'99'"),
    "checkpoint": lambda store: store.createCheckpoint("kept"),
    "compaction": lambda store: store.compact(full=True),
    "filter that keeps everything": lambda store: store.compact(full=True, filters=[KeepAll()]),
    "upsert and compaction": lambda store: (store.write(rows_of({b"c": b"1"})), store.compact(full=True)),
    "reap": lambda store: store.reap(),
}


@pytest.mark.parametrize("change", APART)
@pytest.mark.parametrize(
    ("depends", "written"),
    [
        ({"keys": [b"b"]}, {b"z": b"2"}),
        ({"ranges": [KeyRange(b"b", b"b\0")]}, {b"b": b"2"}),
        ({"ranges": [KeyRange(b"0", b"1")]}, {b"b": b"2", b"z": b"2"}),
        ({"keys": [b"b"], "written": []}, {b"a": b"2", b"c": b"2"}),
        ({"keys": [b"b"], "written": [KeyRange(b"b"), KeyRange(b"9", b"a")]}, {b"a": b"2", b"z": b"2"}),
        ({"keys": [b"b"]}, {b"Z": b"2", b"z": b"2"}),  # one file around everything
    ],
)
def test_unrelated_changes_are_not_conflicts(
    store: SlateStore, change: str, depends: dict[str, Any], written: dict[bytes, bytes]
) -> None:
    reads = read(store, **depends)
    APART[change](store)
    left = content(store)
    commit(store, reads, written)
    assert content(store) == left | written


@pytest.mark.parametrize(("operation", "key"), [("upsert", b"b"), ("delete", b"b"), ("merge", b"b"), ("merge", b"d")])
def test_where_only_operands_count(store: SlateStore, operation: str, key: bytes) -> None:
    reads = read(store, ranges=[KeyRange(b"a", b"c")], written=(), operands_only=True)
    store.write(rows_of({key: b"1"}), operation=operation)
    if (operation, key) == ("merge", b"b"):
        with pytest.raises(TransactionConflictError, match="62"):
            commit(store, reads, {b"z": b"1"})
    else:
        commit(store, reads, {b"z": b"1"})


def test_keys_are_named_by_their_columns() -> None:
    schema = pa.schema([("t", pa.string()), ("n", pa.int64()), ("v", pa.int64())])
    store = SlateStore.create(f"memory://conflicts-{next(_numbers)}", schema, "t,n")
    reads = read(store, ranges=[ALL_KEYS])
    store.write(pa.table({"t": ["x"] * 7, "n": list(range(7)), "v": [1] * 7}))
    with pytest.raises(TransactionConflictError, match="t='x', n=0"):
        check_unchanged(store._stores, reads, (), store.definition.codec(), WriteOptions(path=store.url))


def test_rows_seen_by_the_read_are_not_changes(store: SlateStore) -> None:
    """The read saw the row whose sequence number it reached."""
    store.write(rows_of({b"b": b"1"}))
    reads = read(store, keys=[b"b"], ranges=[KeyRange(b"a", b"b")])
    assert reads.read_seq == store.resolve().seq
    commit(store, reads, {b"b": b"2"})
    assert content(store)[b"b"] == b"2"


def test_a_read_set_survives_encoding(store: SlateStore) -> None:
    reads = read(store, keys=[b"\0\xff", b""], ranges=[KeyRange(b"x"), KeyRange(b"a", b"b")], read_ts_ms=-5)
    assert ReadSet.from_text(reads.to_text()) == pickle.loads(pickle.dumps(reads)) == reads
    assert reads.adding(keys=[b"y", b"c"], ranges=[KeyRange(b"b", b"c")]).ranges == (
        KeyRange(b"a", b"c"),
        KeyRange(b"x"),
    )
    assert reads.adding(keys=[b"y", b"c"]).keys == (b"", b"\0\xff", b"c")
    for text in ("", "[]", "{}", '{"keys":[],"ranges":[],"manifest_id":1}', '{"keys":["x"],"ranges":[]}'):
        with pytest.raises(InternalError):
            ReadSet.from_text(text)


def test_no_message_names_the_internal_option(store: SlateStore) -> None:
    with pytest.raises(OptionError, match=r"readSets(?!.*readSet\?)"):
        store.write(rows_of(START), readSets="x")  # type: ignore[call-arg]
    with pytest.raises(InternalError):
        store.write(rows_of(START), readSet="x")  # type: ignore[call-arg]


# --- between claim and commit, and lost facts -------------------------------------------------------------------------


def claim(store: SlateStore, *removes: KeyRange) -> None:
    """Claim the epochs like a commit that is killed afterwards."""
    number, manifest = fetch_latest_manifest(store._stores)
    claim_epochs(store._stores, FakeClock(), Version(number, manifest), write_id="0" * 16, attempt=0, removes=removes)


def test_a_claim_without_a_commit_is_not_a_conflict(store: SlateStore) -> None:
    reads = read(store, keys=[b"b"])
    claim(store, ALL_KEYS)
    store.write(rows_of({b"a": b"1"}))
    commit(store, reads, {b"b": b"2"})


def on(folder: Path) -> tuple[FailingStore, SlateStore]:
    """A table on a store that runs another action at a given call."""
    store = FailingStore(LocalStore(folder))
    return store, SlateStore(TableStores(store, store), SystemClock(), {"path": str(folder)})


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_read_between_claim_and_commit_detects_the_commit(tmp_path: Path, is_pinned: bool) -> None:
    """The claim is at or before the version that is read, which has its epochs."""
    SlateStore.create(str(tmp_path)).write(rows_of(START))
    other, found = SlateStore.open(str(tmp_path)), []

    def look() -> None:
        if is_pinned:
            other.createCheckpoint("in between")
        found.append(read(other, keys=[b"b"]))

    failing, store = on(tmp_path)
    failing.run(look, "put", "slatespark/leases/*").run(look, "create", "manifest/*", nth=2)
    store.deleteRange(**hexed(b"b", b"c"))
    [reads] = found
    assert reads.manifest_id == (5 if is_pinned else 4)
    with pytest.raises(TransactionConflictError, match="key 62"):
        commit(other, reads, {b"z": b"2"})
    commit(other, read(other, keys=[b"b"]), {b"z": b"2"})


@pytest.mark.parametrize(
    "left", [None, b"", b"{", b"[]", b"{}", b'{"sha256":%s}', b'{"sha256":%s,"removes":[["x",null]]}']
)
def test_an_unreadable_claim_may_have_removed_anything(tmp_path: Path, left: bytes | None) -> None:
    """The claim is gone, damaged, or of an old release."""
    store = SlateStore.create(str(tmp_path))
    store.write(rows_of(START))
    reads = read(store, keys=[b"b"])
    store.write(rows_of({b"a": b"1"}))
    for path in (tmp_path / CLAIMS_DIR).iterdir():
        known = path.read_bytes()
        path.unlink()
        if left is not None:
            path.write_bytes(left.replace(b"%s", json.dumps(json.loads(known)["sha256"]).encode()))
    with pytest.raises(TransactionConflictError, match="key 7a"):
        commit(store, reads, {b"z": b"2"})


@pytest.mark.parametrize("gone", [3, 4])
def test_collected_versions_may_have_removed_anything(tmp_path: Path, gone: int) -> None:
    store = SlateStore.create(str(tmp_path))
    store.write(rows_of(START))
    reads = read(store, keys=[b"b"])
    store.write(rows_of({b"a": b"1"}))
    (tmp_path / manifest_path(gone)).unlink()
    with pytest.raises(TransactionConflictError, match="committed"):
        commit(store, reads, {b"z": b"2"})


@pytest.mark.parametrize("key", [b"b", b"d"])
def test_a_collected_file_may_have_held_any_key_in_its_range(tmp_path: Path, key: bytes) -> None:
    """A compaction may have dropped its rows; keys outside its range do not conflict."""
    store = SlateStore.create(str(tmp_path))
    store.write(rows_of(START))
    reads = read(store, keys=[key], written=())
    known = set((tmp_path / "compacted").iterdir())
    delete_and_compact(store)
    shown = {tmp_path / f"compacted/{sst_id}.sst" for sst_id in fetch_latest_manifest(store._stores)[1].ssts}
    records = set((tmp_path / "slatespark/commits").glob("*.json"))  # nor does one of them say what was in it
    for path in (set((tmp_path / "compacted").iterdir()) - known - shown) | records:
        path.unlink()
    for cache in (indexes, filter_sets, recorded_files):
        cache.clear()
    if key == b"b":
        with pytest.raises(TransactionConflictError, match="committed"):
            commit(store, reads, {b"z": b"2"})
    else:
        commit(store, reads, {b"z": b"2"})


def test_another_table_at_the_same_location_is_a_conflict(store: SlateStore) -> None:
    reads = read(store, keys=[b"b"])
    fresh = SlateStore.create(f"memory://conflicts-{next(_numbers)}")
    with pytest.raises(TransactionConflictError, match="committed"):
        check_unchanged(fresh._stores, reads, (), store.definition.codec(), WriteOptions(path=fresh.url))


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "path", "nth"), [("put", "*/claims/*", 1), ("create", "manifest/*", 2)])
@pytest.mark.parametrize("key", [b"a", b"b"])
def test_a_commit_that_lost_a_race_checks_again(
    tmp_path: Path, operation: Any, path: str, nth: int, key: bytes
) -> None:
    """A commit before the claim takes its number, one after it takes its epochs; both make it start over."""
    SlateStore.create(str(tmp_path)).write(rows_of(START))
    failing, store = on(tmp_path)
    reads, other = read(store, keys=[b"b"]), SlateStore.open(str(tmp_path))

    def overtake() -> None:
        other.write(rows_of({b"c": b"1"}))
        other.write(rows_of({key: b"1"}))

    failing.run(overtake, operation, path, nth=nth)
    if key == b"b":
        with pytest.raises(TransactionConflictError, match="key 62"):
            commit(store, reads, {b"z": b"2"})
    else:
        commit(store, reads, {b"z": b"2"})
    own = {} if key == b"b" else {b"z": b"2"}
    assert content(other) == START | {b"c": b"1", key: b"1"} | own


# --- times of a history table ---------------------------------------------------------------------------------------


def test_versions_from_the_read_timestamp_on_are_later() -> None:
    clock = FakeClock(1000)
    store = SlateStore.create(f"memory://conflicts-{next(_numbers)}", history=True, clock=clock)
    for at_ms in (100, 200, 300):
        store.write(rows_of({b"%d" % at_ms: b"0"}), timestamp=at_ms)
    codec, options = store.definition.codec(), WriteOptions(path=store.url)
    for at_ms in (100, 200, 300, 301):
        snapshot = resolve_snapshot(store._stores, ReadOptions.parse({"path": store.url}), clock)
        for key, is_later in ((b"100", at_ms <= 100), (b"200", at_ms <= 200), (b"300", at_ms <= 300)):
            for reads in (
                ReadSet.of(snapshot, keys=[key], read_ts_ms=at_ms),
                ReadSet.of(snapshot, ranges=[KeyRange(key, key + b"\0")], read_ts_ms=at_ms),
            ):
                if is_later:
                    with pytest.raises(TransactionConflictError, match=f"key {key.hex()}"):
                        check_unchanged(store._stores, reads, (), codec, options)
                else:
                    check_unchanged(store._stores, reads, (), codec, options)


def test_a_version_with_an_earlier_time_is_a_change_too() -> None:
    """It was added after the read, and a read as of that time shows it."""
    clock = FakeClock(1000)
    store = SlateStore.create(f"memory://conflicts-{next(_numbers)}", history=True, clock=clock)
    store.write(rows_of({b"a": b"0"}), timestamp=500)
    snapshot = resolve_snapshot(store._stores, ReadOptions.parse({"path": store.url}), clock)
    store.write(rows_of({b"b": b"0"}), timestamp=100)
    reads = ReadSet.of(snapshot, keys=[b"b"], read_ts_ms=900)
    with pytest.raises(TransactionConflictError, match="key 62"):
        check_unchanged(store._stores, reads, (), store.definition.codec(), WriteOptions(path=store.url))


def test_deletions_and_trims_of_a_history_table() -> None:
    """Each existing row gets a deletion, so a key without a row has not changed; a trim may remove anything."""
    clock = FakeClock(1000)
    store = SlateStore.create(f"memory://conflicts-{next(_numbers)}", history=True, clock=clock)
    store.write(rows_of(START), timestamp=500)
    there, absent, later = read(store, keys=[b"b"]), read(store, keys=[b"bb"]), read(store, ranges=[KeyRange(b"x")])
    store.deleteRange(**hexed(b"b", b"c"), timestamp=900)
    commit(store, absent, {b"bb": b"1"})
    with pytest.raises(TransactionConflictError, match="key 62"):
        commit(store, there, {b"z": b"1"})
    store.trimHistory(600)
    with pytest.raises(TransactionConflictError, match="key 61"):
        commit(store, later, {b"a": b"1"}, timestamp=950)


# --- cost -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(tmp_path: Path) -> tuple[FailingStore, SlateStore]:
    store = SlateStore.create(str(tmp_path))
    for part in range(4):
        store.write(rows_of({b"%d-%04d" % (part, number): b"v" * 100 for number in range(2000)}))
    for cache in (indexes, filter_sets):
        cache.clear()
    return on(tmp_path)


def reads_of_files(failing: FailingStore) -> dict[str, int]:
    """The bytes read of each file."""
    found: dict[str, int] = {}
    for call in failing.matching("*", "compacted/*"):
        if call.operation.startswith("get"):
            found[call.path] = found.get(call.path, 0) + call.size
    return found


def test_old_files_are_not_read(counted: tuple[FailingStore, SlateStore]) -> None:
    failing, store = counted
    reads = read(store, keys=[b"0-0500", b"3-0001"], ranges=[KeyRange(b"1", b"2")])
    old = {str(path) for path in fetch_latest_manifest(store._stores)[1].ssts}
    SlateStore.open(store.url).write(rows_of({b"0-0501": b"1", b"2-0000": b"1"}))
    failing.clear()
    check_unchanged(store._stores, reads, (), store.definition.codec(), WriteOptions(path=store.url))
    touched = reads_of_files(failing)
    assert not any(sst_id in path for sst_id in old for path in touched)
    assert len(touched) == 1
    failing.clear()
    commit(store, reads, {b"3-1999": b"2"})
    assert len(reads_of_files(failing)) <= 2  # the newer one, and its own, which moves above that


def test_nothing_is_read_where_nothing_was_committed(counted: tuple[FailingStore, SlateStore]) -> None:
    failing, store = counted
    reads, codec = read(store, ranges=[ALL_KEYS]), store.definition.codec()
    failing.clear()
    check_unchanged(store._stores, reads, (), codec, WriteOptions(path=store.url))
    assert {call.operation for call in failing.calls} <= {"list", "head", "get"}
    assert failing.count("get", "manifest/*") == 0  # the newest one was read before
    assert failing.count() <= 9  # a look into a local folder tries names


def test_files_that_a_compaction_rewrote_are_not_read(counted: tuple[FailingStore, SlateStore]) -> None:
    failing, store = counted
    reads = read(store, keys=[b"0-0500"], ranges=[KeyRange(b"1", b"2")])
    SlateStore.open(store.url).compact(full=True)
    failing.clear()
    check_unchanged(store._stores, reads, (), store.definition.codec(), WriteOptions(path=store.url))
    assert not reads_of_files(failing)


def test_only_blocks_that_may_hold_the_keys_are_read(counted: tuple[FailingStore, SlateStore]) -> None:
    failing, store = counted
    reads = read(store, keys=[b"7-0500x"], ranges=[KeyRange(b"7-0700x", b"7-0700y")])
    SlateStore.open(store.url).write(rows_of({b"7-%04d" % number: b"v" * 100 for number in range(9000)}))
    failing.clear()
    check_unchanged(store._stores, reads, (), store.definition.codec(), WriteOptions(path=store.url))
    assert 0 < sum(reads_of_files(failing).values()) < 100_000  # of a megabyte
