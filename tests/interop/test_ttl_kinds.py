"""Every way to say when rows expire: the client sees the same times, and its own compaction goes by them as we do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.client import Client, ClientOptions, Location, ScanRow, read_rows
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock
from tests.support.foreign_rows import ForeignTable
from tests.support.our_reads import our_rows, to_ms

CLIENT = ClientOptions(compactor=True)
DAY_MS = 86_400_000
MINUTE_MS = 60_000

# What a write is given besides its rows, and when they expire after their creation.
KINDS: dict[str, tuple[dict[str, Any], Any, int | None]] = {
    "none": ({"ttl": "none"}, None, None),
    "default of the table": ({}, None, 3 * DAY_MS),
    "default by name": ({"ttl": "default"}, None, 3 * DAY_MS),
    "duration": ({"ttl": "90m"}, None, 90 * MINUTE_MS),
    "ISO-8601": ({"ttl": "P1DT1M"}, None, DAY_MS + MINUTE_MS),
    "milliseconds": ({"ttl": 12345}, None, 12345),
    "timedelta": ({"ttl": timedelta(days=1, milliseconds=5)}, None, DAY_MS + 5),
    "at once": ({"ttl": 0}, None, 0),
    "900 years": ({"ttlColumn": "t"}, pa.array([900 * 365 * DAY_MS], pa.int64()), 900 * 365 * DAY_MS),
    "column of milliseconds": ({"ttlColumn": "t"}, pa.array([777], pa.int32()), 777),
    "column of intervals": ({"ttlColumn": "t"}, pa.array([timedelta(seconds=7)], pa.duration("us")), 7000),
    "null in a column": ({"ttlColumn": "t", "ttl": "5m"}, pa.nulls(1, pa.int64()), 5 * MINUTE_MS),
    "null, and the default": ({"expireAtColumn": "t"}, pa.nulls(1, pa.timestamp("us", "UTC")), 3 * DAY_MS),
    "instant": ({"expireAtColumn": "t"}, 4_000_000_000_123, None),
    "instant in the past": ({"expireAtColumn": "t"}, -5, None),
}


def write_all(store: SlateStore, clock: FakeClock, *, typed: bool) -> list[tuple[bytes, int, int | None]]:
    """Write a row of each kind, half of them at a time that is given; return value, creation and expiry of each."""
    written = []
    for number, (name, (options, column, after_ms)) in enumerate(KINDS.items()):
        created_ms = clock.now_ms()
        timed: dict[str, Any] = {}
        if number % 2:
            timed = {"timestamp": datetime.fromtimestamp(created_ms / 1000, UTC)}
            clock.advance(3)  # later, which the timestamp is not
        value = name.encode()
        expire_ms = None if after_ms is None else created_ms + after_ms
        if isinstance(column, int):
            column, expire_ms = pa.array([column], pa.timestamp("ms", "UTC")), column
        store.write(table(number, value, typed=typed, t=column), **options, **timed)
        written.append((value, created_ms, expire_ms))
        clock.advance(1)
    return written


def table(number: int, value: bytes, *, typed: bool, **more: Any) -> pa.Table:
    columns = {name: column for name, column in more.items() if column is not None}
    if typed:
        return pa.table({"id": pa.array([number], pa.int32()), "text": [value.decode()], **columns})
    return pa.table({"key": [b"%02d" % number], "value": [value], **columns})


@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_the_client_sees_the_times_of_every_kind_and_compacts_by_them(typed: bool, tmp_path: Path) -> None:
    folder, clock = tmp_path / "db", FakeClock()
    clock.advance(-MINUTE_MS)  # so that the client's clock is ahead of all that is written
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("text", pa.string())])
    store = SlateStore.create(str(folder), *((schema, "id") if typed else ()), clock=clock, defaultTtl="3d")
    written = write_all(store, clock, typed=typed)
    location = Location.local(folder)
    with Client.open(location, CLIENT) as client:
        assert times(client.scan(), folder, typed=typed) == written
    rows = [our_times(row, typed=typed) for row in scan(store, includeExpired=True)]
    assert rows == written
    tick_ms = max(created for _, created, _ in written)
    alive = [row for row in written if row[2] is None or row[2] > tick_ms]
    assert 0 < len(alive) < len(written)
    assert [our_times(row, typed=typed) for row in scan(store, now=tick_ms)] == alive
    with Client.open(location, CLIENT) as client:
        compact_full(client)
    left = times(read_rows(location), folder, typed=typed)
    assert left == alive, "the client purges what we hide, and nothing else"
    assert [our_times(row, typed=typed) for row in scan(store, includeExpired=True)] == alive


def scan(store: SlateStore, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.scan(metadataColumns=True, **options).read_all().to_pylist()
    return found


def our_times(row: dict[str, Any], *, typed: bool) -> tuple[bytes, int | None, int | None]:
    value = row["text"].encode() if typed else row["value"]
    return value, to_ms(row["_create_ts"]), to_ms(row["_expire_ts"])


def times(rows: Sequence[ScanRow], folder: Path, *, typed: bool) -> list[tuple[bytes, int | None, int | None]]:
    """What the client's rows say; values of typed tables decoded with standard libraries."""
    values = [ForeignTable(folder).decode(row.key, row.value)["text"].encode() if typed else row.value for row in rows]
    return [(value, row.create_ts, row.expire_ts) for value, row in zip(values, rows, strict=True)]


