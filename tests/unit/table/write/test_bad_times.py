"""Invalid times, wrong clocks, and rows that expire before they begin."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import Clock, ClockRegressionError, OptionError, SchemaError, SlateStore
from slatespark.table.log.manifests import MAX_AHEAD_MS
from slatespark.units import MAX_MS, ms_to_text
from tests.support.client import Client, ClientOptions, Location
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

LONG_AGO_MS = 1_000_000_000_000  # 2001; nothing here may ask the system clock
HOUR_MS = 3_600_000
KEY_SCHEMA = pa.schema([pa.field("id", pa.int32()), pa.field("text", pa.string())])

_numbers = count()


def new_store(
    clock: Clock | None = None, *, typed: bool = False, clock_property: str = "system", **properties: Any
) -> SlateStore:
    url = f"memory://bad-times-{next(_numbers)}"
    properties["clock"] = clock_property
    SlateStore.create(url, *((KEY_SCHEMA, "id") if typed else ()), **properties)
    return SlateStore.open(url, clock=clock or FakeClock(LONG_AGO_MS))


def rows(typed: bool = False, **columns: Any) -> pa.Table:
    if typed:
        return pa.table({"id": pa.array([1], pa.int32()), "text": ["x"], **columns})
    return pa.table({"key": [b"k"], "value": [b"v"], **columns})


def instant(ms: int | None) -> pa.Array:
    return pa.array([ms], pa.timestamp("ms", "UTC"))


# --- durations ------------------------------------------------------------------------------------------------------

BAD_DURATIONS = [
    "",
    "soon",
    "7y",
    "1.5d",
    "-7d",
    "P",
    "PT",
    "P1M",
    "7d7d",
    "9" * 30,
    "9" * 5000 + "d",
    "P" + "9" * 99 + "D",
]
OVERFLOWING = [MAX_MS + 1, str(MAX_MS + 1), "106751991168d", f"PT{MAX_MS}S", -1]


@pytest.mark.parametrize("name", ["ttl", "defaultTtl", "retention", "versionRetention", "periodicCompactionInterval"])
@pytest.mark.parametrize(
    "given", [*BAD_DURATIONS, *OVERFLOWING, 1.5, True, b"7d", [7]], ids=lambda given: repr(given)[:20]
)
def test_a_duration_that_is_none_or_too_long_is_refused_by_name(name: str, given: Any) -> None:
    store = new_store()
    version = store.write(rows())
    changes: list[Callable[[], object]] = [lambda: store.write(rows(), ttl=given)]
    if name != "ttl":
        changes = [
            lambda: store.setProperties(**{name: given}),
            lambda: SlateStore.create(f"memory://bad-times-{next(_numbers)}", **{name: given}),
        ]
    for change in changes:
        with pytest.raises(OptionError, match=f"^{name}: "):
            change()
    assert store.history(1)[0].version == version
    assert store.definition.properties.get(name) is None


@pytest.mark.parametrize("typed", [False, True])
def test_a_ttl_that_ends_beyond_64_bits_never_expires(typed: bool) -> None:
    store = new_store(typed=typed, clock_property="custom")
    store.write(rows(typed, t=[MAX_MS]), ttlColumn="t", timestamp=LONG_AGO_MS)
    [row] = store.scan(metadataColumns="expire_ts", now=MAX_MS).read_all().to_pylist()
    assert row["_expire_ts"] is None
    store.write(rows(typed, t=[MAX_MS - LONG_AGO_MS + 1]), ttlColumn="t", timestamp=LONG_AGO_MS)
    assert store.scan(now=MAX_MS).read_all().num_rows == 1
    store.write(rows(typed, t=[MAX_MS - LONG_AGO_MS]), ttlColumn="t", timestamp=LONG_AGO_MS)
    assert (store.scan(now=MAX_MS - 1).read_all().num_rows, store.scan(now=MAX_MS).read_all().num_rows) == (1, 0)


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("option", "column"), [("ttlColumn", pa.array([MAX_MS // 4])), ("expireAtColumn", instant(MAX_MS // 4))]
)
def test_an_expiry_that_no_calendar_has_is_refused(typed: bool, option: str, column: pa.Array) -> None:
    store = new_store(typed=typed)
    with pytest.raises(SchemaError, match=option):
        store.write(rows(typed, t=column), **{option: "t"})
    with pytest.raises(SchemaError, match=option), store.begin() as transaction:
        transaction.write(rows(typed, t=column), **{option: "t"})
    assert our_rows(store, includeExpired=True) == []


@pytest.mark.parametrize("option", ["ttl", "ttlColumn", "defaultTtl"])
def test_a_ttl_of_zero_expires_at_once(option: str) -> None:
    properties: dict[str, Any] = {"defaultTtl": "0s"} if option == "defaultTtl" else {}
    store = new_store(**properties)
    store.write(rows())
    given: dict[str, Any] = {"ttl": 0} if option == "ttl" else {"ttlColumn": "t"} if option == "ttlColumn" else {}
    store.write(rows(t=[0]) if option == "ttlColumn" else rows(), **given)
    assert our_rows(store) == []
    [row] = our_rows(store, now=LONG_AGO_MS - 1)
    assert (row.create_ts, row.expire_ts) == (LONG_AGO_MS, LONG_AGO_MS)


def test_a_negative_ttl_of_a_row_is_refused() -> None:
    store = new_store()
    with pytest.raises(SchemaError, match="ttlColumn"):
        store.write(rows(t=[-1]), ttlColumn="t")
    assert our_rows(store, includeExpired=True) == []


# --- columns of times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("option", "values", "said"),
    [
        ("ttlColumn", pa.array(["7d"]), "STRING"),
        ("ttlColumn", pa.array([7.0]), "DOUBLE"),
        ("ttlColumn", pa.array([True]), "BOOLEAN"),
        ("ttlColumn", instant(5), "TIMESTAMP"),
        ("ttlColumn", pa.array([b"7"]), "BINARY"),
        ("expireAtColumn", pa.array([5]), "BIGINT"),
        ("expireAtColumn", pa.array(["2100-01-01"]), "STRING"),
        ("expireAtColumn", pa.array([5], pa.date32()), "DATE"),
        ("expireAtColumn", pa.array([5], pa.duration("ms")), "DURATION"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_a_column_of_the_wrong_type_is_refused(option: str, values: pa.Array, said: str, typed: bool) -> None:
    store = new_store(typed=typed)
    with pytest.raises(SchemaError) as caught:
        store.write(rows(typed, t=values), **{option: "t"})
    assert option in str(caught.value)
    assert said in str(caught.value)
    assert store.scan().read_all().num_rows == 0


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("option", "nothing"),
    [
        ("ttlColumn", pa.nulls(1)),
        ("ttlColumn", pa.nulls(1, pa.int32())),
        ("ttlColumn", pa.nulls(1, pa.duration("us"))),
        ("expireAtColumn", pa.nulls(1)),
        ("expireAtColumn", instant(None)),
    ],
)
@pytest.mark.parametrize(
    ("ttl", "expected"), [({}, 9), ({"ttl": "default"}, 9), ({"ttl": 5}, 5), ({"ttl": 0}, 0), ({"ttl": "none"}, None)]
)
def test_null_means_the_ttl_of_the_write(
    option: str, nothing: pa.Array, ttl: dict[str, Any], expected: int | None, typed: bool
) -> None:
    store = new_store(typed=typed, defaultTtl=9)
    store.write(rows(typed, t=nothing), **{option: "t"}, **ttl)
    shown = store.scan(metadataColumns="create_ts,expire_ts", includeExpired=True).read_all().to_pylist()
    lived = [row["_expire_ts"] and (row["_expire_ts"] - row["_create_ts"]).total_seconds() * 1000 for row in shown]
    assert lived == [expected]


# --- instants before the row ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("before_ms", [0, 1, 10 * HOUR_MS, LONG_AGO_MS, 2 * LONG_AGO_MS])
def test_an_expiry_at_or_before_the_row_is_stored_and_hides_it_at_once(before_ms: int, typed: bool) -> None:
    store = new_store(typed=typed)
    store.write(rows(typed))
    store.write(rows(typed, t=instant(LONG_AGO_MS - before_ms)), expireAtColumn="t")
    assert store.scan().read_all().num_rows == 0, "the version below stays hidden"
    [row] = store.scan(includeExpired=True, metadataColumns=True).read_all().to_pylist()
    assert row["_expire_ts"].timestamp() * 1000 == LONG_AGO_MS - before_ms
    assert row["_create_ts"].timestamp() * 1000 == LONG_AGO_MS
    assert store.scan(now=LONG_AGO_MS - before_ms - 1).read_all().num_rows == 1


def test_expiries_are_never_compared_with_the_system_clock() -> None:
    assert time.time_ns() // 1_000_000 > LONG_AGO_MS + HOUR_MS
    store = new_store()
    store.write(rows(t=instant(LONG_AGO_MS + 1)), expireAtColumn="t")
    assert len(our_rows(store)) == 1
    own = SlateStore.create(f"memory://bad-times-{next(_numbers)}", clock="custom")
    own.write(rows(t=instant(9)), expireAtColumn="t", timestamp=8)
    assert len(our_rows(own)) == 1
    own.write(rows(t=instant(10**15)), expireAtColumn="t", timestamp=10**15)
    assert our_rows(own) == []


# --- clocks ---------------------------------------------------------------------------------------------------------


def test_a_clock_that_went_back_is_refused_with_both_times() -> None:
    clock = FakeClock(LONG_AGO_MS)
    store = new_store(clock)
    store.write(rows())
    clock.advance(-HOUR_MS)
    check_blocked_until(store, clock, tick_ms=LONG_AGO_MS)


def test_a_table_ahead_of_our_clock_names_the_time_of_the_next_write() -> None:
    ahead = new_store(FakeClock(LONG_AGO_MS + HOUR_MS))
    ahead.write(rows(), ttl=1)
    clock = FakeClock(LONG_AGO_MS)
    store = SlateStore.open(ahead.url, clock=clock)
    assert len(our_rows(store)) == 1, "reads go by the tick"
    check_blocked_until(store, clock, tick_ms=LONG_AGO_MS + HOUR_MS)
    [row] = our_rows(store)
    assert row.create_ts == LONG_AGO_MS + HOUR_MS, "never below the tick"


def check_blocked_until(store: SlateStore, clock: FakeClock, *, tick_ms: int) -> None:
    version, before = store.history(1)[0].version, our_rows(store)
    now_ms, from_ms = clock.now_ms(), tick_ms - MAX_AHEAD_MS
    changes: tuple[Callable[[], object], ...] = (
        lambda: store.write(rows()),
        lambda: store.delete("key = X'6b'"),
        lambda: store.write(rows(), timestamp=now_ms),
    )
    for change in changes:
        with pytest.raises(ClockRegressionError) as caught:
            change()
        for part in (f"{ms_to_text(tick_ms)} ({tick_ms})", f"{ms_to_text(now_ms)} ({now_ms})", ms_to_text(from_ms)):
            assert part in str(caught.value)
    assert (store.history(1)[0].version, our_rows(store)) == (version, before)
    clock.advance(from_ms - 1 - now_ms)
    with pytest.raises(ClockRegressionError):
        store.write(rows())
    clock.advance(1)
    store.write(rows())


def test_a_custom_clock_that_went_back_is_refused_too() -> None:
    class Backwards(Clock):
        shows = LONG_AGO_MS

        def now_ms(self) -> int:
            return self.shows

    clock = Backwards()
    store = new_store(clock)
    store.write(rows())
    clock.shows = 7
    with pytest.raises(ClockRegressionError, match=rf"\({LONG_AGO_MS}\).*\(7\)"):
        store.write(rows())
    assert len(our_rows(store)) == 1


@pytest.mark.parametrize("back_ms", [1, HOUR_MS])
def test_times_of_a_custom_table_that_go_back_are_refused(back_ms: int) -> None:
    store = SlateStore.create(f"memory://bad-times-{next(_numbers)}", clock="custom")
    store.write(rows(), timestamp=5)
    changes: tuple[Callable[[], object], ...] = (
        lambda: store.write(rows(), timestamp=5 - back_ms),
        lambda: store.delete("key = X'6b'", timestamp=5 - back_ms),
    )
    for change in changes:
        with pytest.raises(ClockRegressionError, match=rf"\({5 - back_ms}\).*\(5\)"):
            change()
    assert len(our_rows(store)) == 1


def test_wal_rows_of_a_client_ahead_of_our_clock_block_writes(tmp_path: Any) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, ClientOptions()) as client:
        tick_ms = client.put(b"k", b"theirs").create_ts
        client.flush_wal()
    clock = FakeClock(tick_ms - HOUR_MS)
    store = SlateStore.open(str(location.folder), clock=clock)
    check_blocked_until(store, clock, tick_ms=tick_ms)


# --- defaultTtl -----------------------------------------------------------------------------------------------------


def test_a_changed_default_ttl_applies_to_later_writes_only() -> None:
    clock = FakeClock(LONG_AGO_MS)
    store = new_store(clock, defaultTtl="1h")
    expected = {}
    for number, ttl in enumerate(["1h", "2h", "none", "0s"]):
        if number:
            store.setProperties(defaultTtl=ttl)
        key = b"%d" % number
        store.write(pa.table({"key": [key], "value": [key]}))
        hours = {"1h": 1, "2h": 2, "none": None, "0s": 0}[ttl]
        expected[key] = None if hours is None else LONG_AGO_MS + hours * HOUR_MS
    assert {row.key: row.expire_ts for row in our_rows(store, includeExpired=True)} == expected
    assert [row.key for row in our_rows(store, now=LONG_AGO_MS + HOUR_MS)] == [b"1", b"2"]
