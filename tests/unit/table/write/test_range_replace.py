"""Conditions that are exactly key intervals, messages for others, and rows outside the intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, InvalidRequestError, OptionError, SlateStore, TransactionConflictError
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.format.manifest import Manifest, Segment
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange, prefix_range
from slatespark.storage.requests import Requests
from slatespark.table.clock import SystemClock
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.rows.key_bounds import KeyBounds
from slatespark.table.stores import open_stores
from slatespark.table.write.exact_ranges import exact_ranges, find_segment, plan_bounds
from slatespark.table.write.load_run import load_batches
from tests.support.client import Client, Location, Put
from tests.support.counted_tables import CountedTable

SCHEMA = pa.schema([("tenant", pa.string()), ("part", pa.int8()), ("day", pa.int32()), ("value", pa.string())])
DEFINITION = TableDefinition(
    key_format="tuple", key_columns=("tenant", "part", "day"), value_format="avro", schema=SCHEMA
)
CODEC = DEFINITION.codec()

EVEN = ", ".join(map(str, range(-120, 120, 2)))


def rows(*keys: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*keys, strict=True))
    return pa.table(
        [pa.array(list(column), kind) for column, kind in zip(columns, SCHEMA.types, strict=False)], SCHEMA.names[:3]
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("tenant = 'a' OR part = 1", "part"),
        ("tenant = 'a' OR", "name of a column"),
        ("tenant = 'a' AND (part = 1 OR day = 2)", "day"),
        ("upper(tenant) = 'A'", "functions"),
        ("value = 'x'", "value"),
        ("tenant = 'a' AND value = 'x'", "value"),
        ("part = 1", "part"),
        ("tenant = 'a' AND day = 1", "day"),
        ("tenant > 'a' AND part = 1", "tenant"),
        ("tenant LIKE 'a%' AND part = 1", "tenant"),
        ("nobody = 1", "nobody"),
        ("tenant = 'a' AND part > 5 AND part < 3", "key"),
        ("tenant = 'a' AND part > 5 AND part < 6", "key"),
        ("tenant = 'a' AND part BETWEEN 9 AND 2", "key"),
        ("tenant = 'a' AND part = 1 AND day IN (" + ", ".join(map(str, range(1001))) + ")", "1001"),
        (f"tenant = 'a' AND part IN ({EVEN}) AND day NOT IN (1,3,5,7,9,11,13,15)",
         "1000"),
        ("", "empty"),
    ],
)  # fmt: skip
def test_conditions_that_are_not_key_intervals(condition: str, message: str) -> None:
    def plan() -> None:
        plan_bounds(WriteOptions.parse({"path": "memory://", "replaceWhere": condition}), CODEC, overwrite=True)

    with pytest.raises(OptionError, match=f"^replaceWhere.*{message}"):
        plan()


@pytest.mark.parametrize(
    ("condition", "ranges"),
    [
        ("tenant = 'a'", [(("a",), ("a\0",))]),
        ("tenant = 'a' AND part >= 3", [(("a", 3), ("a\0",))]),
        ("tenant = 'a' AND part > 3 AND part <= 5", [(("a", 4), ("a", 6))]),
        ("tenant IN ('b', 'a')", [(("a",), ("a\0",)), (("b",), ("b\0",))]),
        ("tenant IN ('a', 'a\0')", [(("a",), ("a\0\0",))]),
        ("tenant IN ('b', 'a') AND part = 1 AND day < 0",
         [(("a", 1, -(2**31)), ("a", 1, 0)), (("b", 1, -(2**31)), ("b", 1, 0))]),
        ("tenant = 'a' AND part = 1 AND day = 2", [(("a", 1, 2), ("a", 1, 3))]),
        ("tenant = 'a' AND part = 1 AND day IN (2, 4, 3)", [(("a", 1, 2), ("a", 1, 5))]),
        ("tenant = 'a' AND part = 1 AND day = 2147483647", [(("a", 1, 2**31 - 1), ("a", 2))]),
        ("tenant = 'a' AND part = 127", [(("a", 127), ("a\0",))]),
        ("tenant >= 'a'", [(("a",), None)]),
        ("tenant = 'c' OR tenant = 'a'", [(("a",), ("a\0",)), (("c",), ("c\0",))]),
        ("tenant = 'a' AND (part = 1 OR part > 3 AND part <= 5)", [(("a", 1), ("a", 2)), (("a", 4), ("a", 6))]),
        ("(tenant = 'a' OR tenant = 'b') AND (part = 1 OR part = 2)",
         [(("a", 1), ("a", 3)), (("b", 1), ("b", 3))]),
        ("tenant = 'a' OR tenant = 'a' AND part = 1 OR tenant > 'a' AND tenant < 'a\0\0'", [(("a",), ("a\0\0",))]),
        ("tenant <> 'a' OR tenant = 'a' OR tenant IS NULL", [((), None)]),
        ("tenant = 'a' AND part > 3 AND part < 3 OR tenant = 'b'", [(("b",), ("b\0",))]),
        ("tenant IS NULL", [((), ("",))]),
        ("tenant = 'a' AND part IS NULL AND day < -2147483647", [(("a", None, -(2**31)), ("a", None, 1 - 2**31))]),
    ],
)  # fmt: skip
def test_conditions_that_are_intervals(
    condition: str, ranges: list[tuple[tuple[Any, ...], tuple[Any, ...] | None]]
) -> None:
    expected = tuple(
        KeyRange(CODEC.encode_prefix(start), None if end is None else CODEC.encode_prefix(end)) for start, end in ranges
    )
    assert exact_ranges(condition, CODEC, name="where") == expected


def check(codec: RowCodec, table: pa.Table, *ranges: KeyRange) -> None:
    KeyBounds(ranges, "the interval").check(table, codec.encode_keys(table), codec=codec)


def test_rows_outside_are_counted_and_one_is_named() -> None:
    inside = KeyRange(CODEC.encode_prefix(["a"]), CODEC.encode_prefix(["a"]) + b"\xff")
    check(CODEC, rows(("a", 1, 1), ("a", 2, None)), inside)
    with pytest.raises(InvalidRequestError) as caught:
        check(CODEC, rows(("a", 1, 1), ("b", 1, 2), ("b", 1, 3)), inside)
    assert type(caught.value) is InvalidRequestError
    assert "tenant=b, part=1, day=2" in str(caught.value)
    with pytest.raises(InvalidRequestError, match="key 7a"):
        check(RAW_CODEC, pa.table({"key": pa.array([b"z"], pa.binary())}), KeyRange(b"a", b"b"))


def test_options_that_do_not_fit() -> None:
    store = SlateStore.create("memory://replace-options")
    typed = SlateStore.create("memory://replace-options-typed", schema=SCHEMA, keyColumns=["tenant", "part", "day"])
    table = pa.table({"key": [b"a"], "value": [b"1"]})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"startKey": b"a"}, "startKey"),
        ({"replaceWhere": "key = X'61'"}, "replaceWhere"),
        ({"mode": "overwrite", "startKey": b"b", "endKey": b"a"}, "startKey"),
        ({"mode": "overwrite", "startKey": b"b", "endKey": b"b"}, "empty"),
        ({"mode": "overwrite", "keyPrefix": b"b", "endKey": b"b"}, "keyPrefix"),
        ({"mode": "overwrite", "keyPrefix": b"b", "replaceWhere": "key = X'61'"}, "both"),
    ]
    for options, message in wrong:
        with pytest.raises(OptionError, match=message):
            store.write(table, **options)
    with pytest.raises(OptionError, match="startKey"):
        typed.deleteRange(startKey=b"a")
    with pytest.raises(OptionError, match="range"):
        typed.deleteRange()
    with pytest.raises(OptionError, match="startKey"):
        store.deleteRange("key = X'61'", startKey=b"a")
    with pytest.raises(OptionError, match="part"):
        typed.deleteRange("part = 1")
    with pytest.raises(OptionError, match="history"):
        store.deleteRange(startKey=b"a", timestamp=1)
    assert (store.resolve().version, typed.resolve().version) == (1, 1), "nothing was committed"


def test_raw_tables_are_replaced_by_condition_too() -> None:
    store = SlateStore.create("memory://replace-raw")
    store.write(pa.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"1", b"1"]}))
    store.write(pa.table({"key": [b"b"], "value": [b"2"]}), mode="overwrite", replaceWhere="key >= X'62'")
    assert store.scan().read_all().to_pylist() == [{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}]
    store.deleteRange("key IN (X'61', X'63')")
    assert store.scan().read_all().to_pylist() == [{"key": b"b", "value": b"2"}]


def test_a_table_may_be_created_by_a_replacement() -> None:
    url = "memory://replace-creates"
    key = {"tenant": ["a"], "part": pa.array([1], pa.int8()), "day": pa.array([2], pa.int32())}
    table = pa.table({**key, "value": ["x"]})
    options = WriteOptions.parse({"path": url, "keyColumns": ["tenant", "part", "day"], "replaceWhere": "tenant = 'a'"})
    stores = open_stores(url, storage={})
    record = load_batches(stores, SystemClock(), table.schema, table.to_batches(), options, overwrite=True)
    assert record is not None
    assert record.operation == "replace"
    assert SlateStore.open(url).get("a", 1, 2) == {"tenant": "a", "part": 1, "day": 2, "value": "x"}


# --- intervals that hold nothing --------------------------------------------------------------------------------------


def letters(url: str, **options: Any) -> SlateStore:
    store = SlateStore.create(url, autoCompact=False, **options)
    store.write(pa.table({"key": [b"b", b"f", b"k"], "value": [b"1", b"1", b"1"]}))
    return store


def test_deleting_an_interval_that_holds_nothing_publishes_nothing() -> None:
    store = letters("memory://delete-nothing")
    version, objects = store.resolve().version, [meta.path for meta in store._stores.main.list("")]
    assert store.deleteRange(startKey=b"c", endKey=b"f") == version
    assert store.deleteRange(startKey=b"x") == version
    assert store.deleteRange(endKey=b"b") == version
    nothing = pa.table({"key": pa.array([], pa.binary()), "value": pa.array([], pa.binary())})
    assert store.write(nothing, mode="overwrite", startKey=b"g", endKey=b"k") == version
    assert [meta.path for meta in store._stores.main.list("")] == objects, "not even a lease is left"
    assert store.deleteRange(startKey=b"c", endKey=b"f\0") > version


def test_deleting_nothing_still_checks_what_it_is_asked_to() -> None:
    store = letters("memory://delete-nothing-checked")
    seq = store.resolve().seq
    store.write(pa.table({"key": [b"z"], "value": [b"2"]}))
    with pytest.raises(CommitConflictError):
        store.deleteRange(startKey=b"c", endKey=b"f", ifLastSeq=seq)


def test_deleting_nothing_is_remembered_under_its_pair() -> None:
    store = letters("memory://delete-nothing-once")
    version = store.resolve().version
    once: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1}
    assert store.deleteRange(startKey=b"c", endKey=b"f", **once) == version
    store.write(pa.table({"key": [b"d"], "value": [b"2"]}))
    store.deleteRange(startKey=b"c", endKey=b"f", **once)
    assert store.get(b"d") is not None, "the repeated job does nothing"


def test_hidden_rows_of_an_interval_are_deleted() -> None:
    store = letters("memory://delete-hidden")
    version = store.write(pa.table({"key": [b"f"], "value": [b""]}), operation="delete")
    assert store.deleteRange(startKey=b"c", endKey=b"g") > version, "the deleted row is stored"
    assert store.proveAbsent(b"f").found[0].versions


def test_files_without_rows_in_the_interval_are_not_cut() -> None:
    store = letters("memory://not-cut")
    store.write(pa.table({"key": [b"a", b"g", b"z"], "value": [b"2", b"2", b"2"]}))
    store.deleteRange(startKey=b"c", endKey=b"g")
    views = list(fetch_latest_manifest(store._stores)[1].views())
    assert [view.visible_range is None for view in views] == [True, False, False]
    store.deleteRange(startKey=b"g", endKey=b"h")
    assert [row["key"] for row in store.scan().read_all().to_pylist()] == [b"a", b"b", b"k", b"z"]


def test_deleting_nothing_fences_nobody(tmp_path: Path) -> None:
    with Client.open(Location.local(tmp_path / "db")) as client:
        client.write([Put(b"b", b"1"), Put(b"k", b"1")])
        client.flush_memtable()
        client.write([Put(b"f", b"1")])
        client.flush_wal()
        store = SlateStore.open(str(tmp_path / "db"))
        version = store.resolve().version
        assert store.deleteRange(startKey=b"c", endKey=b"f", ifClientActive="fence") == version
        client.write([Put(b"d", b"1")])
        client.flush_wal()
        assert client.get(b"d") == b"1", "it still is the writer"
        assert store.deleteRange(startKey=b"c", endKey=b"e", ifClientActive="fence") > version, "the WAL holds a row"
    assert [row["key"] for row in store.scan().read_all().to_pylist()] == [b"b", b"f", b"k"]


def test_the_wal_is_fetched_once_for_all_intervals(tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with Client.open(Location.local(tmp_path / "db")) as client:
        client.write([Put(b"%02d" % number, b"1") for number in range(0, 100, 2)])
        client.flush_memtable()
        for number in range(1, 100, 2):
            client.write([Put(b"%02d" % number, b"1")])
            client.flush_wal()

        def spent(keys: list[bytes]) -> Requests:
            listed = ", ".join(f"X'{key.hex()}'" for key in keys)
            where = f"key IN ({listed})"
            return CountedTable(url).spent(lambda store: store.deleteRange(where, ifClientActive="fence"))

        between = [b"%02dx" % number for number in range(100)]
        assert spent(between).get <= spent(between[:1]).get + 3, "index and blocks of the file"
        assert client.get(b"01") == b"1", "nothing was deleted, and nobody is fenced"
        spent([*between, b"51"])
    found = SlateStore.open(url).scan().read_all()["key"].to_pylist()
    assert found == [b"%02d" % number for number in range(100) if number != 51]


def test_several_intervals_in_one_commit() -> None:
    store = SlateStore.create("memory://several-intervals", SCHEMA, ["tenant", "part", "day"], autoCompact=False)
    keys = [(tenant, part, day) for tenant in "abc" for part in (1, 2) for day in (1, 2, 3)]
    store.write(rows(*keys).append_column("value", pa.array(["old"] * len(keys))))
    version = store.resolve().version
    where = "tenant = 'a' AND part = 1 AND (day = 1 OR day = 3) OR tenant IN ('b') AND part = 2 OR tenant > 'b'"
    new = rows(("a", 1, 3), ("c", 9, 9)).append_column("value", pa.array(["new"] * 2))
    assert store.write(new, mode="overwrite", replaceWhere=where) == version + 2, "a claim and a commit"
    found = {(row["tenant"], row["part"], row["day"]): row["value"] for row in store.scan().read_all().to_pylist()}
    stay = {
        key: "old" for key in keys if key not in (("a", 1, 1), ("a", 1, 3)) and key[:2] != ("b", 2) and key[0] != "c"
    }
    assert found == {**stay, ("a", 1, 3): "new", ("c", 9, 9): "new"}
    with pytest.raises(InvalidRequestError, match="outside"):
        store.write(rows(("a", 1, 2)).append_column("value", pa.array(["x"])), mode="overwrite", replaceWhere=where)
    assert store.deleteRange(where) == version + 4
    assert store.scan().read_all().num_rows == len(stay)


# --- nothing in the interval ----------------------------------------------------------------------------------------


def test_replacing_nothing_by_nothing_checks_what_was_read() -> None:
    store = SlateStore.create("memory://range-replace/read", pa.schema(list(SCHEMA)[:3]), "tenant,part,day")
    point = store.resolve()
    reads = ReadSet(point.version, point.seq, ranges=exact_ranges("tenant = 'a'", CODEC, name=""), written=())
    nothing = rows(("z", 1, 1)).slice(0, 0)
    store.write(rows(("a", 1, 1)))
    given = WriteOptions.parse({"path": store.url, "replaceWhere": "tenant = 'z'"})
    with pytest.raises(TransactionConflictError):
        load_batches(
            store._stores, SystemClock(), nothing.schema, nothing.to_batches(), given, overwrite=True, depends_on=reads
        )


def test_replacing_nothing_by_nothing_creates_a_table() -> None:
    url = "memory://range-replace/created"
    given = {"path": url, "replaceWhere": "tenant = 'z'", "keyColumns": "tenant,part,day"}
    stores = open_stores(url, storage={})
    assert load_batches(stores, SystemClock(), SCHEMA, [], WriteOptions.parse(given), overwrite=True) is not None
    assert SlateStore.open(url).scan().read_all().schema.names == SCHEMA.names


@pytest.mark.parametrize(
    ("prefixes", "found"),
    [([b"a"], b"a"), ([b"c"], b"c"), ([b"a", b"c"], None), ([b"ab"], None), ([b""], None)],
)
def test_a_deletion_beside_a_client_is_of_one_segment(prefixes: list[bytes], found: bytes | None) -> None:
    trees = (Segment(b"a", None, (), ()), Segment(b"bc", None, (), ()))
    manifest = Manifest(segments=trees, segment_extractor_name="prefixes")
    assert find_segment([prefix_range(prefix) for prefix in prefixes], manifest) == found