@pytest.mark.parametrize("own_time", [False, True], ids=["clock=system", "clock=custom"])
@pytest.mark.parametrize("at_tick_ms", [-1, 0, 1])
def test_the_boundary_is_the_same_to_the_millisecond(at_tick_ms: int, own_time: bool, tmp_path: Path) -> None:
    """`expire_ts <= tick`, where the tick is the time of our last write, whether a clock gave it or the user."""
    location = Location.local(tmp_path / "db")
    tick_ms = 10_000 if own_time else FakeClock().now_ms() - MINUTE_MS
    store = SlateStore.create(str(location.folder), clock="custom" if own_time else FakeClock(tick_ms))
    store.write(pa.table({"key": [b"a"], "value": [b"below"]}), timestamp=tick_ms - 100)
    at = pa.array([tick_ms + at_tick_ms], pa.timestamp("ms", "UTC"))
    rows = pa.table({"key": [b"a"], "value": [b"dated"], "t": at})
    store.write(rows, expireAtColumn="t", timestamp=tick_ms - 50)
    store.write(pa.table({"key": [b"z"], "value": [b"last"]}), timestamp=tick_ms)
    shown = our_rows(store, now=tick_ms)
    assert [row.key for row in shown] == ([b"a", b"z"] if at_tick_ms > 0 else [b"z"])
    assert [row.value for row in read_rows(location)] == [b"dated", b"last"], "the client shows expired rows until then"
    with Client.open(location, CLIENT) as client:
        compact_full(client)
    assert read_rows(location) == shown
    assert our_rows(store, includeExpired=True) == shown


def test_operands_with_ttls_fold_and_expire_as_the_clients_do(tmp_path: Path) -> None:
    location, clock = Location.local(tmp_path / "db"), FakeClock()
    clock.advance(-MINUTE_MS)
    store = SlateStore.create(str(location.folder), clock=clock)
    start_ms = clock.now_ms()
    cases: list[tuple[bytes, Any, list[Any]]] = [
        (b"a", "none", [5, "none"]),
        (b"b", 5, ["none", 1000]),
        (b"c", 1000, [5, 5]),
        (b"d", None, [5, 1000]),
        (b"e", 5, [5]),
    ]
    for key, base_ttl, ttls in cases:
        if base_ttl is not None:
            store.write(pa.table({"key": [key], "value": [b"0"]}), ttl=base_ttl, timestamp=start_ms)
        for number, ttl in enumerate(ttls, 1):
            rows = pa.table({"key": [key], "value": [b"%d" % number]})
            store.write(rows, operation="merge", ttl=ttl, timestamp=start_ms)
    everything = our_rows(store, includeExpired=True)
    assert read_rows(location) == everything
    assert [(row.key, row.value) for row in everything][1] == (b"b", b"012")
    clock.advance(100)
    store.write(pa.table({"key": [b"z"], "value": [b"tick"]}))
    shown = our_rows(store, now=clock.now_ms())
    assert [(row.key, row.value) for row in shown] == [
        (b"a", b"02"),
        (b"b", b"12"),  # the base has expired, so operands fold onto nothing
        (b"c", b"0"),
        (b"d", b"2"),
        (b"z", b"tick"),
    ]
    with Client.open(location, CLIENT) as client:
        compact_full(client)
    assert read_rows(location) == shown
    assert our_rows(store, includeExpired=True) == shown


def test_writing_again_renews_for_the_client_too(tmp_path: Path) -> None:
    location, clock = Location.local(tmp_path / "db"), FakeClock()
    clock.advance(-MINUTE_MS)
    store = SlateStore.create(str(location.folder), clock=clock, defaultTtl=10)
    rows = pa.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"1", b"1"]})
    store.write(rows)
    clock.advance(9)
    store.write(rows.slice(0, 1))
    store.write(rows.slice(1, 1), ttl="none")
    clock.advance(2)
    store.setProperties(defaultTtl="1d")
    store.write(pa.table({"key": [b"d"], "value": [b"1"]}))
    now_ms = clock.now_ms()
    shown = our_rows(store)
    assert [(row.key, row.expire_ts and row.expire_ts - now_ms) for row in shown] == [
        (b"a", 8),
        (b"b", None),
        (b"d", DAY_MS),
    ]
    with Client.open(location, CLIENT) as client:
        compact_full(client)
    assert read_rows(location) == shown
