"""Segmented databases: the real client reads, writes on and compacts what we wrote, and we what it wrote."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from slatedb import uniffi

from slatespark import HistoryTrimmedError, InvalidRequestError, OptionError, SlateStore
from slatespark.table.compaction.worker import Worker
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import collect_garbage, compact_segments, read_manifest
from tests.support.fixture_databases import FIXTURES
from tests.support.our_reads import our_rows
from tests.support.segments import FixedPrefix, UpTo

SLASH = UpTo(b"/")
FENCE: dict[str, Any] = {"ifClientActive": "fence"}

Rows = dict[bytes, bytes]


def options(extractor: Any = SLASH, **more: Any) -> ClientOptions:
    return ClientOptions(compactor=True, segments=extractor, **more)


def table_of(rows: Mapping[bytes, bytes]) -> pa.Table:
    return pa.table({"key": pa.array(rows, pa.binary()), "value": pa.array(rows.values(), pa.binary())})


def keys_of(keys: Iterable[bytes]) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.binary())})


def pairs(store: SlateStore, **read: Any) -> Rows:
    return {row.key: row.value for row in our_rows(store, **read)}


def client_pairs(location: Location, extractor: Any = SLASH, **read: Any) -> Rows:
    return {row.key: row.value for row in read_rows(location, options=options(extractor), **read)}


def prefixes(location: Location) -> list[bytes]:
    manifest = read_manifest(location)
    assert not manifest.l0
    assert not manifest.compacted
    return [bytes(segment.prefix) for segment in manifest.segments]


def check_client_serves(location: Location, expected: Rows, extractor: Any = SLASH) -> None:
    """The client reads it, row by row and as a whole, before and after it has written and compacted all."""
    assert client_pairs(location, extractor) == expected
    with Client.open(location, options(extractor)) as client:
        for compacts in (False, True):
            if compacts:
                compact_segments(client)
            assert {row.key: row.value for row in client.scan()} == expected
            assert {key: client.get(key) for key in expected} == expected
    collect_garbage(location)
    assert client_pairs(location, extractor) == expected


@pytest.mark.parametrize("extractor", [SLASH, FixedPrefix(2), UpTo(b"/k", "wide")], ids=lambda each: each.called)
def test_a_table_of_ours_is_served_by_a_client_with_that_extractor(extractor: Any, database: Location) -> None:
    store = SlateStore.create(str(database.folder), **extractor.options)
    assert client_pairs(database, extractor) == {}
    rows = {b"%c/k%d" % (name, number): b"1" for name in b"bca" for number in range(3)}
    store.write(table_of(rows))
    assert prefixes(database) == sorted({key[: 3 if extractor.called == "wide" else 2] for key in rows})
    check_client_serves(database, rows, extractor)
    assert pairs(store) == rows


def test_both_write_in_turn(database: Location) -> None:
    with Client.open(database, options()) as client:
        client.put(b"a/1", b"theirs")
        client.flush_memtable()
        client.put(b"b/1", b"wal")
        client.flush_wal()
    store = SlateStore.open(str(database.folder))
    store.write(table_of({b"a/2": b"ours", b"b/2": b"ours", b"c/1": b"ours"}), **SLASH.options, **FENCE)
    rows = {b"a/1": b"theirs", b"a/2": b"ours", b"b/1": b"wal", b"b/2": b"ours", b"c/1": b"ours"}
    assert pairs(store) == client_pairs(database) == rows
    with Client.open(database, options()) as client:
        client.put(b"a/2", b"later")
        client.delete(b"c/1")
        client.put(b"d/1", b"later")
        client.flush_memtable()
    store.write(table_of({b"a/1": b"last", b"d/2": b"last"}), **FENCE)  # no extractor: the segments exist
    store.write(keys_of([b"b/1"]), operation="delete", **FENCE)
    rows = {b"a/1": b"last", b"a/2": b"later", b"b/2": b"ours", b"d/1": b"later", b"d/2": b"last"}
    assert pairs(store) == rows
    assert store.verify().findings == ()
    check_client_serves(database, rows)
    store.compact(full=True, **FENCE)
    assert pairs(store) == rows
    check_client_serves(database, rows)


def test_runs_have_one_number_each_and_no_l0_is_left(database: Location) -> None:
    store = SlateStore.create(str(database.folder), **SLASH.options)
    for turn in range(3):
        with Client.open(database, options()) as client:
            client.put(b"a/%d" % turn, b"1")
            client.put(b"b/%d" % turn, b"1")
            client.flush_memtable()
        store.write(table_of({b"b/x": b"2", b"c/%d" % turn: b"2"}), **FENCE)
    segments = read_manifest(database).segments
    assert not any(segment.l0 for segment in segments)
    runs = [[run.id for run in segment.compacted] for segment in segments]
    assert all(ids == sorted(ids, reverse=True) for ids in runs)
    assert len({run for ids in runs for run in ids}) == sum(map(len, runs)) == 3 + 6 + 3


def test_a_segment_is_dropped_by_its_prefix_and_comes_back(database: Location) -> None:
    store = SlateStore.create(str(database.folder), **SLASH.options)
    rows = {b"%c/%d" % (name, number): b"1" for name in b"abc" for number in range(3)}
    store.write(table_of(rows))
    with Client.open(database, options()) as client:
        client.put(b"b/8", b"flushed")
        client.flush_memtable()
        client.put(b"b/9", b"in the WAL")
        client.put(b"c/9", b"in the WAL")
        client.flush_wal()
    store.deleteRange(keyPrefix=b"b/", **FENCE)
    assert prefixes(database) == [b"a/", b"c/"]
    left = {key: value for key, value in {**rows, b"c/9": b"in the WAL"}.items() if not key.startswith(b"b/")}
    assert pairs(store) == left
    check_client_serves(database, left)
    with Client.open(database, options()) as client:
        client.put(b"b/5", b"again")
        client.flush_memtable()
    store.write(table_of({b"b/6": b"again"}), **FENCE)
    check_client_serves(database, {**left, b"b/5": b"again", b"b/6": b"again"})


def test_ranges_across_segments_are_cut_and_replaced(database: Location) -> None:
    store = SlateStore.create(str(database.folder), **SLASH.options)
    rows = {b"%c/%d" % (name, number): b"1" for name in b"abcd" for number in range(9)}
    store.write(table_of(rows))
    new = {b"a/7": b"2", b"bb/1": b"2", b"c/2": b"2"}
    store.write(table_of(new), mode="overwrite", startKey=b"a/5", endKey=b"c/3")
    expected = {key: value for key, value in rows.items() if not b"a/5" <= key < b"c/3"} | new
    assert pairs(store) == expected
    assert prefixes(database) == [b"a/", b"bb/", b"c/", b"d/"]
    assert store.verify().findings == ()
    check_client_serves(database, expected)
    store.write(table_of({b"z/1": b"3"}), mode="overwrite", **FENCE)
    assert prefixes(database) == [b"z/"]
    check_client_serves(database, {b"z/1": b"3"})


def test_a_typed_table(database: Location) -> None:
    """The delimiter is the end of a string in a key: one segment for each tenant."""
    day = UpTo(b"\0", "tenant")
    rows = pa.table({"tenant": ["a", "b", "b", "c"], "id": [1, 1, 2, 1], "n": [1, 2, 3, 4]})
    store = SlateStore.create(str(database.folder), rows.schema, "tenant,id", **day.options)
    store.write(rows)
    assert prefixes(database) == [b"\2a\0", b"\2b\0", b"\2c\0"]
    store.deleteRange("tenant = 'b'")
    assert prefixes(database) == [b"\2a\0", b"\2c\0"]
    store.write(rows.slice(1, 1))  # the definition has the extractor
    with Client.open(database, options(day)) as client:
        compact_segments(client)
        assert len(client.scan()) == 3
    assert store.scan().read_all().to_pylist() == [row for row in rows.to_pylist() if row["n"] != 3]


def test_a_client_of_a_history_table_loses_versions_and_that_is_noticed(database: Location) -> None:
    store = SlateStore.create(str(database.folder), history=True, **SLASH.options)
    store.write(table_of({b"a/1": b"1"}), timestamp=1_700_000_000_000)
    store.write(table_of({b"a/1": b"2", b"b/1": b"1"}), timestamp=1_700_000_001_000)
    assert pairs(store, timestampAsOf=1_700_000_000_500) == {b"a/1": b"1"}
    with Client.open(database, options()) as client:
        client.put(b"b/2", b"1")
        client.flush_memtable()
    with pytest.raises(HistoryTrimmedError):
        pairs(store, timestampAsOf=1_700_000_000_500)


# --- beside a live client ---------------------------------------------------------------------------------------------


def live(client: Client) -> dict[bytes, bytes]:
    return {row.key: row.value for row in client.scan()}


def test_a_worker_serves_the_segments_of_a_live_client(database: Location) -> None:
    """Every job of the client waits for a worker of ours."""
    settings = {
        "compactor_options.worker": None,
        "compactor_options.scheduler_options.min_compaction_sources": "2",
        "compactor_options.max_concurrent_compactions": 4,
    }
    SlateStore.create(str(database.folder), **SLASH.options)
    rows: Rows = {}
    worker = Worker([str(database.folder)])
    with Client.open(database, options(compact_by_itself=True, settings=settings)) as client:
        for turn in range(8):
            new = {b"%c/%d" % (name, turn % 3): b"%d" % turn for name in b"abc"}
            for key, value in new.items():
                client.put(key, value)
            client.flush_memtable()
            rows.update(new)
        wait_for(lambda: worker.runOnce() is not None and len(segments_with_runs(database)) == 3)
        assert live(client) == rows
        client.put(b"d/1", b"still open")
        client.flush_memtable()
    assert pairs(SlateStore.open(str(database.folder))) == {**rows, b"d/1": b"still open"}


def test_segments_are_compacted_beside_a_live_client(database: Location) -> None:
    store = SlateStore.create(str(database.folder), **SLASH.options)
    rows = {b"%c/%d" % (name, number): b"1" for name in b"abc" for number in range(3)}
    store.write(table_of(rows))
    with Client.open(database, options()) as client:
        for turn in range(2):
            client.put(b"b/%d" % turn, b"2")
            client.put(b"c/%d" % turn, b"2")
            client.flush_memtable()
            rows |= {b"b/%d" % turn: b"2", b"c/%d" % turn: b"2"}
        report = store.compact(full=True, ifClientActive="cooperate")
        assert len(report.jobs) == 3
        assert live(client) == pairs(store) == rows
        client.put(b"a/1", b"still open")
        client.flush_memtable()
    assert pairs(store)[b"a/1"] == b"still open"
    assert all(len(segment.compacted) == 1 for segment in read_manifest(database).segments)


def segments_with_runs(location: Location) -> list[bytes]:
    return [bytes(segment.prefix) for segment in read_manifest(location).segments if segment.compacted]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def fixed3(tmp_path: Path) -> Location:
    """A client's database with the segments aaa, bbb and ccc."""
    shutil.copytree(FIXTURES / "segments", tmp_path / "fixed3")
    return Location.local(tmp_path / "fixed3")


