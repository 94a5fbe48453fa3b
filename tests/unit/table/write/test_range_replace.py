"""Conditions that are exactly key intervals, messages for others, and rows outside the intervals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.clock import SystemClock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.rows.key_bounds import KeyBounds
from slatespark.table.stores import open_stores
from slatespark.table.write.load import load_batches
from slatespark.table.write.range_replace import exact_ranges, plan_bounds

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
        ("tenant = 'a' OR part = 1", "AND"),
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
        ("", "text"),
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
        ("tenant = 'a'", [(("a",), ("a", "above"))]),
        ("tenant = 'a' AND part >= 3", [(("a", 3), ("a", "above"))]),
        ("tenant = 'a' AND part > 3 AND part <= 5", [(("a", 4), ("a", 5, "above"))]),
        ("tenant IN ('b', 'a')", [(("a",), ("a", "above")), (("b",), ("b", "above"))]),
        ("tenant IN ('b', 'a') AND part = 1 AND day < 0",
         [(("a", 1, -(2**31)), ("a", 1, -1, "above")), (("b", 1, -(2**31)), ("b", 1, -1, "above"))]),
        ("tenant = 'a' AND part = 1 AND day = 2", [(("a", 1, 2), ("a", 1, 2, "itself"))]),
        ("tenant >= 'a'", [(("a",), ("above",))]),
        ("tenant IS NULL", [((None,), (None, "above"))]),
    ],
)  # fmt: skip
def test_conditions_that_are_intervals(condition: str, ranges: list[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> None:
    def bound(values: tuple[Any, ...]) -> bytes:
        behind = {"above": b"\xff", "itself": b"\0"}.get(str(values[-1]), b"")
        return CODEC.encode_prefix(values[:-1] if behind else values) + behind

    expected = tuple(KeyRange(bound(start), bound(end)) for start, end in ranges)
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
