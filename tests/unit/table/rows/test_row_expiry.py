"""Rows that say themselves when they expire: every type of column, what is refused, and whose expiry counts."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import OptionError, SchemaError, SlateStore
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import InvalidRequestError
from slatespark.options import WriteOptions
from slatespark.options.values import MAX_TTL_MS
from slatespark.table.rows.encoder import Stamp
from slatespark.table.rows.encoder_plan import plan_encoder
from slatespark.table.stores import open_stores
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.units import MAX_CALENDAR_MS, MAX_MS, MIN_MS
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import to_ms
from tests.support.row_values import columns_to_rows

NOW_MS = 1_700_000_000_000

_numbers = count()


def encoded(
    column: pa.Array,
    option: str,
    *,
    ttl_ms: int | None = None,
    create_ts_ms: int = NOW_MS,
    own_time: bool = False,
) -> list[int | None]:
    """The expiries of rows that have nothing but this column to tell them apart."""
    keys = pa.array([b"%d" % number for number in range(len(column))], pa.binary())
    table = pa.table({"key": keys, "value": keys, "T": column})
    options = WriteOptions.parse({"path": "p", option: "t"})
    encoder = plan_encoder(table.schema, RAW_CODEC, options, own_time=own_time)
    rows = columns_to_rows(encoder.encode(table, Stamp(1, create_ts_ms, ttl_ms)).rows)
    assert {row.create_ts_ms for row in rows} <= {create_ts_ms}
    return [row.expire_ts_ms for row in rows]


@pytest.mark.parametrize(
    ("column", "ttls"),
    [
        (pa.array([0, 1, None, 127], pa.int8()), [0, 1, None, 127]),
        (pa.array([0, None, 40_000], pa.int32()), [0, None, 40_000]),
        (pa.array([2**40, None], pa.int64()), [2**40, None]),
        (pa.array([2**40, None], pa.uint64()), [2**40, None]),
        (pa.array([0, 999, 1000, 1999, None], pa.duration("us")), [0, 0, 1, 1, None]),
        (pa.array([999_999, 1_000_000, None], pa.duration("ns")), [0, 1, None]),
        (pa.array([7, None], pa.duration("ms")), [7, None]),
        (pa.array([7, None], pa.duration("s")), [7000, None]),
        (pa.nulls(2), [None, None]),
        (pa.array([], pa.int64()), []),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
@pytest.mark.parametrize("default_ms", [None, 5, 0])
def test_ttl_by_row(column: pa.Array, ttls: list[int | None], default_ms: int | None) -> None:
    chosen = [default_ms if ttl is None else ttl for ttl in ttls]
    expected = [None if ttl is None else NOW_MS + ttl for ttl in chosen]
    assert encoded(column, "ttlColumn", ttl_ms=default_ms) == expected


def test_a_ttl_has_at_most_a_thousand_years() -> None:
    assert encoded(pa.array([MAX_TTL_MS, None]), "ttlColumn") == [NOW_MS + MAX_TTL_MS, None]
    too_long = [
        pa.array([1, MAX_TTL_MS + 1]),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([MAX_TTL_MS + 1], pa.duration("ms")),
        pa.array([MAX_TTL_MS // 1000 + 1], pa.duration("s")),
        pa.array([MAX_MS], pa.duration("s")),
    ]
    for column in too_long:
        with pytest.raises(SchemaError, match=r"ttlColumn: T is \d+.* 1,000 years"):
            encoded(column, "ttlColumn")


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_no_row_expires_beyond_the_year_9999(unit: str) -> None:
    last = pa.array([MAX_CALENDAR_MS // 1000 * 1000], pa.timestamp("ms")).cast(pa.timestamp(unit, "UTC"))
    assert encoded(last, "expireAtColumn") == [MAX_CALENDAR_MS // 1000 * 1000]
    for value in (pc.add(last, pa.scalar(1, pa.duration("s"))), pa.array([MAX_MS], last.type)):
        with pytest.raises(SchemaError, match=r"expireAtColumn: T is \d+.* 9999"):
            encoded(value, "expireAtColumn")


def test_what_deleted_rows_say_does_not_matter() -> None:
    columns = {"key": [b"a"], "op": ["delete"], "value": [b""]}
    for option, value in (
        ("ttlColumn", pa.array([MAX_MS])),
        ("expireAtColumn", pa.array([MAX_MS], pa.timestamp("ms"))),
    ):
        table = pa.table({**columns, "t": value})
        options = WriteOptions.parse({"path": "p", option: "t", "opColumn": "op"})
        [row] = columns_to_rows(
            plan_encoder(table.schema, RAW_CODEC, options).encode(table, Stamp(1, NOW_MS, None)).rows
        )
        assert row.expire_ts_ms is None


def test_no_calendar_limits_a_clock_of_the_tables_own() -> None:
    room = MAX_MS - NOW_MS

    def shown(column: pa.Array, create_ts_ms: int = NOW_MS) -> list[int | None]:
        return encoded(column, "ttlColumn", ttl_ms=3, create_ts_ms=create_ts_ms, own_time=True)

    assert shown(pa.array([room, room + 1, MAX_MS])) == [MAX_MS, None, None]
    assert shown(pa.array([2**64 - 1, room], pa.uint64())) == [None, MAX_MS]
    assert shown(pa.array([MAX_MS // 1000, MAX_MS], pa.duration("s"))) == [None, None]
    assert shown(pa.array([MAX_MS]), create_ts_ms=-5) == [MAX_MS - 5]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize(
    ("unit", "given", "expected"),
    [
        ("s", [5, -5, None, 0], [5000, -5000, None, 0]),
        ("s", [MAX_MS // 1000, MAX_MS // 1000 + 1, MAX_MS], [MAX_MS // 1000 * 1000, None, None]),
        ("s", [MIN_MS], [-(MAX_MS // 1000 * 1000)]),
        ("ms", [5, MAX_MS, MIN_MS, None], [5, MAX_MS, MIN_MS, None]),
        ("us", [5999, -1, None], [5, -1, None]),
        ("ns", [5_999_999, -1, None], [5, -1, None]),
    ],
)
def test_expiry_by_row(unit: str, given: list[int | None], expected: list[int | None], zone: str | None) -> None:
    column = pa.array(given, pa.timestamp(unit, zone))
    assert encoded(column, "expireAtColumn", own_time=True) == expected
    assert encoded(pa.nulls(2), "expireAtColumn", ttl_ms=3) == [NOW_MS + 3] * 2


@pytest.mark.parametrize(
    ("column", "option", "message"),
    [
        (pa.array([1, -5]), "ttlColumn", "-5"),
        (pa.array([1, -1500], pa.duration("us")), "ttlColumn", "-1500 us"),
        (pa.array([-1], pa.duration("us")), "ttlColumn", "-1 us"),
        (pa.array([MIN_MS]), "ttlColumn", str(MIN_MS)),
        (pa.array([1.5]), "ttlColumn", "DOUBLE"),
        (pa.array(["7d"]), "ttlColumn", "STRING"),
        (pa.array([True]), "ttlColumn", "BOOLEAN"),
        (pa.array([1], pa.timestamp("us")), "ttlColumn", "TIMESTAMP_NTZ"),
        (pa.array([1]), "expireAtColumn", "BIGINT"),
        (pa.array([1], pa.date32()), "expireAtColumn", "DATE"),
    ],
)
def test_what_says_no_time(column: pa.Array, option: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        encoded(column, option)
    assert option in str(caught.value)
    assert message in str(caught.value)


def raw(*rows: tuple[bytes, int | None], **more: list[Any]) -> pa.Table:
    keys = pa.array([row[0] for row in rows], pa.binary())
    return pa.table({"key": keys, "value": keys, "ttl": pa.array([row[1] for row in rows], pa.int64()), **more})


def expiries(store: SlateStore) -> dict[Any, int | None]:
    """Expiry, counted from the creation, of every row that is stored and no tombstone."""
    rows = store.scan(metadataColumns=True, includeExpired=True).read_all().to_pylist()
    found = {}
    for row in rows:
        created_ms, expires_ms = to_ms(row["_create_ts"]), to_ms(row["_expire_ts"])
        assert created_ms == NOW_MS
        found[row.get("key", row.get("id"))] = None if expires_ms is None else expires_ms - NOW_MS
    return found


def new_store(*columns: Any, **properties: Any) -> SlateStore:
    return SlateStore.create(f"memory://row-expiry-{next(_numbers)}", *columns, clock=FakeClock(NOW_MS), **properties)


@pytest.mark.parametrize("buffer", ["64m", 200], ids=["memory", "spilled"])
def test_the_winner_brings_its_ttl(buffer: Any) -> None:
    store = new_store()
    store.write(raw((b"b", 5), (b"a", 7), (b"b", None), (b"a", 9), (b"c", 3)), ttlColumn="ttl", writeBuffer=buffer)
    assert expiries(store) == {b"a": 9, b"b": None, b"c": 3}
    assert store.scan().schema.names == ["key", "value"]


@pytest.mark.parametrize("buffer", ["64m", 200], ids=["memory", "spilled"])
def test_the_row_that_sequence_column_chooses_brings_its_ttl(buffer: Any) -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int64())])
    store = new_store(schema, ["id"], defaultTtl="20ms")
    ids, numbers = pa.array([2, 1, 2, 1, 3, 3], pa.int32()), pa.array([9, 1, 8, 4, None, None])
    table = pa.table({"id": ids, "n": numbers, "TTL": pa.array([1, 2, 3, 4, 5, None], pa.duration("ms"))})
    store.write(table, ttlColumn="ttl", sequenceColumn="n", writeBuffer=buffer)
    assert expiries(store) == {1: 4, 2: 1, 3: 20}
    assert store.scan().read_all().schema.names == ["id", "n"]


def test_deletes_carry_no_expiry_and_their_ttl_does_not_matter() -> None:
    store = new_store()
    store.write(raw((b"a", 5), (b"b", 5)), ttlColumn="ttl")
    store.write(raw((b"a", -1), (b"b", 8), op=["delete", "put"]), opColumn="op", ttlColumn="ttl")
    assert expiries(store) == {b"b": 8}
    store.write(raw((b"b", -1)), operation="delete", ttlColumn="ttl")
    [a, b] = [row for row in store.scan(readVersions="all").read_all().to_pylist() if row["_op"] == "delete"]
    assert (a["_key"], a["_expire_ts"], b["_key"], b["_expire_ts"]) == (b"a", None, b"b", None)


def test_a_new_typed_table_does_not_get_the_column() -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int32())])
    for option, column in (("ttlColumn", [1, None]), ("expireAtColumn", pa.array([NOW_MS, None], pa.timestamp("ms")))):
        store = new_store(schema, ["id"])
        table = pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([1, 2], pa.int32()), "T": column})
        options: dict[str, Any] = {option: "t", "mergeSchema": True}
        store.write(table, **options)
        assert store.definition.schema == schema
        assert store.scan().schema.names == ["id", "n"]


def test_an_expiry_in_the_past_is_stored_and_hides_what_is_below() -> None:
    store = new_store()
    store.write(raw((b"a", None)), ttlColumn="ttl")
    at = pa.array([NOW_MS - 10**9], pa.timestamp("ms"))
    store.write(pa.table({"key": [b"a"], "value": [b"v"], "at": at}), expireAtColumn="at")
    assert store.get(b"a") is None
    assert expiries(store) == {b"a": -(10**9)}
    assert store.get(b"a", now=NOW_MS - 10**9 - 1) == {"key": b"a", "value": b"v"}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ttlColumn": "nope"}, SchemaError, "nope"),
        ({"ttlColumn": "tll"}, SchemaError, r"\bttl\?"),
        ({"expireAtColumn": "at"}, SchemaError, "expireAtColumn"),
        ({"ttlColumn": "ttl", "expireAtColumn": "at"}, OptionError, "ttlColumn"),
        ({"ttlColumn": "key"}, SchemaError, "ttlColumn"),
        ({"ttlColumn": "ttl", "ttl": "x"}, OptionError, "'x'"),
        ({}, SchemaError, "columns"),
        ({"ttlColumn": "ttl"}, SchemaError, "-3"),
    ],
)
def test_a_refused_write_leaves_the_table_as_it_was(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    store = new_store()
    version = store.write(raw((b"a", 7)), ttlColumn="ttl")
    with pytest.raises(error, match=message):
        store.write(raw((b"a", 1), (b"b", -3)), **options)
    assert expiries(store) == {b"a": 7}
    assert store.history(1)[0].version == version


def test_operands_of_one_key_that_expire_at_different_times_are_not_folded() -> None:
    store, op = new_store(), ["merge", "merge"]
    options: dict[str, Any] = {"opColumn": "op", "ttlColumn": "ttl", "mergeOperator": "concat"}
    with pytest.raises(InvalidRequestError, match="Key 61"):
        store.write(raw((b"a", 5), (b"a", 6), op=op), **options)
    with pytest.raises(InvalidRequestError, match="expire"):
        store.write(raw((b"a", None), (b"a", 6), op=["put", "merge"]), **options)
    store.write(raw((b"a", 6), (b"a", 6), op=op), **options)
    store.write(raw((b"b", 5), (b"b", 6), op=["delete", "merge"]), **options)
    rows = store.scan(mergeOperator="concat", now=NOW_MS).read_all().to_pylist()
    assert rows == [{"key": b"a", "value": b"aa"}, {"key": b"b", "value": b"b"}]


def test_of_rows_in_several_tasks_the_winner_brings_its_ttl() -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int64())])
    store, clock = new_store(schema, ["id"]), FakeClock(NOW_MS)
    stores = open_stores(store.url, storage={})
    options = WriteOptions.parse({"path": store.url, "ttlColumn": "ttl", "sequenceColumn": "n"})
    parts = [
        pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(ids, pa.int64()), "ttl": pa.array(ttls, pa.int64())})
        for ids, ttls in (([1, 2, 3], [10, 20, 30]), ([3, 2, 1], [33, None, 11]))
    ]
    parts[0] = parts[0].set_column(1, "n", pa.array([9, 5, 0]))
    load = begin_load(stores, clock, parts[0].schema, options)
    assert load is not None
    outputs = [run_task(stores, clock, load, task, part.to_batches()) for task, part in enumerate(parts)]
    commit_load(stores, clock, load, outputs)
    assert expiries(store) == {1: 10, 2: 20, 3: 33}