def test_rows_that_need_an_undeclared_segment(fixed3: Location) -> None:
    store = SlateStore.open(str(fixed3.folder))
    before, version = pairs(store), fetch_latest_manifest(store._stores)[0]
    for rows, how in (
        (table_of({b"aaa1": b"1", b"new1": b"1"}), {}),
        (table_of({b"aa": b"1"}), {}),
        (keys_of([b"new1"]), {"operation": "delete"}),
        (table_of({b"new1": b"1"}), {"mode": "overwrite"}),
    ):
        with pytest.raises(InvalidRequestError, match="needs a new segment"):
            store.write(rows, **how)
    with pytest.raises(InvalidRequestError, match="finds no prefix in the key 6e65"):
        store.write(table_of({b"ne": b"1"}), segmentExtractor="fixed3", segmentPrefixLength=3)
    assert fetch_latest_manifest(store._stores)[0] == version
    assert pairs(store) == before
    store.write(table_of({b"aaa1": b"1"}))
    store.write(table_of({b"new1": b"1"}), segmentExtractor="fixed3", segmentPrefixLength=3)
    check_client_serves(fixed3, {**before, b"aaa1": b"1", b"new1": b"1"}, FixedPrefix(3, "fixed3"))


def test_rows_of_the_wal_that_need_an_undeclared_segment(fixed3: Location) -> None:
    extractor = FixedPrefix(3, "fixed3")
    with Client.open(fixed3, options(extractor)) as client:
        client.put(b"new1", b"wal")
        client.flush_wal()
    store = SlateStore.open(str(fixed3.folder))
    before, version = pairs(store), fetch_latest_manifest(store._stores)[0]
    assert before[b"new1"] == b"wal"
    for call in (
        lambda: store.write(table_of({b"aaa1": b"1"}), **FENCE),
        lambda: store.compact(full=True, **FENCE),
        lambda: store.deleteRange(keyPrefix=b"aaa", **FENCE),
    ):
        with pytest.raises(InvalidRequestError, match="6e657731 needs a new segment"):
            call()
    assert fetch_latest_manifest(store._stores)[0] == version, "no client is fenced"
    store.setProperties(**extractor.options)
    store.compact(full=True, **FENCE)
    assert pairs(store) == before
    store.deleteRange(keyPrefix=b"new", **FENCE)
    before.pop(b"new1")
    check_client_serves(fixed3, before, extractor)


