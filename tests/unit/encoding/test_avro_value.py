from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from slatespark.encoding.avro_schema import avro_schema, fingerprint
from slatespark.encoding.avro_value import (
    FINE,
    MALFORMED,
    UNKNOWN_FINGERPRINT,
    decode_avro_values,
    encode_avro_values,
)
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.errors import SchemaError, UnsupportedFormatError
from tests.unit.encoding.columns_and_rows import cut, rows_of
from tests.unit.kernels.rows import columns, delete, put

UTC = dt.UTC
ORDERS = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("day", pa.date32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("tags", list_of(pa.string())),
        pa.field("ok", pa.bool_()),
    ]
)


def encoded(*arrays: Any, fields: Any) -> list[bytes]:
    return cut(encode_avro_values(arrays, fields, avro_schema(fields)))


def decoded(values: list[bytes], writers: Any, fields: Any, *wanted: str) -> tuple[dict[str, list[Any]], list[int]]:
    """Return columns as lists and the statuses; `writers` are the fields of each."""
    schemas = {fingerprint(schema): schema for schema in map(avro_schema, writers)}
    found, status = decode_avro_values(
        *rows_of(values), writers=schemas, fields=fields, wanted=wanted or [item.name for item in fields]
    )
    for array in found.values():
        array.validate(full=True)
    return {name: array.to_pylist() for name, array in found.items()}, status.tolist()


def test_fastavro_reads_values_with_their_logical_types() -> None:
    row = {
        "at": dt.datetime(2026, 1, 31, 12, 0, 0, 1, UTC),
        "day": dt.date(1969, 12, 31),
        "price": Decimal("-12.50"),
        "tags": ["a", None, "é"],
        "ok": None,
    }
    schema = avro_schema(list(ORDERS))
    value = cut(encode_avro_values(pa.Table.from_pylist([row], ORDERS).columns, list(ORDERS), schema))[0]
    assert fastavro.schemaless_reader(io.BytesIO(value[10:]), schema, None) == row
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, row)
    assert value[:2] == b"\xc3\x01"
    assert value[10:] == body.getvalue()
    assert decoded([value], [list(ORDERS)], list(ORDERS)) == ({name: [row[name]] for name in row}, [FINE])


def test_sliced_and_chunked_arrays() -> None:
    fields = [pa.field("a", pa.int32()), pa.field("b", pa.string()), pa.field("c", list_of(pa.timestamp("us")))]
    rows = [{"a": n, "b": "x" * n, "c": [dt.datetime.fromisoformat(f"2020-01-0{n + 1}")] * (n % 3)} for n in range(9)]
    rows[3] = dict.fromkeys("abc")
    whole = pa.Table.from_pylist(rows, pa.schema(fields))
    table = pa.concat_tables([whole.slice(2, 3), whole.slice(7)])
    kept = rows[2:5] + rows[7:]
    values = cut(encode_avro_values(table.columns, fields, avro_schema(fields)))
    assert decoded(values, [fields], fields)[0] == {name: [row[name] for row in kept] for name in "abc"}


def test_values_that_a_column_cannot_hold() -> None:
    cases = [
        (
            pa.field("n", pa.int8(), nullable=False),
            pa.array([1, None], pa.int8()),
            "Column n is not nullable .* 1 null",
        ),
        (pa.field("t", pa.time64("ns")), pa.array([1], pa.time64("ns")), "Column t .* whole microsecond"),
        (pa.field("s", pa.string()), not_text(), "Column s holds text .* UTF-8"),
        (pa.field("l", list_of(pa.string())), pa.ListArray.from_arrays([0, 1], not_text()), "Column l"),
        (
            pa.field("l", list_of(pa.time64("ns"))),
            pa.array([[1]], list_of(pa.time64("ns"))),
            "Column l .* whole microsecond",
        ),
        (
            pa.field("l", list_of(pa.int8(), nullable=False)),
            pa.array([[None]], pa.list_(pa.int8())),
            "Column l .* null in a part that is not nullable",
        ),
        (
            pa.field("m", map_of(pa.string(), pa.int8())),
            pa.array([[("k", 1), ("k", 2)]], map_of(pa.string(), pa.int8())),
            "Column m .* repeats a key",
        ),
    ]
    for field, array, message in cases:
        with pytest.raises(SchemaError, match=message):
            encoded(array, fields=[field])
    # values under a null are not checked
    lost = pa.Array.from_buffers(pa.time64("ns"), 1, [pa.py_buffer(b"\0"), pa.py_buffer(bytes([1] + [0] * 7))])
    assert len(encoded(lost, fields=[pa.field("t", pa.time64("ns"))])[0]) == 11


