"""A stream of every write: kind log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slatespark import (
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SlateStore,
    SnapshotExpiredError,
)
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.options import WriteOptions
from slatespark.storage import open_store
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.operations import Operation
from slatespark.table.stores import open_stores
from slatespark.table.streams.position import decode_position
from slatespark.table.write.load_run import load_batches
from tests.support.change_streams import Consumer
from tests.support.client import Client, Location
from tests.support.fake_clock import FakeClock
from tests.unit.table.streams.stream_place import NAMES, SCHEMA, Place, numbers, rows


def test_a_log_goes_on_from_a_version_that_was_collected() -> None:
    """Nothing is compared then, not even with what a writer leaves that lost a race long ago."""
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes="log")
    consumer.catch_up()
    reached = decode_position(json.loads(consumer.offsets[-1])).version
    for n in range(3):
        place.store.write(rows(range(n, n + 1), n + 1))
    place.vacuum()
    inner = open_store(place.store.url, {})
    with pytest.raises(FileNotFoundError):
        inner.get(manifest_path(reached))
    consumer.restart()
    assert consumer.step()
    del consumer.offsets[-1]
    inner.put(manifest_path(reached), [bytes(inner.get(manifest_path(place.store.resolve().version)))])
    consumer.restart()
    assert consumer.step()
    assert numbers(consumer.state) == numbers(place.now())


@pytest.mark.parametrize("start", [{"startingVersion": 1}, {"startingTimestamp": 0}])
def test_a_log_of_all_writes_has_those_of_the_first_version(start: dict[str, int]) -> None:
    """As a write of Spark creates a table: with rows in its first version."""
    clock, url = FakeClock(), f"memory://streams/{next(NAMES)}"
    options = WriteOptions.parse({"path": url, "keyColumns": "id"})
    load_batches(open_stores(url, storage={}), clock, SCHEMA, rows(range(4)).to_batches(), options)
    store = SlateStore.open(url, clock=clock)
    assert store.scan(versionAsOf=1).read_all().num_rows == 4
    store.write(rows(range(1), 1))
    consumer = Consumer(store, clock, ["id"], changes="log", **start)
    consumer.catch_up()
    assert consumer.sizes == [5]


def test_a_log_of_all_writes_needs_no_first_version() -> None:
    place = Place()
    for number in range(3):
        place.store.write(rows(range(number, number + 1)))
    place.vacuum()
    with pytest.raises(SnapshotExpiredError):
        place.store.scan(versionAsOf=1)
    consumer = place.consumer(changes="log", startingVersion=1)
    consumer.catch_up()
    assert sorted(consumer.state) == [(0,), (1,), (2,)]


def writes_of(consumer: Consumer) -> list[tuple[str, int]]:
    return [(word, row["id"]) for word, row in consumer.last]


# --- kind log -------------------------------------------------------------------------------------------------------


def test_the_log_follows_the_rows() -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes="log")
    assert consumer.step()
    assert writes_of(consumer) == [("insert", key) for key in range(3)]
    assert not consumer.step()
    place.store.write(rows(range(1), 1))
    place.store.write(rows(range(2), 2))
    assert consumer.step()
    assert writes_of(consumer) == [("upsert", 0), ("upsert", 0), ("upsert", 1)]
    for _ in range(3):
        assert not consumer.step()
    wanted = consumer.last
    consumer.restart()
    consumer.replay()
    assert consumer.last == wanted
    assert not consumer.step()


@pytest.mark.parametrize("options", [{}, {"maxRowsPerTrigger": 1}, {"maxBytesPerTrigger": "1k"}])
def test_the_log_of_an_empty_table_begins_with_an_empty_batch(options: dict[str, Any]) -> None:
    place = Place(versionRetention="7d")
    consumer = place.consumer(changes="log", **options)
    assert consumer.step()
    assert not consumer.step()
    consumer.begin_again()
    for n in range(2):
        place.store.write(rows(range(1), n))
    consumer.catch_up()
    assert consumer.state[0,]["n"] == 1
    assert sum(consumer.sizes) == 2, "each write by itself"


def test_the_log_from_a_start_with_limits() -> None:
    place = Place(versionRetention="7d")
    for n in range(4):
        place.store.write(rows(range(2), n))
    consumer = place.consumer(changes="log", startingVersion=1, maxRowsPerTrigger=1)
    assert consumer.catch_up() == 4  # a commit is not cut
    assert consumer.sizes == [2, 2, 2, 2]
    consumer.restart()
    consumer.stream.stop_at_newest()
    place.store.write(rows(range(1), 9))
    assert consumer.catch_up() == 1
    place.store.write(rows(range(1), 10))
    assert consumer.catch_up() == 0
    consumer.restart()
    assert consumer.catch_up() == 1


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "whole"])
def test_a_run_that_ends_reads_the_log_behind_the_first_rows_too(is_cut: bool) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(4)))
    consumer = place.consumer(changes="log", maxRowsPerTrigger=3)
    assert consumer.step(is_limited=is_cut)  # a part of the first rows, or all
    for n in range(1, 3):
        place.store.write(rows(range(1), n))
    consumer.restart()
    consumer.stream.stop_at_newest()
    assert consumer.step()
    place.store.write(rows(range(1), 9))
    consumer.catch_up()
    assert consumer.state[0,]["n"] == 2
    consumer.restart()
    consumer.stream.stop_at_newest()
    consumer.catch_up()
    assert consumer.state[0,]["n"] == 9


def test_the_log_in_files_is_refused() -> None:
    with pytest.raises(OptionError):
        Place().consumer(changes="log", maxFilesPerTrigger=3)


def test_a_log_ends_at_a_load_that_took_no_number() -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes="log")
    assert consumer.step()
    assert not consumer.step()
    newest = fetch_latest_manifest(place.store._stores)
    number = newest.number + 1  # as a live client commits a load: neither a row nor a WAL file is behind it
    place.store._stores.main.put(manifest_path(number), [encode_manifest(newest.value)])
    record = CommitRecord(number, Operation.COOPERATIVE_WRITE, "0123456789abcdef", "slatespark", 5, 4, 1, 1)
    publish_commit_record(place.store._stores.main, record)
    with pytest.raises(HistoryTrimmedError):
        consumer.step()


def test_a_batch_of_a_net_stream_is_none_of_a_log() -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(maxRowsPerTrigger=1)
    consumer.step(is_limited=False)
    place.store.write(rows(range(3), 1))
    assert consumer.step()
    consumer.restart(changes="log", maxRowsPerTrigger=None)
    with pytest.raises(InvalidRequestError):
        consumer.replay()


def test_a_net_stream_cannot_go_on_where_a_log_is_within_the_wal(tmp_path: Path) -> None:
    """No older copy is to blame: the version is still there."""
    with Client.open(Location.local(tmp_path)) as client:
        client.put(b"k", b"1")
        client.flush_wal()
        store, clock = SlateStore.open(str(tmp_path)), FakeClock()
        consumer = Consumer(store, clock, ["key"], changes="log")
        consumer.catch_up()
        client.put(b"k", b"2")
        client.flush_wal()
        consumer.catch_up()
    consumer.restart(changes="net")
    with pytest.raises(InvalidRequestError, match="changes=log"):
        consumer.step()
    consumer.restart(changes="log")
    assert not consumer.step()
