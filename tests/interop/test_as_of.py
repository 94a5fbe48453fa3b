"""The past of databases that the real client writes: what it merges, drops and keeps decides what can be answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import HistoryTrimmedError, OptionError, SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.sequence_tracker import MAX_POINTS, SequenceTracker, encode_sequence_tracker
from slatespark.storage import open_store
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import compact_full, read_manifest, seq_for_time, time_for_seq

Rows = dict[bytes, bytes]


def rows_of(store: SlateStore, **options: Any) -> Rows:
    return {row["key"]: row["value"] for row in store.scan(**options).read_all().to_pylist()}


def put(store: SlateStore, **rows: str) -> int:
    keys = [key.encode() for key in rows]
    return store.write(pa.table({"key": keys, "value": [value.encode() for value in rows.values()]}))


def last_seq(store: SlateStore) -> int:
    return fetch_latest_manifest(store._stores)[1].last_l0_seq


def drop_wal(location: Location) -> None:
    """Remove what a collector may: the files below the one that replay starts behind."""
    for number in range(1, read_manifest(location).replay_after_wal_id):
        (location.folder / wal_path(number)).unlink()


@pytest.fixture
def overwritten(database: Location) -> list[tuple[int, Rows]]:
    """A memtable in which keys are written again and again, flushed into one L0 file; the states by sequence number."""
    states: list[tuple[int, Rows]] = []
    SlateStore.create(str(database.folder))
    with Client.open(database) as client:
        rows: Rows = {}
        for number in range(6):
            key, value = b"ab"[number % 2 : number % 2 + 1], b"%d" % number
            rows = {**rows, key: value}
            states.append((client.put(key, value).seq, rows))
            client.flush_wal()
        client.close()
    return states


def test_the_wal_has_what_a_flush_merged(database: Location, overwritten: list[tuple[int, Rows]]) -> None:
    store = SlateStore.open(str(database.folder))
    for seq, rows in overwritten:
        assert rows_of(store, seqAsOf=seq) == rows
        assert store.resolve(seqAsOf=seq).seq == seq
    assert rows_of(store, seqAsOf=0) == {}
    assert "WAL" in store.resolve(seqAsOf=overwritten[2][0]).how


def test_without_the_wal_what_a_flush_merged_is_refused(
    database: Location, overwritten: list[tuple[int, Rows]]
) -> None:
    store = SlateStore.open(str(database.folder))
    last = overwritten[-1]
    (database.folder / wal_path(3)).unlink()  # in the middle
    assert rows_of(store, seqAsOf=last[0]) == last[1]
    assert rows_of(store, seqAsOf=0) == {}
    assert rows_of(store, seqAsOf=overwritten[0][0]) == overwritten[0][1]
    with pytest.raises(HistoryTrimmedError, match=rf"{overwritten[-2][0]}.*{last[0]} \(v"):
        store.scan(seqAsOf=overwritten[-2][0])


def test_numbers_that_the_wal_never_had_are_refused(database: Location) -> None:
    SlateStore.create(str(database.folder))
    with Client.open(database, ClientOptions(wal=False)) as client:
        first, second = (client.put(b"a", value).seq for value in (b"1", b"2"))
        client.flush_memtable()
        client.close()
    store = SlateStore.open(str(database.folder))
    assert rows_of(store, seqAsOf=second) == {b"a": b"2"}
    with pytest.raises(HistoryTrimmedError):
        store.scan(seqAsOf=first)


def test_rows_that_only_the_wal_has(database: Location) -> None:
    store = SlateStore.create(str(database.folder))
    first = put(store, a="0")
    with Client.open(database) as client:
        seqs = [client.put(b"a", b"%d" % number).seq for number in (1, 2, 3)]
        client.flush_wal()
        assert [rows_of(store, seqAsOf=seq) for seq in seqs] == [{b"a": b"%d" % number} for number in (1, 2, 3)]
        assert rows_of(store, versionAsOf=first) == {b"a": b"0"}
        with pytest.raises(OptionError, match=f"{seqs[-1] + 1}.*{seqs[-1]}"):
            store.scan(seqAsOf=seqs[-1] + 1)


def test_a_snapshot_made_a_flush_keep_what_it_would_merge(
    database: Location, client_factory: Callable[..., Client]
) -> None:
    SlateStore.create(str(database.folder))
    client = client_factory()
    client.put(b"x", b"")
    client.flush_wal()
    held = client._loop.wait(client._db.snapshot())
    seqs = [client.put(b"a", b"%d" % number).seq for number in range(4)]
    client.flush_memtable()
    store = SlateStore.open(str(database.folder))
    drop_wal(database)
    assert [rows_of(store, seqAsOf=seq)[b"a"] for seq in seqs] == [b"%d" % number for number in range(4)]
    del held


def test_our_commits_stand_for_the_numbers_below_them(database: Location) -> None:
    """An append keeps all that was there, WAL rows too; an overwrite does not."""
    store = SlateStore.create(str(database.folder))
    with Client.open(database) as client:
        seqs = [client.put(b"a", b"%d" % number).seq for number in (1, 2, 3)]
        client.flush_wal()
        client.close(flush=False)
    put(store, b="appended")
    after = last_seq(store)
    drop_wal(database)
    assert [rows_of(store, seqAsOf=seq) for seq in seqs] == [{b"a": b"%d" % number} for number in (1, 2, 3)]
    assert rows_of(store, seqAsOf=after) == {b"a": b"3", b"b": b"appended"}


def test_an_overwrite_stands_for_itself_alone(database: Location) -> None:
    store = SlateStore.create(str(database.folder))
    with Client.open(database) as client:
        seq = client.put(b"a", b"1").seq
        client.flush_wal()
        client.close(flush=False)
    rows = pa.table({"key": [b"b"], "value": [b"2"]})
    store.write(rows, mode="overwrite")
    assert rows_of(store, seqAsOf=last_seq(store)) == {b"b": b"2"}
    assert rows_of(store, seqAsOf=seq) == {b"a": b"1"}  # the WAL is there
    drop_wal(database)
    with pytest.raises(HistoryTrimmedError):
        store.scan(seqAsOf=seq)


def test_a_version_in_between_that_was_collected(database: Location) -> None:
    """The claim of a later commit stands for it, unless another client merged its rows meanwhile."""
    store = SlateStore.create(str(database.folder))
    put(store, a="1")
    first = last_seq(store)
    second = put(store, a="2", b="2")
    put(store, a="3")
    for number in range(1, second + 1):
        (database.folder / manifest_path(number)).unlink()
    assert rows_of(store, seqAsOf=first) == {b"a": b"1"}  # the second commit left it in place
    assert "without" in store.resolve(seqAsOf=first).how
    with pytest.raises(HistoryTrimmedError, match="collected"):
        store.scan(seqAsOf=first - 1)


def test_a_compaction_after_a_version_that_was_collected(database: Location) -> None:
    store = SlateStore.create(str(database.folder))
    put(store, a="1")
    first = last_seq(store)
    version = put(store, a="2")
    second = last_seq(store)
    with Client.open(database, ClientOptions(compactor=True)) as client:
        compact_full(client)
        client.close()
    assert rows_of(store, seqAsOf=first) == {b"a": b"1"}
    latest = read_manifest(database).id
    for number in range(1, latest):
        (database.folder / manifest_path(number)).unlink()
    assert rows_of(store, seqAsOf=second) == {b"a": b"2"}
    with pytest.raises(HistoryTrimmedError):
        store.scan(seqAsOf=first)
    with pytest.raises(SnapshotExpiredError, match=str(version)):
        store.scan(versionAsOf=version)


def test_a_later_version_with_more_in_its_wal_does_not_stand_for_a_collected_one(database: Location) -> None:
    store = SlateStore.create(str(database.folder))
    version = put(store, a="1")
    time.sleep(0.005)
    then_ms = SystemClock().now_ms()
    time.sleep(0.005)
    with Client.open(database) as client:
        client.put(b"b", b"2")
        client.flush_wal()
        client.close(flush=False)
    assert rows_of(store, timestampAsOf=then_ms) == {b"a": b"1"}
    latest = read_manifest(database).id
    assert rows_of(store, versionAsOf=latest) == {b"a": b"1", b"b": b"2"}
    for number in range(1, latest):
        (database.folder / manifest_path(number)).unlink()
    with pytest.raises(HistoryTrimmedError, match="collected"):
        store.scan(timestampAsOf=then_ms)
    with pytest.raises(SnapshotExpiredError, match=str(version)):
        store.scan(versionAsOf=version)


# --- the sequence tracker -------------------------------------------------------------------------------------------


def test_look_ups_agree_with_the_clients(database: Location) -> None:
    """Trackers of one point, of a few, and one above its capacity; numbers and times at, between and beyond points."""
    few = SequenceTracker(((5, 1_700_000_000), (9, 1_700_000_060), (4000, 1_700_009_000), (4001, 1_700_009_100)))
    many = SequenceTracker()
    for number in range(MAX_POINTS + 3):
        many = many.record(5 * number + number % 5, 1_700_000_000 + 61 * number)
    assert len(many.points) == MAX_POINTS // 2 + 3
    SlateStore.create(str(database.folder))
    store = SlateStore.open(str(database.folder))
    latest, manifest = fetch_latest_manifest(store._stores)
    for number, tracker in enumerate([SequenceTracker(), SequenceTracker(few.points[:1]), few, many], latest + 1):
        publish(database, number, manifest, tracker)
        near = [*tracker.points[:3], *tracker.points[-3:]]
        seqs = {seq + step for seq, _ in near for step in (-1, 0, 1) if seq + step >= 0} | {0, 1 << 40}
        times_s = {time_s + step for _, time_s in near for step in (-1, 0, 1)} | {0, 1 << 33}
        for up in (False, True):
            rounding = "up" if up else "down"
            for seq in seqs:
                ours = store.seqToTimestamp(seq, round=rounding)
                assert (ours and ours.time_ms // 1000) == time_for_seq(database, seq, round_up=up)
                assert ours is None or ours.rounded == (ours.seq != seq)
            for time_s in times_s:
                found = store.timestampToSeq(time_s * 1000, round=rounding)
                assert (found and found.seq) == seq_for_time(database, time_s, round_up=up)
                assert found is None or found.rounded == (found.time_ms != time_s * 1000)
    assert [(point.seq, point.time_ms // 1000) for point in store.sequences()] == list(many.points)


def publish(location: Location, number: int, manifest: Manifest, tracker: SequenceTracker) -> None:
    changed = replace(manifest, sequence_tracker=tracker)
    open_store(str(location.folder), {}).create(manifest_path(number), encode_manifest(changed))


def test_each_commit_takes_the_tracker_on_as_the_client_does(database: Location) -> None:
    """Commits of both within a minute: the first one's point stays, and its bytes come back from the client as ours."""
    store = SlateStore.create(str(database.folder))
    put(store, a="1")
    ours = store.sequences()
    assert [point.seq for point in ours] == [last_seq(store)]
    with Client.open(database) as client:
        client.put(b"b", b"2")
        client.flush_memtable()
        client.close()
    put(store, c="3")
    assert store.sequences() == ours
    assert time_for_seq(database, ours[0].seq) == ours[0].time_ms // 1000


