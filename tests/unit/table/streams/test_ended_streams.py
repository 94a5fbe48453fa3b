"""What ends a stream of changes: other queries, other tables, older copies, other columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    InvalidRequestError,
    SchemaError,
    SlateStore,
    TableNotFoundError,
)
from slatespark.storage import open_store
from slatespark.table.streams.position import decode_position
from tests.support.change_streams import Consumer
from tests.unit.table.streams.stream_place import SCHEMA, Place, numbers, rows


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


def test_a_query_that_was_replaced_does_not_release_the_versions_of_its_successor() -> None:
    place = Place()
    place.store.write(rows(range(9)))
    first = place.consumer(streamId="s", changes="log")
    second = place.consumer(streamId="s", changes="log", maxRowsPerTrigger=3)
    first.step()
    second.step()
    held = place.holds()
    with pytest.raises(InvalidRequestError, match="streamId"):
        first.step()  # its first batch is done, after which a log holds nothing
    assert place.holds() == held
    place.store.compact(full=True)
    place.vacuum(after_ms=60_000)
    second.catch_up()
    assert numbers(second.state) == numbers(place.now())


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


def drop_marks(consumer: Consumer) -> None:
    """Let the offsets be those of an early release."""
    for number, text in enumerate(consumer.offsets):
        offset = json.loads(text)
        offset.pop("mark", None)
        consumer.offsets[number] = json.dumps(offset)


def test_an_older_copy_with_another_number_of_rows_needs_no_mark() -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer()
    consumer.catch_up()

    def change() -> None:
        place.store.write(rows(range(3, 6), 1))
        consumer.catch_up()

    put_older_copy(place, change)
    place.store = SlateStore.open(place.store.url, clock=place.clock)
    for name in ("a", "b", "c", "d"):
        place.store.createCheckpoint(name)
    drop_marks(consumer)
    consumer.restart()
    with pytest.raises(InvalidRequestError, match="older copy"):
        consumer.step()


@pytest.mark.parametrize("options", [{}, {"maxRowsPerTrigger": 2}, {"changes": "log"}])
def test_offsets_of_releases_that_did_not_mark_the_version(options: dict[str, Any]) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(**options)
    consumer.catch_up()
    drop_marks(consumer)
    consumer.restart()
    consumer.replay()
    assert not consumer.step()
    place.store.write(rows(range(2, 5), 1))
    consumer.catch_up()
    assert numbers(consumer.state) == numbers(place.now())
    assert "mark" in json.loads(consumer.offsets[-1])


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
