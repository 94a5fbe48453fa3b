"""Segmented databases beside a live client: loads of several segments, and segments that are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, OptionError, SlateStore, TransactionConflictError
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commits import fetch_commit_record
from slatespark.table.records.handed_loads import fetch_handed_loads
from slatespark.table.stores import TableStores
from tests.faults.jobs import stores_of
from tests.interop.test_cooperative_writes import IDLE, flushed, shows
from tests.support.client import Client, Location, Put, read_rows
from tests.support.client_admin import read_manifest
from tests.support.cooperative_loads import load_beside
from tests.support.live_client import LiveClient
from tests.support.observers import awaited, reopened_copy
from tests.support.segments import FixedPrefix, UpTo

OPTIONS = replace(IDLE, segments=UpTo(b"/"))


@pytest.fixture
def live(database: Location) -> Iterator[LiveClient]:
    with LiveClient(database, OPTIONS) as client:
        flushed(client, **{"a/1": "old", "b/1": "old", "c/1": "old"})
        yield client


def stores(live: LiveClient) -> TableStores:
    return stores_of(LocalStore(live.location.folder))


def segments(live: LiveClient) -> list[bytes]:
    return [bytes(segment.prefix) for segment in read_manifest(live.location).segments]


def epochs(live: LiveClient) -> tuple[int, int]:
    manifest = read_manifest(live.location)
    return manifest.writer_epoch, manifest.compactor_epoch


def drop(live: LiveClient, prefix: bytes, **options: Any) -> int:
    given = {"ifClientActive": "cooperate", "clientTimeout": "5s", **options}
    return SlateStore.open(str(live.location.folder)).deleteRange(keyPrefix=prefix, **given)


# --- loads ----------------------------------------------------------------------------------------------------------


def test_rows_of_several_segments_appear_in_one_version(live: LiveClient) -> None:
    before = epochs(live)
    record = load_beside(live.location.folder, {b"a/1": b"load", b"a/2": b"load", b"c/1": None})
    shown, earlier = (read_manifest(live.location, record.manifest_id - back) for back in (0, 1))
    runs = [{bytes(each.prefix): len(each.compacted) for each in manifest.segments} for manifest in (earlier, shown)]
    assert runs == [{b"a/": 0, b"b/": 0, b"c/": 0}, {b"a/": 1, b"b/": 0, b"c/": 1}]
    assert len({run.id for each in shown.segments for run in each.compacted}) == 2
    shows(live, {"a/1": "load", "a/2": "load", "b/1": "old"})
    live.put(b"a/2", b"newer")
    live.put(b"b/2", b"newer")
    live.flush_wal()
    rows = {b"a/1": b"load", b"a/2": b"newer", b"b/1": b"old", b"b/2": b"newer"}
    assert {row.key: row.value for row in read_rows(live.location, options=OPTIONS)} == rows
    with reopened_copy(live.location, OPTIONS) as client:
        assert {row.key: row.value for row in client.scan()} == rows
    assert epochs(live) == before
    assert live.is_open()


def test_a_second_load_takes_the_runs_of_the_first(live: LiveClient) -> None:
    load_beside(live.location.folder, {b"a/1": b"1", b"b/1": b"1"})
    load_beside(live.location.folder, {b"b/1": b"2", b"c/1": b"2"})
    shows(live, {"a/1": "1", "b/1": "2", "c/1": "2"})
    assert fetch_compactions(stores(live)).value.active_jobs() == ()


def test_a_segment_that_the_client_has_not_flushed_is_refused(live: LiveClient) -> None:
    live.put(b"d/1", b"in the WAL")
    before = read_manifest(live.location)
    rows: dict[bytes, bytes | None] = {b"a/1": b"load", b"d/2": b"load"}
    with pytest.raises(CommitConflictError, match="642f"):
        load_beside(live.location.folder, rows, clientTimeout="300ms", **UpTo(b"/").options)
    assert read_manifest(live.location).segments == before.segments
    shows(live, {"a/1": "old", "b/1": "old", "c/1": "old", "d/1": "in the WAL"})
    live.flush_memtable()
    load_beside(live.location.folder, rows)
    shows(live, {"a/1": "load", "b/1": "old", "c/1": "old", "d/1": "in the WAL", "d/2": "load"})


def test_a_load_is_committed_once_under_its_pair(live: LiveClient) -> None:
    pair: dict[str, Any] = {"txnAppId": "app", "txnVersion": 1}
    store = SlateStore.open(str(live.location.folder))
    for value in (b"first", b"second"):
        rows = pa.table({"key": [b"a/1", b"b/1"], "value": [value, value]})
        store.write(rows, ifClientActive="cooperate", **pair)
    shows(live, {"a/1": "first", "b/1": "first", "c/1": "old"})


def test_a_load_that_deletes_from_an_empty_segment_is_recorded_and_committed_once(live: LiveClient) -> None:
    """Its commit changes nothing there, so what became of the load is told by the other segments."""
    load_beside(live.location.folder, {b"a/1": b"1", b"b/1": None})
    record = load_beside(live.location.folder, {b"a/1": b"2", b"b/1": None})
    assert fetch_commit_record(stores(live).main, record.manifest_id) is not None
    pair: dict[str, Any] = {"txnAppId": "app", "txnVersion": 1}
    load_beside(live.location.folder, {b"a/1": b"3", b"b/1": None}, **pair)
    live.put(b"a/1", b"later")
    live.flush_memtable()
    rows = pa.table({"key": [b"a/1", b"b/1"], "value": [b"3", b""], "op": ["put", "delete"]})
    SlateStore.open(str(live.location.folder)).write(rows, opColumn="op", ifClientActive="cooperate", **pair)
    shows(live, {"a/1": "later", "c/1": "old"})
    assert not fetch_handed_loads(stores(live).main)


# --- dropping a segment ---------------------------------------------------------------------------------------------


def test_a_number_from_before_the_drop_shows_the_segment(live: LiveClient) -> None:
    """The drop takes no number; once the files from before it are gone, the number is refused."""
    store = SlateStore.open(str(live.location.folder))
    last, rows = store.resolve().seq, store.scan().read_all()
    drop(live, b"b/")
    assert store.scan().read_all()["key"].to_pylist() == [b"a/1", b"c/1"]
    assert store.scan(seqAsOf=last).read_all() == rows
    flushed(live, **{"a/2": "later"})
    assert store.scan(seqAsOf=last).read_all() == rows
    drop(live, b"a/")
    last = store.resolve().seq
    shown = fetch_latest_manifest(stores(live)).value.ssts
    for path in (live.location.folder / "compacted").iterdir():
        if path.stem not in set(map(str, shown)):
            path.unlink()
    with pytest.raises(HistoryTrimmedError, match="segments"):
        store.scan(seqAsOf=last)


def test_a_segment_is_dropped(live: LiveClient) -> None:
    before = epochs(live)
    load_beside(live.location.folder, {b"b/1": b"load", b"b/2": b"load"})
    flushed(live, **{"b/3": "L0"})
    version = drop(live, b"b/")
    shows(live, {"a/1": "old", "c/1": "old"})
    record = fetch_commit_record(stores(live).main, version)
    assert record is not None
    assert (record.operation, record.replaced, len(record.removed)) == ("deleteRange", ((b"b/".hex(), b"b0".hex()),), 2)
    assert read_manifest(live.location, version - 1).segments[1].compacted
    flushed(live, **{"a/2": "later"})  # the writer removes the segment when it flushes
    assert awaited(lambda: segments(live), [b"a/", b"c/"]) == [b"a/", b"c/"]
    flushed(live, **{"b/1": "again"})
    shows(live, {"a/1": "old", "a/2": "later", "b/1": "again", "c/1": "old"})
    assert epochs(live) == before


def test_rows_that_were_not_flushed_are_waited_for(live: LiveClient) -> None:
    live.put(b"b/2", b"in the WAL")
    live.flush_wal()
    with pytest.raises(CommitConflictError, match="622f32"):
        drop(live, b"b/", clientTimeout="300ms")
    shows(live, {"a/1": "old", "b/1": "old", "b/2": "in the WAL", "c/1": "old"})
    drop(live, b"b/", clientTimeout="300ms", unflushedRows="win")
    shows(live, {"a/1": "old", "b/2": "in the WAL", "c/1": "old"})
    live.flush_memtable()
    drop(live, b"b/")
    shows(live, {"a/1": "old", "c/1": "old"})


def test_a_snapshot_loses_the_segment(live: LiveClient) -> None:
    """Not sound: it was opened before the drop."""
    snapshot = live.take_snapshot()
    drop(live, b"b/")
    assert awaited(lambda: live.get(b"b/1", at=snapshot), None) is None
    assert live.get(b"a/1", at=snapshot) == b"old"


def test_our_transactions_notice_that_a_segment_was_dropped(live: LiveClient) -> None:
    store = SlateStore.open(str(live.location.folder))
    one, other = store.begin(ifClientActive="fence"), store.begin(ifClientActive="fence")
    for transaction, key in ((one, b"b/1"), (other, b"a/1")):
        assert transaction.getForUpdate([key]).read_all().num_rows == 1
        transaction.write(pa.table({"key": [key], "value": [b"2"]}))
    drop(live, b"b/")
    with pytest.raises(TransactionConflictError, match="62"):
        one.commit()
    other.commit()


@pytest.mark.parametrize("prefix", [b"b", b"b/1", b""])
def test_other_ranges_are_refused(live: LiveClient, prefix: bytes) -> None:
    with pytest.raises(OptionError, match="cooperate"):
        drop(live, prefix)
    with pytest.raises(OptionError, match="txnAppId"):
        drop(live, b"b/", txnAppId="app", txnVersion=1)
    shows(live, {"a/1": "old", "b/1": "old", "c/1": "old"})


def test_there_is_nothing_to_drop(live: LiveClient) -> None:
    version = fetch_latest_manifest(stores(live)).number
    assert drop(live, b"x/") == version


def test_no_client_answers(live: LiveClient) -> None:
    live.close()
    with pytest.raises(CommitConflictError, match="fence"):
        drop(live, b"b/", clientTimeout="300ms")
    with LiveClient(live.location, OPTIONS) as again:  # the job was taken back
        flushed(again, **{"b/2": "new"})
        shows(again, {"a/1": "old", "b/1": "old", "b/2": "new", "c/1": "old"})
        drop(again, b"b/")
        shows(again, {"a/1": "old", "c/1": "old"})


def test_a_condition_that_names_a_segment(database: Location) -> None:
    """A day of a typed table."""
    extractor = FixedPrefix(3, "day")
    rows = pa.table({"day": pa.array([20_000, 20_001, 20_001], pa.date32()), "id": [1, 1, 2], "n": [5, 6, 7]})
    store = SlateStore.create(str(database.folder), rows.schema, "day,id", **extractor.options)
    store.write(rows)
    with Client.open(database, replace(OPTIONS, segments=extractor)) as client:
        store.deleteRange("day = '2024-10-05'", ifClientActive="cooperate")
        assert awaited(lambda: len(client.scan()), 1) == 1
        assert store.scan().read_all()["n"].to_pylist() == [5]
        with pytest.raises(OptionError, match="cooperate"):
            store.deleteRange("day >= '2024-10-05'", ifClientActive="cooperate")
        client.write([Put(b"\x80\x00\x00x", b"")])
        assert client.is_open()
