"""What a version knew of an instant: both times are given, and each version has its own floor."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, OptionError, SchemaError, SlateStore
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
_numbers = count()


def new_store(**properties: Any) -> SlateStore:
    url = f"memory://bitemporal-{next(_numbers)}/table"
    return SlateStore.create(url, clock=FakeClock(NOW_MS), **{"history": True, **properties})


def write(store: SlateStore, ts: int, value: bytes, key: bytes = b"a", **options: Any) -> int:
    row = pa.table({"key": [key], "value": pa.array([value], pa.binary()), "ts": [ts]})
    return store.write(row, timestampColumn="ts", **options)


def value(store: SlateStore, **options: Any) -> bytes | None:
    row = store.get(b"a", **options)
    scanned = store.scan(**options).read_all().to_pylist()
    assert [found for found in scanned if found["key"] == b"a"] == ([] if row is None else [row])
    return None if row is None else row["value"]


@pytest.fixture
def learnt() -> tuple[SlateStore, int, int]:
    """On the first day the price is known from 10 on, on the second that it was another one from 20 on."""
    store = new_store()
    return store, write(store, 10, b"old"), write(store, 20, b"new")


def test_what_was_known_then(learnt: tuple[SlateStore, int, int]) -> None:
    store, first, second = learnt
    store.createCheckpoint("second", version=second)
    assert [value(store, timestampAsOf=ts) for ts in (10, 19, 20)] == [b"old", b"old", b"new"]
    assert [value(store, timestampAsOf=ts, versionAsOf=first) for ts in (10, 20, 25)] == [b"old"] * 3
    assert value(store, timestampAsOf=20, seqAsOf=1) == b"old"
    assert value(store, timestampAsOf=20, seqAsOf=2) == b"new"
    assert value(store, timestampAsOf="1970-01-01T00:00:00.020Z", checkpoint="second") == b"new"
    assert value(store, timestampAsOf=19, checkpoint="second") == b"old"


def test_a_correction_at_the_same_instant_leaves_what_was_known_before() -> None:
    store = new_store()
    first = write(store, 10, b"wrong")
    write(store, 10, b"right")
    assert value(store, timestampAsOf=10) == b"right"
    assert value(store, timestampAsOf=10, versionAsOf=first) == b"wrong"


def test_expiry_is_judged_at_the_instant_unless_now_is_given() -> None:
    store = new_store()
    version = write(store, 10, b"short", ttl=5)
    write(store, 30, b"later")
    assert [value(store, timestampAsOf=ts, versionAsOf=version) for ts in (14, 15)] == [b"short", None]
    assert value(store, timestampAsOf=15, versionAsOf=version, now=14) == b"short"


def test_each_version_is_judged_by_its_own_floor() -> None:
    store = new_store()
    write(store, 10, b"1")
    first = write(store, 20, b"2")
    store.createCheckpoint("first")
    store.setHistoryFloor(25)
    second = write(store, 30, b"3")
    store.setHistoryFloor(35)
    store.compact(full=True)
    assert (
        value(store, timestampAsOf=10, checkpoint="first") == value(store, timestampAsOf=10, versionAsOf=first) == b"1"
    )
    assert value(store, timestampAsOf=25, versionAsOf=second) == b"2"
    choices: list[tuple[dict[str, Any], int]] = [({"versionAsOf": second}, 25), ({}, 35)]
    for options, floor in choices:
        with pytest.raises(HistoryTrimmedError, match=ms_to_text(floor)):
            store.scan(timestampAsOf=floor - 1, **options)


def test_a_version_without_an_earlier_row_is_refused(learnt: tuple[SlateStore, int, int]) -> None:
    store, first, _ = learnt
    with pytest.raises(HistoryTrimmedError, match=ms_to_text(10)):
        store.scan(timestampAsOf=9, versionAsOf=first)
    with pytest.raises(OptionError, match="future"):
        store.scan(timestampAsOf=NOW_MS + 1, versionAsOf=first)


def test_a_table_with_a_clock_of_its_own() -> None:
    store = SlateStore.create(f"memory://bitemporal-{next(_numbers)}", history=True, clock="custom")
    first = write(store, 10, b"1")
    write(store, 20, b"2")
    assert [value(store, timestampAsOf=ts, versionAsOf=first) for ts in (10, 20)] == [b"1", b"1"]
    with pytest.raises(OptionError, match="clock"):
        store.scan(timestampAsOf=21, versionAsOf=first)


def test_plain_tables_take_one_of_both() -> None:
    store = new_store(history=False)
    version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    with pytest.raises(OptionError, match="versionAsOf"):
        store.scan(timestampAsOf=NOW_MS, versionAsOf=version)
    with pytest.raises(OptionError, match="both"):
        store.scan(seqAsOf=1, versionAsOf=version)


def test_what_it_would_see_and_intervals(learnt: tuple[SlateStore, int, int]) -> None:
    store, first, _ = learnt
    found = store.resolve(timestampAsOf=25, versionAsOf=first)
    assert (found.version, found.as_of_ms, found.now_ms, found.rounded) == (first, 25, 25, False)
    assert found.how == "the version asked for, each row as of its timestamp"
    rows = store.versions(timestampAsOf=25, versionAsOf=first).read_all().to_pylist()
    assert [(row["value"], row["_valid_to"], row["_is_current"]) for row in rows] == [(b"old", None, True)]


def test_a_column_that_is_called_as_one_of_the_intervals() -> None:
    schema = pa.schema([("id", pa.int64()), ("_Valid_To", pa.string())])
    store = SlateStore.create("memory://bitemporal/taken", schema, "id", history=True)
    assert store.scan().read_all().schema.names == ["id", "_Valid_To"]
    with pytest.raises(SchemaError, match="_Valid_To"):
        store.versions()
