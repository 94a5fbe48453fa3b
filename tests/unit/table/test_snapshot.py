"""Snapshots: version, WAL tail, highest sequence number, and the instant that judges expiry."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from slatespark.errors import (
    CorruptDataError,
    InvalidRequestError,
    SnapshotExpiredError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.format.manifest import NO_TICK, Checkpoint, Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import WAL_DIR, boundary_path, manifest_path, wal_path
from slatespark.format.row import Row
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS
from slatespark.slate_store import SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.claim import claim_epochs
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, list_manifests, seen_manifest
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.snapshot import Snapshot, WalTail, fetch_newest_state, fetch_wal_tail
from slatespark.table.stores import TableStores, open_stores
from tests.support.failing_store import FailingStore, Operation
from tests.support.fake_clock import FakeClock
from tests.support.folder_store import FolderStore
from tests.support.wal_files import encode_wal

_names = itertools.count()


class Place:
    """A database of only manifests and WAL files."""

    def __init__(self, kind: type[MemoryStore]) -> None:
        self.store = FailingStore(kind(f"snapshots/{next(_names)}"))
        self.stores = TableStores(main=self.store, wal=self.store)

    def manifest(self, number: int, **fields: Any) -> Manifest:
        manifest = Manifest(**fields)
        self.store.put(manifest_path(number), [encode_manifest(manifest)])
        return manifest

    def wal(self, number: int, *rows: Row) -> None:
        self.store.put(wal_path(number), [encode_wal(list(rows)) if rows else b""])

    def read(self, now_ms: int = 5_000, **options: Any) -> Snapshot:
        return resolve_snapshot(self.stores, ReadOptions.parse({"path": "p", **options}), FakeClock(now_ms))


@pytest.fixture(params=[MemoryStore, FolderStore])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


def row(seq: int, create_ts_ms: int | None = None) -> Row:
    return Row(b"k%d" % seq, seq, create_ts_ms=create_ts_ms)


def test_no_table(place: Place) -> None:
    with pytest.raises(TableNotFoundError):
        place.read()
    with pytest.raises(SnapshotExpiredError):
        fetch_manifest(place.stores, 1)


def test_an_empty_table(place: Place) -> None:
    manifest = place.manifest(1)
    assert place.read() == Snapshot(1, manifest, WalTail(1, 1), max_seq=0, tick_ms=NO_TICK, now_ms=5_000)


def test_the_newest_state_includes_the_whole_wal(place: Place) -> None:
    place.manifest(1)
    place.manifest(2, replay_after_wal_id=3, wal_id_last_seen=4, last_l0_seq=10, last_l0_clock_tick=900)
    place.wal(3, row(9))
    place.wal(4)
    place.wal(5, row(11, 950), row(12, 980))
    place.wal(6)
    place.wal(8, row(99, 9_999))  # beyond a gap: nobody sees it
    snapshot = place.read()
    assert (snapshot.manifest_id, snapshot.wal) == (2, WalTail(4, 7, last_seq=12, tick_ms=980))
    assert (snapshot.max_seq, snapshot.tick_ms, snapshot.now_ms) == (12, 980, 5_000)


def test_the_clock_does_not_fall_behind_the_tick(place: Place) -> None:
    place.manifest(1, last_l0_clock_tick=900)
    place.wal(1, row(1, 7_000))
    assert place.read(5_000).now_ms == 7_000
    assert place.read(8_000).now_ms == 8_000
    assert place.read(8_000, now=1).now_ms == 1


def test_rows_without_create_ts_do_not_change_the_tick(place: Place) -> None:
    place.manifest(1, last_l0_clock_tick=900)
    place.wal(1, row(1))
    assert place.read().tick_ms == 900


def test_a_version_includes_the_wal_it_refers_to(place: Place) -> None:
    place.manifest(1, last_l0_clock_tick=100)
    place.manifest(2, wal_id_last_seen=2, last_l0_clock_tick=700)
    place.manifest(3, wal_id_last_seen=3, last_l0_clock_tick=900)
    for number in (1, 2, 3):
        place.wal(number, row(number, 700 + number))
    snapshot = place.read(versionAsOf=2)
    assert (snapshot.manifest_id, snapshot.wal, snapshot.max_seq) == (2, WalTail(1, 3, 2, 702), 2)
    assert snapshot.now_ms == 700  # that manifest's tick
    assert place.read(versionAsOf=1).wal == WalTail(1, 1)
    assert place.read(versionAsOf=3).max_seq == 3
    with pytest.raises(InvalidRequestError, match="versionAsOf"):
        place.read(versionAsOf=4)


def test_a_version_whose_wal_was_collected(place: Place) -> None:
    place.manifest(1, wal_id_last_seen=2)
    place.manifest(2, replay_after_wal_id=2, wal_id_last_seen=2)
    place.wal(2, row(2))
    with pytest.raises(SnapshotExpiredError, match=r"wal/0{19}1\.sst"):
        place.read(versionAsOf=1)
    assert place.read().max_seq == 0


ID = UUID(int=5)


def test_checkpoints(place: Place) -> None:
    point = Checkpoint(ID, manifest_id=1, expire_time_s=0, create_time_s=1, name="before")
    place.manifest(1, last_l0_seq=1)
    manifest = place.manifest(2, last_l0_seq=2, checkpoints=(point,))
    assert [place.read(checkpoint=name).max_seq for name in ("before", str(ID))] == [1, 1]
    with pytest.raises(InvalidRequestError, match="other"):
        place.read(checkpoint="other")
    again = replace(point, id=UUID(int=6), manifest_id=2)
    place.manifest(3, checkpoints=(*manifest.checkpoints, again))
    with pytest.raises(InvalidRequestError, match="before"):
        place.read(checkpoint="before")
    assert place.read(checkpoint=str(ID)).manifest_id == 1
    place.manifest(4, checkpoints=(point, replace(again, manifest_id=1)))
    assert place.read(checkpoint="before").manifest_id == 1


# --- the WAL tail ---------------------------------------------------------------------------------------------------


def test_a_missing_wal_file_of_the_manifest(place: Place) -> None:
    manifest = place.manifest(1, wal_id_last_seen=2)
    place.wal(1, row(1))
    with pytest.raises(InvalidRequestError, match="walPath"):
        fetch_wal_tail(place.stores, manifest, None)
    apart = replace(place.stores, wal_is_apart=True)
    with pytest.raises(InvalidRequestError, match="walPath"):
        fetch_wal_tail(apart, manifest, None)


def test_a_missing_replay_point(place: Place) -> None:
    """All rows are in the trees, but the file at the replay point, which is never collected, is missing."""
    manifest = place.manifest(1, replay_after_wal_id=2, wal_id_last_seen=2)
    place.wal(1)
    place.wal(4)
    for stores in (place.stores, replace(place.stores, wal_is_apart=True)):
        with pytest.raises(InvalidRequestError, match="walPath"):
            fetch_wal_tail(stores, manifest, None)
    place.wal(2)
    assert fetch_wal_tail(place.stores, manifest, None) == WalTail(3, 3)


def test_what_is_above_a_missing_wal_file_does_not_count(place: Place) -> None:
    manifest = place.manifest(1, replay_after_wal_id=1, wal_id_last_seen=2)
    for number in (1, 2, 3, 5):
        place.wal(number, row(number))
    tail = fetch_wal_tail(place.stores, manifest, None)
    assert (tail, len(tail.sizes)) == (WalTail(2, 4, 3), 2)
    assert fetch_wal_tail(place.stores, manifest, 3) == WalTail(2, 3, 2)


def test_fences_in_a_folder_are_not_listed() -> None:
    place = Place(FolderStore)
    manifest = place.manifest(1, replay_after_wal_id=99, wal_id_last_seen=99)
    for number in range(1, 100):
        place.wal(number)
    assert fetch_wal_tail(place.stores, manifest, None) == WalTail(100, 100)
    place.wal(100, row(100))
    assert fetch_wal_tail(place.stores, manifest, None) == WalTail(100, 101, 100)
    assert place.store.count("list") == 0


def test_rows_above_the_trees_newest_version_first(place: Place) -> None:
    place.wal(1, Row(b"b", 3, value=b"old"), Row(b"a", 5, value=b"x"))
    place.wal(2)
    place.wal(3, Row(b"b", 6, value=b"mid"), Row(b"b", 7, value=b"new"))
    rows = fetch_wal_rows(place.stores, WalTail(1, 4), 3, ALL_KEYS)
    assert rows is not None
    assert [(rows.key(at), int(rows.seqs[at])) for at in range(len(rows))] == [(b"a", 5), (b"b", 7), (b"b", 6)]
    assert fetch_wal_rows(place.stores, WalTail(1, 4), 7, ALL_KEYS) is None


def test_wal_files_in_the_wrong_order(place: Place) -> None:
    place.wal(1, row(5))
    place.wal(2, row(5))
    with pytest.raises(CorruptDataError, match=r"wal/0{19}2\.sst"):
        fetch_wal_rows(place.stores, WalTail(1, 3), 0, ALL_KEYS)


def test_a_manifest_that_always_changes(place: Place) -> None:
    numbers = itertools.count(2)
    place.manifest(1)

    def commit() -> None:
        place.manifest(next(numbers))

    look: Operation = "head" if place.store.lists_whole_folders else "list"
    for nth in range(1, 100):
        place.store.run(commit, look, "wal/*", nth=nth)
    with pytest.raises(UnavailableError):
        place.read()


@pytest.mark.parametrize("claims", [False, True], ids=["commits", "claims"])
def test_siblings_that_commit_without_pause_keep_nobody_from_reading(claims: bool) -> None:
    url = f"memory://snapshots/busy-{claims}"
    sibling = SlateStore.create(url)
    theirs = open_stores(url, storage={})
    numbers = itertools.count()

    def commit() -> None:
        sibling.write(pa.table({"key": [b"%d" % next(numbers)], "value": [b""]}))
        if claims:
            claim_epochs(theirs, SystemClock(), fetch_latest_manifest(theirs), write_id="sibling", attempt=0)

    commit()
    watched = FailingStore(theirs.main)
    stores = TableStores(main=watched, wal=watched)
    for nth in range(1, 100):
        watched.run(commit, "list", "wal/", nth=nth)
    found = resolve_snapshot(stores, ReadOptions.parse({"path": url}), SystemClock())
    newest = fetch_latest_manifest(theirs).number
    assert found.manifest_id == newest
    assert found.max_seq == found.manifest.last_l0_seq


def test_commits_of_siblings_are_followed_without_the_wal_until_a_client_claims_the_table() -> None:
    objects = MemoryStore("snapshot-follows")
    store = FailingStore(objects)
    stores, clock = TableStores(main=store, wal=store), FakeClock()
    SlateStore.create(objects.url, clock=clock)
    own = SlateStore(TableStores(main=objects, wal=objects), clock, {"path": objects.url})

    def rows_in_wal() -> int:
        return fetch_newest_state(stores)[2].last_seq

    def looks_at_wal() -> bool:
        store.calls.clear()
        assert rows_in_wal() == 0
        assert seen_manifest(stores) == fetch_latest_manifest(own._stores)
        return any(call.path.startswith(WAL_DIR) for call in store.calls)

    own.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    assert looks_at_wal()
    assert looks_at_wal(), "the second look tells that the first saw a commit"
    for _ in range(3):
        own.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        assert not looks_at_wal()
        assert not looks_at_wal()
    number, manifest = fetch_latest_manifest(own._stores)
    objects.put(manifest_path(number + 1), [encode_manifest(replace(manifest, writer_epoch=9, nonce=0))])
    assert looks_at_wal()
    objects.put(
        wal_path(manifest.wal_id_last_seen + 1), [encode_wal([Row(b"b", manifest.last_l0_seq + 1, value=b"2")])]
    )
    assert rows_in_wal() == manifest.last_l0_seq + 1


def test_the_wal_of_a_claim_is_looked_at_even_if_its_commit_is_noted_meanwhile() -> None:
    """Two threads read one table: one sees the claim, and the other one then the commit, which has the same epochs."""
    objects = MemoryStore("snapshot-claim-and-commit")
    clock = FakeClock()
    SlateStore.create(objects.url, clock=clock)
    SlateStore.open(objects.url, clock=clock).write(pa.table({"key": [b"a"], "value": [b"1"]}))
    stores = TableStores(main=objects, wal=objects)
    assert [fetch_newest_state(stores).wal.last_seq for _ in range(2)] == [0, 0]
    number, manifest = fetch_latest_manifest(stores)
    by_client = replace(manifest, writer_epoch=9, nonce=0)
    theirs = FailingStore(objects)
    sibling = SlateStore(TableStores(main=theirs, wal=theirs), clock, {"path": objects.url})
    claimed, seen = threading.Event(), threading.Event()

    def wait() -> None:
        claimed.set()
        assert seen.wait(60)

    def see() -> None:
        assert seen_manifest(stores) == fetch_latest_manifest(TableStores(main=objects, wal=objects))
        seen.set()
        commit.result()
        assert fetch_newest_state(stores).number == number + 3

    theirs.run(wait, "create", manifest_path(number + 3))
    with ThreadPoolExecutor() as pool:
        objects.put(manifest_path(number + 1), [encode_manifest(by_client)])
        row = Row(b"b", manifest.last_l0_seq + 1, value=b"2")
        objects.put(wal_path(manifest.wal_id_last_seen + 1), [encode_wal([row])])
        commit = pool.submit(sibling.write, pa.table({"key": [b"c"], "value": [b"3"]}), ifClientActive="fence")
        assert claimed.wait(60)
        found = fetch_newest_state(stores, see)
    assert found.last_seq >= row.seq, f"version {found.number} is shown without the row of the client"


def test_a_version_kept_by_a_checkpoint_exists_below_the_boundary(place: Place) -> None:
    assert list_manifests(place.stores) == []
    for number in (1, 2, 4):
        place.manifest(number)
    place.manifest(5, checkpoints=(Checkpoint(UUID(int=1), 2, 0, 1), Checkpoint(UUID(int=2), 3, 0, 1)))
    assert list_manifests(place.stores) == [1, 2, 4, 5]
    place.store.put(boundary_path("manifest"), [b"3"])
    assert list_manifests(place.stores) == [2, 4, 5]
    assert place.read(versionAsOf=2).manifest_id == 2