@pytest.mark.parametrize("call", ["erase", "restore"])
def test_rows_of_the_wal_that_need_a_segment_declared_by_the_call(call: str, fixed3: Location) -> None:
    extractor = FixedPrefix(3, "fixed3")
    with Client.open(fixed3, options(extractor)) as client:
        client.put(b"new1", b"wal")
        client.put(b"new2", b"wal")
        client.flush_wal()
    store = SlateStore.open(str(fixed3.folder))
    before, version = pairs(store), fetch_latest_manifest(store._stores)[0]
    if call == "erase":
        assert store.erase(b"new1", **extractor.options, **FENCE).gone
        before.pop(b"new1")
    else:
        store.restoreToVersion(version, **extractor.options, **FENCE)
    assert pairs(store) == before
    check_client_serves(fixed3, before, extractor)


@pytest.mark.parametrize(
    ("declared", "match"),
    [
        ({"segmentExtractor": "fixed4", "segmentPrefixLength": 3}, "'fixed3'"),
        ({"segmentExtractor": "fixed3", "segmentPrefixLength": 2}, "616161"),
        ({"segmentExtractor": "fixed3", "segmentDelimiter": "a"}, "616161"),
        ({"segmentExtractor": "fixed3"}, "segmentPrefixLength"),
        ({"segmentPrefixLength": 3}, "segmentExtractor"),
        ({"segmentExtractor": "fixed3", "segmentPrefixLength": 3, "segmentDelimiter": "/"}, "segmentDelimiter"),
        ({"segmentExtractor": "fixed3", "segmentPrefixLength": 0}, "segmentPrefixLength"),
        ({"segmentExtractor": "fixed3", "segmentDelimiter": ""}, "segmentDelimiter"),
        ({"segmentExtractor": " ", "segmentPrefixLength": 3}, "segmentExtractor"),
    ],
)
def test_a_wrong_declaration(fixed3: Location, declared: dict[str, Any], match: str) -> None:
    store = SlateStore.open(str(fixed3.folder))
    for call in (
        lambda: store.write(table_of({b"aaa1": b"1"}), **declared),
        lambda: store.deleteRange(keyPrefix=b"aaa", **declared),
        lambda: store.begin(**declared),
        lambda: store.setProperties(**declared),
    ):
        with pytest.raises(OptionError, match=match):
            call()
    assert store.detail().definition is None


def test_a_declaration_for_a_table_without_segments(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    for call in (
        lambda: store.write(table_of({b"a/1": b"1"}), **SLASH.options),
        lambda: store.setProperties(**SLASH.options),
    ):
        with pytest.raises(OptionError, match="is not segmented"):
            call()


def test_another_declaration_than_that_of_the_table(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"), **SLASH.options)
    with pytest.raises(OptionError, match="up_to"):
        store.write(table_of({b"a/1": b"1"}), segmentExtractor="up_to", segmentPrefixLength=2)
    store.write(table_of({b"a/1": b"1"}), **SLASH.options)
    for other in (None, FixedPrefix(3, "up_to"), FixedPrefix(2)):
        with pytest.raises(uniffi.Error):
            Client.open(Location.local(tmp_path / "db"), options(other)).close()


def test_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="holdHistory"):
        SlateStore.create(str(tmp_path / "db"), history=True, holdHistory=True, **SLASH.options)