@pytest.mark.parametrize("points", [0, 1, 1000, MAX_POINTS - 1, MAX_POINTS])
def test_the_client_writes_the_bytes_that_we_would(database: Location, points: int) -> None:
    """It adds a point to a tracker of ours; above the capacity it drops the same ones."""
    steps = np.random.default_rng(points)
    taken, seq, time_s = [], 7, 1_600_000_000
    for _ in range(points):
        seq, time_s = (
            seq + int(steps.choice([0, 1, 5, 90, 3000, 1 << 20])),
            time_s + int(steps.choice([60, 61, 65, 400, 9000])),
        )
        taken.append((seq, time_s))
    tracker = SequenceTracker(tuple(taken))
    SlateStore.create(str(database.folder))
    store = SlateStore.open(str(database.folder))
    latest, manifest = fetch_latest_manifest(store._stores)
    publish(database, latest + 1, replace(manifest, last_l0_seq=seq), tracker)
    with Client.open(database) as client:
        reached = client.put(b"a", b"1").seq
        client.flush_memtable()
        client.close()
    latest, manifest = fetch_latest_manifest(store._stores)
    expected = tracker.record(reached, manifest.sequence_tracker.points[-1][1])
    assert manifest.sequence_tracker == expected
    assert len(expected.points) == (points + 1 if points < MAX_POINTS else MAX_POINTS // 2 + 1)
    assert encode_sequence_tracker(expected) in (database.folder / manifest_path(latest)).read_bytes()