def not_text() -> Any:
    return pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )


def test_added_and_dropped_columns() -> None:
    first = [
        pa.field("a", pa.int32(), nullable=False),
        pa.field("b", pa.string()),
        pa.field("gone", list_of(pa.int8())),
    ]
    second = [pa.field("b", pa.string()), pa.field("a", pa.int64()), pa.field("new", list_of(pa.int8()))]
    values = [
        *encoded(pa.array([1], pa.int32()), pa.array(["x"]), pa.array([[7]], list_of(pa.int8())), fields=first),
        *encoded(pa.array([None], pa.string()), pa.array([2**40]), pa.array([[]], list_of(pa.int8())), fields=second),
    ]
    found, status = decoded(values, [first, second], second)
    assert found == {"b": ["x", None], "a": [1, 2**40], "new": [None, []]}
    assert status == [FINE, FINE]
    assert decoded(values[:1], [first], second, "new", "a")[0] == {"new": [None], "a": [1]}


def test_added_and_dropped_fields_of_a_struct() -> None:
    old = pa.struct([("x", pa.int32()), ("gone", pa.string()), ("when", pa.timestamp("us", "UTC"))])
    new = pa.struct([("x", pa.int64()), ("when", pa.timestamp("us", "UTC")), ("added", pa.date32())])
    first, second = [pa.field("s", list_of(old))], [pa.field("s", list_of(new))]
    when = dt.datetime(2026, 1, 1, tzinfo=UTC)
    values = [
        *encoded(pa.array([[{"x": 1, "gone": "a", "when": when}], None], list_of(old)), fields=first),
        *encoded(pa.array([[{"x": 2**40, "when": None, "added": dt.date(2026, 1, 1)}]], list_of(new)), fields=second),
    ]
    found, status = decoded(values[::-1], [first, second], second)
    assert status == [FINE] * 3
    assert found["s"] == [
        [{"x": 2**40, "when": None, "added": dt.date(2026, 1, 1)}],
        None,
        [{"x": 1, "when": when, "added": None}],
    ]


WAYS = [
    (pa.int8(), pa.int64(), 7, 7),
    (pa.int32(), pa.float64(), 7, 7.0),
    (pa.int64(), pa.float32(), 2**24 + 1, float(2**24)),
    (pa.float32(), pa.float64(), 0.5, 0.5),
    (pa.decimal128(3, 1), pa.decimal128(20, 1), Decimal("1.5"), Decimal("1.5")),
]


@pytest.mark.parametrize(("old", "new", "value", "becomes"), WAYS, ids=str)
def test_promotions(old: Any, new: Any, value: Any, becomes: Any) -> None:
    values = encoded(pa.array([value], old), fields=[pa.field("a", old)])
    assert decoded(values, [[pa.field("a", old)]], [pa.field("a", new)]) == ({"a": [becomes]}, [FINE])


