"""The log of a database that a live client writes: its writes appear once its WAL is flushed, none twice, none lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slatespark import HistoryTrimmedError, SlateStore
from slatespark.table.changes.feed import FeedPlan, run_feed
from slatespark.table.changes.follow import FeedFollower
from slatespark.table.clock import SystemClock
from tests.support.change_streams import Consumer
from tests.support.client import ClientOptions, Delete, Location, Merge, Put
from tests.support.client_admin import collect_garbage
from tests.support.cooperative_loads import load_beside
from tests.support.fake_clock import FakeClock
from tests.support.live_client import LiveClient, Traffic, writes_of

COORDINATOR = ClientOptions(
    compactor=True, settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}
)


@pytest.fixture
def live(database: Location) -> Iterator[LiveClient]:
    with LiveClient(database, COORDINATOR) as client:
        yield client


def follower_of(database: Location, version: int = 1) -> FeedFollower:
    store = SlateStore.open(str(database.folder))
    options = store._read_options({"readChangeFeed": True, "changes": "log", "startingVersion": version})
    return FeedFollower(store._stores, options, SystemClock())


def rows_of(follower: FeedFollower, plan: FeedPlan | None) -> list[tuple[str, bytes, bytes | None]]:
    if plan is None:
        return []
    rows = [row for batch in run_feed(follower._stores, plan) for row in batch.to_pylist()]
    return [(row["_change_type"], row["key"], row["value"]) for row in rows]


def test_what_is_durable_is_shown_at_once(live: LiveClient, database: Location) -> None:
    live.write([Put(b"a", b"1"), Put(b"b", b"1")])
    live.flush_wal()
    follower = follower_of(database)
    assert rows_of(follower, follower.poll()) == [("upsert", b"a", b"1"), ("upsert", b"b", b"1")]
    live.write([Delete(b"a"), Merge(b"b", b"2")])
    assert rows_of(follower, follower.poll()) == [], "it is not durable"
    live.flush_wal()
    assert rows_of(follower, follower.poll()) == [("delete", b"a", None), ("merge", b"b", b"2")]
    live.write([Put(b"a", b"3")])
    live.flush_memtable()
    assert rows_of(follower, follower.poll()) == [("upsert", b"a", b"3")]
    assert rows_of(follower, follower.poll()) == []


def test_a_stream_shows_what_is_durable_at_its_next_look(live: LiveClient, database: Location) -> None:
    live.write([Put(b"a", b"1"), Put(b"b", b"1")])
    live.flush_memtable()
    consumer = Consumer(SlateStore.open(str(database.folder)), FakeClock(), ["key"], changes="log")
    assert consumer.step()
    assert [(word, row["key"], row["value"]) for word, row in consumer.last] == [
        ("insert", b"a", b"1"),
        ("insert", b"b", b"1"),
    ]
    for number in range(3):
        live.write([Delete(b"a"), Merge(b"b", b"%d" % number)])
        assert not consumer.step(), "it is not durable"
        live.flush_wal()
        assert consumer.step(), "it is durable, and the pollInterval is over"
        assert [(word, row["value"]) for word, row in consumer.last] == [("delete", None), ("merge", b"%d" % number)]
        if number == 1:
            live.flush_memtable()
            assert not consumer.step(), "it was shown before"
        consumer.restart()


def steps(consumer: Consumer, live: LiveClient, numbers: range) -> list[bytes | None]:
    """What a stream shows of puts of one key, each of which is made durable before the next look."""
    shown = []
    for number in numbers:
        live.write([Put(b"a", b"%d" % number)])
        live.flush_wal()
        assert consumer.step(), "it is durable, and the pollInterval is over"
        assert [word for word, _ in consumer.last] == ["upsert"]
        shown += [row["value"] for _, row in consumer.last]
    return shown


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_stream_of_a_table_without_rows_misses_no_write(database: Location, is_restarted: bool) -> None:
    """No version shows a row until the client flushes; the log begins all the same."""
    store = SlateStore.create(str(database.folder))
    with LiveClient(database, COORDINATOR) as live:
        consumer = Consumer(store, FakeClock(), ["key"], changes="log", maxRowsPerTrigger=10)
        assert (consumer.step(), consumer.last) == (True, []), "an empty batch leads to the log"
        if is_restarted:
            consumer.restart()
            consumer.replay()
        consumer.catch_up()  # the client's fence
        assert sum(consumer.sizes) == 0
        assert steps(consumer, live, range(3)) == [b"0", b"1", b"2"]
        live.flush_memtable()
        assert not consumer.step(), "all was shown before"


def test_a_run_that_ends_begins_the_log_of_a_table_without_rows(database: Location) -> None:
    store = SlateStore.create(str(database.folder))
    with LiveClient(database, COORDINATOR) as live:
        consumer = Consumer(store, FakeClock(), ["key"], changes="log")
        consumer.stream.stop_at_newest()
        assert (consumer.catch_up(), consumer.sizes) == (2, [0, 0]), "no rows, and the client's fence"
        live.write([Put(b"a", b"0")])
        live.flush_wal()
        assert not consumer.step(), "the run ends"
        for number in range(1, 3):
            live.write([Put(b"a", b"%d" % number)])
            live.flush_wal()
        consumer.restart()
        consumer.stream.stop_at_newest()
        assert consumer.catch_up() == 1
        assert [(word, row["value"]) for word, row in consumer.last] == [
            ("upsert", b"0"),
            ("upsert", b"1"),
            ("upsert", b"2"),
        ]


def test_a_run_that_ends_reads_what_only_the_wal_had_when_it_began(database: Location) -> None:
    store = SlateStore.create(str(database.folder))
    with LiveClient(database, COORDINATOR) as live:
        live.write([Put(b"a", b"0")])
        live.flush_wal()
        consumer = Consumer(store, FakeClock(), ["key"], changes="log")
        consumer.stream.stop_at_newest()
        assert consumer.step()
        live.write([Put(b"a", b"1")])
        live.flush_wal()
        consumer.catch_up()
        assert [row["value"] for row in consumer.state.values()] == [b"0"]


def test_what_the_client_collected_is_refused_and_a_follower_goes_on(live: LiveClient, database: Location) -> None:
    for number in range(3):
        live.write([Put(b"a", b"%d" % number)])
        live.flush_memtable()
    follower = follower_of(database)
    assert len(rows_of(follower, follower.poll())) == 3
    collect_garbage(database)
    live.write([Put(b"a", b"9")])
    live.flush_wal()
    assert rows_of(follower, follower.poll()) == [("upsert", b"a", b"9")]
    with pytest.raises(HistoryTrimmedError):
        SlateStore.open(str(database.folder)).changes(changes="log", startingVersion=1)


def test_a_load_that_the_client_commits_is_refused(live: LiveClient, database: Location) -> None:
    live.write([Put(b"a", b"1"), Put(b"b", b"1")])
    live.flush_memtable()
    follower = follower_of(database)
    assert len(rows_of(follower, follower.poll())) == 2
    record = load_beside(database.folder, {b"a": b"load"})
    with pytest.raises(HistoryTrimmedError, match=f"startingVersion={record.manifest_id},"):
        follower.poll()
    live.write([Put(b"c", b"2")])
    live.flush_wal()
    later = follower_of(database, record.manifest_id + 1)
    assert rows_of(later, later.poll()) == [("upsert", b"c", b"2")]


def test_a_client_that_writes_by_itself_is_followed(database: Location) -> None:
    """Flushes and compactions come in between; polls meet the WAL at any moment."""
    options = ClientOptions(compactor=True, compact_by_itself=True, flush_interval="5ms")
    with LiveClient(database, options) as live:
        follower = follower_of(database)
        live.start_writing(Traffic(keys=20, deletes=0.1, merges=0.2, flush_every=40, writes_per_s=400))
        found: list[tuple[str, bytes, bytes | None]] = []
        polls = 0
        while len(found) < 400:
            found += rows_of(follower, follower.poll())
            polls += 1
        live.stop_writing()
        live.flush_wal()
        found += rows_of(follower, follower.poll())
        wanted = writes_of(live)
    assert found == wanted
    assert polls > 3
