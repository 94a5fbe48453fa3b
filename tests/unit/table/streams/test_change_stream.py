"""A stream of changes: where it starts, what each batch has, what it holds, and what ends it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    SnapshotExpiredError,
    TableNotFoundError,
)
from slatespark.format.paths import manifest_path
from slatespark.options import WriteOptions
from slatespark.storage import open_store
from slatespark.storage.counted_store import RequestTally
from slatespark.table.stores import open_stores
from slatespark.table.streams.position import decode_position
from slatespark.table.write.load_run import load_batches
from tests.support.change_streams import Consumer
from tests.support.fake_clock import FakeClock
from tests.support.feeds import state_of

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
NAMES = itertools.count(1)


def rows(ids: range, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


def numbers(state: Any) -> dict[Any, int]:
    return {key: row["n"] for key, row in state.items()}


class Place:
    """A table in memory that keeps no version of its own accord."""

    def __init__(self, **properties: Any) -> None:
        number = next(NAMES)
        self.clock = FakeClock(seed=number)
        url = f"memory://streams/{number}"
        given = {"versionRetention": "none", "autoCompact": False, **properties}
        self.store = SlateStore.create(url, SCHEMA, "id", clock=self.clock, **given)

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(self.store, self.clock, ["id"], **options)

    def now(self) -> Any:
        return state_of(self.store, ["id"], self.store.resolve().version)

    def vacuum(self, after_ms: int = 0) -> None:
        self.clock.advance(after_ms)
        self.store.vacuum(minAge="0s", force=True)

    def holds(self) -> list[tuple[str, int]]:
        return [
            (str(point.name), point.version)
            for point in self.store.checkpoints()
            if str(point.name).startswith("slatespark/stream/")
        ]


def test_first_come_all_rows_then_the_changes() -> None:
    place = Place()
    place.store.write(rows(range(5)))
    consumer = place.consumer()
    assert consumer.step()
    assert consumer.last == [("insert", {"id": key, "n": 0}) for key in range(5)]
    assert not consumer.step()
    place.store.write(rows(range(4, 6), 1))
    place.store.delete("id = 0")
    assert consumer.step()
    assert [(word, row["id"]) for word, row in consumer.last] == [
        ("delete", 0),
        ("update_preimage", 4),
        ("update_postimage", 4),
        ("insert", 5),
    ]
    assert consumer.state == place.now()
    assert not consumer.step()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingVersion": 1}, [0, 1, 2, 3, 4, 5, 6]),
        ({"startingVersion": 3}, [0, 1, 2, 3, 4, 5, 6]),
        ({"startingVersion": 5}, [5, 6]),
        ({"startingVersion": 5, "startingBoundInclusive": False}, [6]),
        ({"startingVersion": 6}, [6]),
        ({"startingTimestamp": "second"}, [5, 6]),
    ],
)
def test_a_start_leaves_out_what_was_before(options: dict[str, Any], wanted: list[int]) -> None:
    place = Place(versionRetention="7d")
    assert place.store.write(rows(range(5))) == 3
    place.clock.advance(1000)
    second_ms = place.clock.now_ms()
    assert place.store.write(rows(range(5, 6))) == 5
    given = {name: second_ms if value == "second" else value for name, value in options.items()}
    consumer = place.consumer(**given)
    assert consumer.stream.initial() == consumer.stream.initial()
    if len(wanted) == 1:
        assert not consumer.step()
    place.store.write(rows(range(6, 7)))
    assert consumer.step()
    assert [row["id"] for _, row in consumer.last] == wanted


def test_offsets_say_all_and_have_one_order() -> None:
    place = Place()
    place.store.write(rows(range(5)))
    consumer = place.consumer(maxRowsPerTrigger=2)
    consumer.catch_up()
    for text in consumer.offsets:
        marked = ["mark"] if json.loads(text)["version"] or json.loads(text)["part"] else []
        assert list(json.loads(text)) == ["table", "version", "seq", "wal", "part", *marked]
    assert len(set(consumer.offsets)) == len(consumer.offsets) == 4
    last = decode_position(json.loads(consumer.offsets[-1]))
    assert last.version <= place.store.resolve().version
    assert last.seq == place.store.resolve().seq
    assert consumer.stream.newest == last


def test_each_batch_can_be_replayed_by_its_offsets_alone() -> None:
    place = Place()
    consumer = place.consumer(maxRowsPerTrigger=3, streamId="s")
    for n in range(4):
        place.store.write(rows(range(n, n + 8), n))
        while consumer.step():
            place.store.write(rows(range(100, 101), n))  # others go on, and no version is kept
            place.vacuum()
            wanted = consumer.last
            consumer.restart()
            consumer.replay()
            assert consumer.last == wanted
            if len(consumer.offsets) > 40:
                break
    consumer.catch_up()
    assert consumer.state == place.now()


@pytest.mark.parametrize("stream_id", [None, "mine"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxRowsPerTrigger": 3},
        {"startingVersion": 1},
        {"startingVersion": 2, "startingBoundInclusive": False},
        {"changes": "log"},
        {"changes": "log", "startingVersion": 1},
    ],
)
def test_a_first_batch_that_failed_is_repeated(options: dict[str, Any], stream_id: str | None) -> None:
    place = Place()
    place.store.write(rows(range(10)))
    place.store.write(rows(range(5, 15), 1))
    consumer = place.consumer(streamId=stream_id, **options)
    assert consumer.step()
    first = consumer.last
    for _ in range(2):
        place.store.write(rows(range(12, 20), 2))
        place.vacuum()
        consumer.begin_again()
        assert consumer.last == first
    consumer.restart()
    consumer.catch_up()
    assert numbers(consumer.state) == numbers(place.now())
    assert len({name for name, _ in place.holds()}) <= 1
    place.store.delete("id < 3")
    consumer.catch_up()
    assert numbers(consumer.state) == numbers(place.now())


def test_a_first_batch_is_repeated_for_each_use_of_its_source() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer()
    assert consumer.step()
    wanted = consumer.last
    consumer.begin_again()
    assert consumer.last == wanted
    consumer.replay()  # with the start that Spark was told before
    assert consumer.last == wanted


@pytest.mark.parametrize("kind", [{}, {"changes": "log"}, {"changes": "log", "startingVersion": 1}])
def test_a_first_batch_of_a_table_that_was_created_anew(kind: dict[str, Any]) -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(**kind)
    assert consumer.step()
    SlateStore.drop(place.store.url, force=True, clock=place.clock)
    again = SlateStore.create(place.store.url, SCHEMA, "id", clock=place.clock)
    for number in range(3):
        again.write(rows(range(number, 9)))
    with pytest.raises(InvalidRequestError):
        consumer.begin_again()


def test_a_start_in_time_before_a_first_version_that_was_collected() -> None:
    place = Place()
    before_ms = place.clock.now_ms() - 1
    place.store.write(rows(range(3)))
    consumer = place.consumer(startingTimestamp=before_ms)
    assert consumer.step()
    wanted = consumer.last
    place.store.write(rows(range(2, 5), 1))
    place.vacuum()
    with pytest.raises(SnapshotExpiredError):
        place.store.scan(versionAsOf=1)
    consumer.begin_again()
    assert consumer.last == wanted
    consumer.catch_up()
    assert consumer.state == place.now()


def test_a_first_batch_is_repeated_under_another_name() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamId="old")
    assert consumer.step()
    first = consumer.last
    consumer.restart(streamId="new")
    consumer.begin_again()
    assert consumer.last == first
    place.store.write(rows(range(2, 5), 1))
    consumer.catch_up()
    assert consumer.state == place.now()


@pytest.mark.parametrize("limit", ["maxRowsPerTrigger", "maxBytesPerTrigger", "maxFilesPerTrigger"])
def test_limits_of_one_are_not_stuck(limit: str) -> None:
    place = Place()
    place.store.write(rows(range(40)), blockSize="1k", sstSize="1k")
    consumer = place.consumer(**{limit: 1})
    consumer.catch_up()
    place.store.write(rows(range(20, 45), 1))
    count = consumer.catch_up()
    assert consumer.state == place.now()
    if limit == "maxRowsPerTrigger":
        assert consumer.sizes == [1] * 40 + [2] * 20 + [1] * 5
    assert count >= 1


def test_a_limit_counts_for_the_triggers_that_want_it() -> None:
    place = Place()
    place.store.write(rows(range(10)))
    consumer = place.consumer(maxRowsPerTrigger=4)
    assert consumer.step()
    assert consumer.step(is_limited=False)
    assert consumer.sizes == [4, 6]


def test_what_is_written_during_a_unit_comes_after_it() -> None:
    place = Place()
    place.store.write(rows(range(4)))
    consumer = place.consumer(maxRowsPerTrigger=2)
    consumer.step()
    place.store.write(rows(range(4), 1))
    place.vacuum()
    consumer.catch_up()
    assert consumer.sizes == [2, 2, 2, 2, 2, 2]
    assert consumer.state == place.now()


def test_a_run_that_ends_takes_nothing_later() -> None:
    place = Place()
    place.store.write(rows(range(4)))
    consumer = place.consumer(maxRowsPerTrigger=3)
    consumer.step()
    place.store.write(rows(range(4, 8)))
    consumer.restart()
    consumer.stream.stop_at_newest()
    assert consumer.step()  # the rest of the first unit
    place.store.write(rows(range(8, 12)))
    place.vacuum()
    consumer.catch_up()
    assert sorted(key for (key,) in consumer.state) == list(range(8))
    consumer.restart()
    consumer.stream.stop_at_newest()
    consumer.catch_up()
    assert consumer.state == place.now()
    consumer.restart()
    consumer.stream.stop_at_newest()
    assert not consumer.step()


def test_compactions_and_checkpoints_change_nothing() -> None:
    place = Place()
    for n in range(3):
        place.store.write(rows(range(n, n + 3), n))
    consumer = place.consumer()
    consumer.step()
    version = place.store.resolve().version
    place.store.createCheckpoint("mine")
    assert not consumer.step()
    assert place.store.resolve().version == version + 1
    place.store.compact(full=True)
    consumer.catch_up()
    assert consumer.sizes in ([5, 0], [5])
    assert consumer.state == place.now()


def test_an_idle_stream_lists_once_in_each_interval() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    place.store.write(rows(range(3), 1))
    consumer = place.consumer()
    tally = RequestTally()
    consumer.stream._stores = consumer.stream._stores.counted(tally)
    assert consumer.step()
    assert not consumer.step()
    start = decode_position(json.loads(consumer.offsets[-1]))
    before, looks = tally.total, 20
    ends_ms = place.clock.now_ms() + looks * 1000
    while place.clock.now_ms() < ends_ms:
        assert consumer.stream.next(start, is_limited=True) == start
        place.clock.advance(10)
    spent = tally.total - before
    assert spent.list <= looks
    assert spent.get <= looks  # a store that is not remote is asked for the boundary of collected versions as well
    assert spent.put == 0


def test_a_batch_reads_no_manifest_but_the_new_one() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer()
    assert consumer.step()
    place.store.write(rows(range(3), 1))
    assert consumer.step()
    tally = RequestTally()
    consumer.stream._stores = consumer.stream._checkpoints._stores = consumer.stream._stores.counted(tally)
    place.store.write(rows(range(2), 2))
    assert consumer.step()
    assert [row["n"] for _, row in consumer.last] == [1, 2, 1, 2]
    spent = tally.total
    assert spent.put == 1  # the hold
    assert spent.list <= 5  # manifests, the WAL, definitions, commit records and those of batches
    # The new manifest, the boundary before and after the hold, the identity, the record's time and its files.
    assert spent.get <= 7


def test_two_streams_do_not_wake_each_other() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumers = [place.consumer(), place.consumer()]
    for consumer in consumers:
        assert consumer.step()
    version = place.store.resolve().version
    for _ in range(5):
        assert not any(consumer.step() for consumer in consumers)
    assert place.store.resolve().version == version


def test_versions_are_held_until_they_are_not_needed() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamId="s")
    consumer.step()
    for n in range(1, 5):
        place.store.write(rows(range(3), n))
        assert consumer.step()
    assert {name for name, _ in place.holds()} == {"slatespark/stream/s"}
    ends = [json.loads(text)["version"] for text in consumer.offsets]
    assert [version for _, version in place.holds()] == ends[-2:]
    consumer.restart()
    place.store.write(rows(range(3), 5))
    consumer.step()
    assert len(place.holds()) == 2, "those of the run before are released too"


@pytest.mark.parametrize("options", [{}, {"startingVersion": 3}], ids=["all rows", "a start"])
def test_a_log_holds_nothing_after_its_first_batch(options: dict[str, Any]) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes="log", **options)
    assert consumer.step()
    consumer.replay()
    assert len(place.holds()) == 1
    consumer.restart()  # before the second batch was asked for
    place.store.write(rows(range(3), 1))
    assert consumer.step()
    assert not place.holds()
    version = place.store.resolve().version
    for _ in range(2):
        consumer.restart()
        assert not consumer.step()
        consumer.replay()
    assert place.store.resolve().version == version


def test_runs_for_which_nothing_is_new_write_nothing() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer()
    consumer.step()
    version = place.store.resolve().version
    for _ in range(20):
        consumer.restart()
        consumer.stream.stop_at_newest()
        assert not consumer.step()
    assert place.store.resolve().version == version
    place.store.write(rows(range(3), 1))
    consumer.restart()
    assert consumer.step()
    assert len(place.holds()) == 2


def test_holds_are_renewed_while_nothing_is_new() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamRetention="10s")
    consumer.step()
    place.store.write(rows(range(3), 1))
    consumer.step()
    for _ in range(30):
        assert not consumer.step()
        place.vacuum()
    place.store.write(rows(range(3), 2))
    place.vacuum()
    assert consumer.step()
    assert consumer.state == place.now()


def test_a_stream_that_was_away_for_too_long(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamRetention="1h")
    consumer.step()
    place.store.write(rows(range(3, 6)))
    place.vacuum(50 * 60_000)
    consumer.restart()
    assert consumer.step()
    assert "streamRetention" in caplog.text
    place.store.write(rows(range(6, 9)))
    place.vacuum(2 * 3_600_000)
    place.store.write(rows(range(9, 12)))
    place.vacuum()
    consumer.restart()
    with pytest.raises(HistoryTrimmedError, match="failOnDataLoss"):
        consumer.step()
    consumer.restart(failOnDataLoss=False)
    consumer.catch_up()
    place.store.write(rows(range(12, 15)))
    consumer.catch_up()
    assert {key for (key,) in consumer.state} >= {*range(6), *range(12, 15)}


def test_two_queries_with_one_id() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    first, second = place.consumer(streamId="s"), place.consumer(streamId="s")
    first.step()
    second.step()
    with pytest.raises(InvalidRequestError, match="streamId"):
        first.step()
    place.store.write(rows(range(3), 1))
    assert second.step()
    assert second.state == place.now()


def test_an_offset_of_another_table() -> None:
    place, other = Place(), Place()
    for each in (place, other):
        each.store.write(rows(range(3)))
    consumer, stranger = place.consumer(), other.consumer()
    consumer.step()
    stranger.step()
    stranger.offsets = consumer.offsets
    stranger.restart()
    with pytest.raises(InvalidRequestError, match="checkpoint location"):
        stranger.step()
    with pytest.raises(InvalidRequestError, match="checkpoint location"):
        stranger.replay()


@pytest.mark.parametrize("kind", ["net", "log"])
def test_a_table_that_was_dropped_and_created_anew(kind: str) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes=kind)
    consumer.step()
    SlateStore.drop(place.store.url, force=True)
    with pytest.raises(TableNotFoundError):
        consumer.step()
    place.store = SlateStore.create(place.store.url, SCHEMA, "id", clock=place.clock)
    with pytest.raises(InvalidRequestError, match="created again"):
        consumer.step()
    for n in range(6):
        place.store.write(rows(range(3), n))
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="created again"):
            consumer.step()
        consumer.restart()


def put_older_copy(place: Place, change: Callable[[], object]) -> None:
    """Change a table, and put what was there before in its place."""
    inner = open_store(place.store.url, {})
    copy = {meta.path: bytes(inner.get(meta.path)) for meta in inner.list_below("")}
    change()
    for meta in list(inner.list_below("")):
        inner.delete(meta.path)
    for path, data in copy.items():
        inner.put(path, [data])


@pytest.mark.parametrize("kind", ["net", "log"])
def test_a_table_of_which_an_older_copy_was_put_in_place(kind: str) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes=kind)
    consumer.step()

    def change() -> None:
        place.store.write(rows(range(3), 1))
        consumer.step()

    put_older_copy(place, change)
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="older copy"):
            consumer.step()
        consumer.restart()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxRowsPerTrigger": 2},
        {"changes": "log"},
        {"changes": "log", "maxRowsPerTrigger": 1},
        {"changes": "log", "startingVersion": 1},
    ],
)
def test_an_older_copy_that_has_gone_on(options: dict[str, Any]) -> None:
    """Regular commits bring it to the same numbers of versions, rows and WAL files, and further."""
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(**options)
    consumer.catch_up()

    def change() -> None:
        for n in range(1, 4):
            place.store.write(rows(range(n, n + 1), n))
        consumer.catch_up()

    put_older_copy(place, change)
    place.store = SlateStore.open(place.store.url, clock=place.clock)
    for n in range(11, 17):
        place.store.write(rows(range(n, n + 1), n))
    for call in (consumer.step, consumer.replay, consumer.step):
        consumer.restart()
        with pytest.raises(InvalidRequestError, match="older copy"):
            call()


def test_an_older_copy_within_a_unit() -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(maxRowsPerTrigger=4)
    consumer.catch_up()

    def change() -> None:
        place.store.write(rows(range(3), 1))
        assert consumer.step()
        assert decode_position(json.loads(consumer.offsets[-1])).part is not None

    place.store.createCheckpoint("other")
    put_older_copy(place, change)
    place.store = SlateStore.open(place.store.url, clock=place.clock)
    for n in range(11, 17):
        place.store.write(rows(range(n, n + 1), n))
    consumer.restart()
    with pytest.raises(InvalidRequestError, match="older copy"):
        consumer.step()


@pytest.mark.parametrize("options", [{}, {"maxRowsPerTrigger": 2}, {"changes": "log"}])
def test_offsets_of_releases_that_did_not_mark_the_version(options: dict[str, Any]) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(**options)
    consumer.catch_up()
    for number, text in enumerate(consumer.offsets):
        offset = json.loads(text)
        offset.pop("mark", None)
        consumer.offsets[number] = json.dumps(offset)
    consumer.restart()
    consumer.replay()
    assert not consumer.step()
    place.store.write(rows(range(2, 5), 1))
    consumer.catch_up()
    assert numbers(consumer.state) == numbers(place.now())
    assert "mark" in json.loads(consumer.offsets[-1])


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


def test_columns_that_change_on_the_way() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer, narrow = place.consumer(), place.consumer(columns="id,_change_type")
    for each in (consumer, narrow):
        each.step()
    wider = rows(range(2, 4), 7).append_column("more", pa.array(["x", "y"]))
    place.store.write(wider, mergeSchema=True)
    with pytest.raises(SchemaError, match="Restart"):
        consumer.step()
    assert narrow.step()
    assert [row["id"] for _, row in narrow.last] == [2, 2, 3]
    consumer.restart()
    consumer.replay()
    assert consumer.state[3,] == {"id": 3, "n": 7, "more": "y"}
    assert not consumer.step()


@pytest.mark.parametrize("kind", ["net", "log"])
@pytest.mark.parametrize("change", ["add", "drop"])
def test_no_value_of_a_changed_column_is_left_out(kind: str, change: str) -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes=kind, startingVersion=1)
    consumer.catch_up()
    if change == "add":
        place.store.write(rows(range(9, 10)).append_column("more", pa.array(["x"])), mergeSchema=True)
    else:
        place.store.dropColumns("n")
        place.store.write(rows(range(9, 10)).select(["id"]))
    with pytest.raises(SchemaError, match="Restart"):
        consumer.step()
    consumer.restart()
    consumer.replay()
    consumer.catch_up()
    row = consumer.state[9,]
    assert row.get("more") == ("x" if change == "add" else None)
    assert ("n" in row) is (change == "add")


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


def test_holds_that_would_outlast_the_calendar() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    with pytest.raises(OptionError):
        place.consumer(streamRetention="200000d").step()


@pytest.mark.parametrize(
    "options",
    [
        {"changes": "log", "failOnDataLoss": False},
        {"endingVersion": 3},
        {"endingTimestamp": 3},
        {"endingBoundInclusive": False},
        {"pin": "1h"},
        {"readChangeFeed": False},
        {"maxRowsPerTrigger": 0},
        {"maxFilesPerTrigger": 0},
        {"maxBytesPerTrigger": 0},
        {"pollInterval": 0},
        {"streamRetention": 0},
        {"streamId": "a/b"},
        {"versionAsOf": 1},
    ],
)
def test_options_that_are_not_those_of_a_stream(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Place().consumer(**options)


def test_a_start_that_does_not_exist() -> None:
    place = Place()
    newest = place.store.write(rows(range(3)))
    with pytest.raises(InvalidRequestError):
        place.consumer(startingVersion=newest + 2).step()
    with pytest.raises(OptionError):
        place.consumer(startingTimestamp=place.clock.now_ms() + 10**9).step()
    place.store.write(rows(range(3), 1))
    place.vacuum()
    with pytest.raises(HistoryTrimmedError):
        place.consumer(startingVersion=newest, startingBoundInclusive=False).step()


def test_an_empty_table_has_no_batch() -> None:
    place = Place()
    consumer = place.consumer()
    assert not consumer.step()
    place.store.write(rows(range(1)))
    assert consumer.step()


def test_a_filter_and_keys_hold_for_the_stream_too() -> None:
    place = Place()
    place.store.write(rows(range(9)))
    for text in ("id >= 3 AND id < 6", "id IN (3, 4, 5)", "n = 0 AND id BETWEEN 3 AND 5"):
        consumer = place.consumer(filter=text, maxRowsPerTrigger=2)
        consumer.catch_up()
        assert sorted(key for (key,) in consumer.state) == [3, 4, 5]
        assert consumer.sizes == [2, 1]


# --- kind log -------------------------------------------------------------------------------------------------------


def writes_of(consumer: Consumer) -> list[tuple[str, int]]:
    return [(word, row["id"]) for word, row in consumer.last]


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


def test_the_log_in_files_is_refused() -> None:
    with pytest.raises(OptionError):
        Place().consumer(changes="log", maxFilesPerTrigger=3)