NO_WAYS = [
    (pa.int64(), pa.int32()),
    (pa.float64(), pa.float32()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
    (pa.int32(), pa.date32()),
    (pa.date32(), pa.int32()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.duration("us"), pa.int64()),
    (pa.decimal128(5, 1), pa.decimal128(9, 2)),
    (pa.int64(), pa.decimal128(9, 2)),
    (pa.binary(), pa.decimal128(9, 2)),
    (pa.decimal128(5, 1), pa.binary()),
    (pa.bool_(), pa.int8()),
    (pa.int8(), list_of(pa.int8())),
    (list_of(pa.int8()), pa.int8()),
    (list_of(pa.int8()), list_of(pa.string())),
    (list_of(pa.int8()), VARIANT),
]


@pytest.mark.parametrize(("old", "new"), NO_WAYS, ids=str)
def test_incompatible_types(old: Any, new: Any) -> None:
    values = encoded(pa.array([None, [1] if old == list_of(pa.int8()) else None], old), fields=[pa.field("a", old)])
    with pytest.raises(SchemaError, match="Column a"):
        decoded(values, [[pa.field("a", old)]], [pa.field("a", new)])


def test_values_out_of_range() -> None:
    cases: list[tuple[Any, Any, Any]] = [
        (pa.int32(), pa.int8(), 128),
        (pa.int32(), pa.int16(), -(2**15) - 1),
        (pa.decimal128(9, 2), pa.decimal128(3, 2), Decimal("10.00")),
        (list_of(pa.int32()), list_of(pa.int8()), [1, 128]),
        (list_of(pa.decimal128(9, 2)), list_of(pa.decimal128(3, 2)), [Decimal("10.00")]),
    ]
    for wide, narrow, value in cases:
        values = encoded(pa.array([None, value, None], wide), fields=[pa.field("a", wide)])
        found, status = decoded(values, [[pa.field("a", narrow)]], [pa.field("a", narrow)])
        assert (found, status) == ({"a": [None] * 3}, [FINE, MALFORMED, FINE]), wide
    day = 86_400_000_000
    for kind, plain in ((pa.time64("ns"), pa.int64()), (list_of(pa.time64("ns")), list_of(pa.int64()))):
        items = [day - 1, day, -1] if kind == pa.time64("ns") else [[day - 1], [day], [-1]]
        bodies = encoded(pa.array(items, plain), fields=[pa.field("a", plain)])
        found, status = decoded(bodies, [[pa.field("a", kind)]], [pa.field("a", kind)])
        assert status == [FINE, MALFORMED, MALFORMED]
        last = dt.time(23, 59, 59, 999999)
        assert found["a"] == [last if kind == pa.time64("ns") else [last], None, None]


def test_tombstones_and_malformed_values() -> None:
    fields = [pa.field("a", pa.int8(), nullable=False), pa.field("b", map_of(pa.string(), pa.int8()))]
    value = encoded(pa.array([1], pa.int8()), pa.array([[("k", 1)]], fields[1].type), fields=fields)[0]
    schema = avro_schema(fields)
    stored = [put(b"1", 1, value), delete(b"2", 1), put(b"3", 1, b""), put(b"4", 1, value[:2] + bytes(8) + value[10:])]
    stored += [put(b"5", 1, value + b"\0"), put(b"6", 1, value[:-1]), put(b"7", 1, b'{"a": 1}   '), put(b"8", 1, value)]
    rows = columns(*stored)
    found, status = decode_avro_values(
        [rows], np.arange(len(stored)), writers={fingerprint(schema): schema}, fields=fields, wanted=["b", "a"]
    )
    assert status.tolist() == [FINE, FINE, *[UNKNOWN_FINGERPRINT] * 2, *[MALFORMED] * 2, UNKNOWN_FINGERPRINT, FINE]
    assert found["a"].to_pylist() == [1, *[None] * 6, 1]
    assert found["b"].to_pylist() == [[("k", 1)], *[None] * 6, [("k", 1)]]


def test_nothing_is_read_after_the_last_wanted_column() -> None:
    fields = [pa.field("a", pa.int8()), pa.field("b", pa.string())]
    value = encoded(pa.array([1], pa.int8()), pa.array(["x"]), fields=fields)[0]
    assert decoded([value[:-1], value + b"\0"], [fields], fields, "a") == ({"a": [1, 1]}, [FINE, FINE])
    assert decoded([value[:-1], value + b"\0"], [fields], fields, "b") == ({"b": [None, None]}, [MALFORMED] * 2)


def test_unknown_columns_and_no_columns() -> None:
    fields = [pa.field("a", pa.int8())]
    values = encoded(pa.array([1, 2], pa.int8()), fields=fields)
    with pytest.raises(SchemaError, match="'c'"):
        decoded(values, [fields], fields, "c")
    none, status = decode_avro_values(*rows_of(values), writers={}, fields=fields, wanted=["a"])
    assert none["a"].to_pylist() == [None, None]
    assert status.tolist() == [UNKNOWN_FINGERPRINT] * 2
    assert decode_avro_values(*rows_of([]), writers={}, fields=[pa.field("l", VARIANT)], wanted=["l"])[0][
        "l"
    ] == pa.nulls(0, VARIANT)


def test_a_writer_schema_that_is_not_a_record() -> None:
    for schema in ({"type": "enum", "name": "e", "symbols": ["A"]}, {"type": "long"}):
        with pytest.raises(UnsupportedFormatError, match="record"):
            decode_avro_values(*rows_of([]), writers={1: schema}, fields=[pa.field("a", pa.int8())], wanted=["a"])


def test_many_nested_rows_some_malformed() -> None:
    count = 10_000
    wide, narrow = list_of(pa.int32()), list_of(pa.int8())
    items = [[number % 128] if number % 5000 else [1000] for number in range(count)]
    values = encoded(pa.array(items, wide), fields=[pa.field("a", wide)])
    found, status = decoded(values, [[pa.field("a", narrow)]], [pa.field("a", narrow)])
    assert [number for number in range(count) if status[number]] == [0, 5000]
    assert found["a"] == [item if number % 5000 else None for number, item in enumerate(items)]
