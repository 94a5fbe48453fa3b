"""A stream of changes: where it starts, what each batch has, and its options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SlateStore,
    SnapshotExpiredError,
    UnavailableError,
)
from slatespark.storage.counted_store import RequestTally
from slatespark.table.streams import limits
from slatespark.table.streams.position import decode_position
from tests.unit.table.streams.stream_place import SCHEMA, Place, numbers, rows


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


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (1, [1, 2, 1, 2, 1, 2, 1, 1, 1]),
        (2, [1, 2, 1, 2, 1, 2, 2, 1]),
        (3, [3, 3, 3, 3]),
        (4, [4, 3, 4, 1]),
        (5, [4, 5, 3]),
    ],
)
def test_a_batch_has_as_many_rows_as_fit_and_both_images_of_an_update(limit: int, wanted: list[int]) -> None:
    place = Place()
    place.store.write(rows(range(8)))
    consumer = place.consumer(maxRowsPerTrigger=limit)
    assert consumer.step(is_limited=False)
    consumer.sizes.clear()
    place.store.delete("id IN (0, 3, 6)")
    place.store.write(pa.table({"id": [1, 4, 7, 8, 9, 10], "n": [1] * 6}, SCHEMA))
    consumer.catch_up()
    assert consumer.state == place.now()
    assert consumer.sizes == wanted


@pytest.mark.parametrize("limit", [17, 100])
def test_a_batch_keeps_to_both_of_its_limits(limit: int) -> None:
    place = Place()
    place.store.write(rows(range(300)), blockSize="1k", sstSize="1k")
    by_size = place.consumer(maxFilesPerTrigger=2)
    by_size.catch_up()
    assert len(by_size.sizes) > 2
    by_both = place.consumer(maxFilesPerTrigger=2, maxRowsPerTrigger=limit)
    by_both.catch_up()
    parts = [min(limit, size - done) for size in by_size.sizes for done in range(0, size, limit)]
    assert by_both.sizes == parts
    assert by_both.state == place.now()


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


def test_a_limit_counts_after_a_look_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.store.write(rows(range(10)))
    consumer = place.consumer(maxRowsPerTrigger=4)

    def failing(*_: Any) -> Iterator[Any]:
        yield from ()
        raise UnavailableError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(limits, "scan_changed_keys", failing)
        with pytest.raises(UnavailableError):
            consumer.step()
    consumer.catch_up()
    assert consumer.sizes == [4, 4, 2]
