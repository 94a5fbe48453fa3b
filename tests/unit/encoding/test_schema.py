"""Arrow types become canonical or are refused by name; merged schemas lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark.encoding.column_types import (
    SPARK_METADATA,
    VARIANT,
    canonical_schema,
    comment_metadata,
    list_of,
    map_of,
)
from slatespark.encoding.schema import find_misread, merge_schemas, schema_of_spark_json, spark_json
from slatespark.errors import SchemaError

UTC, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")


def one(kind: pa.DataType, **more: Any) -> pa.Schema:
    return pa.schema([pa.field("c", kind, **more)])


@pytest.mark.parametrize(
    ("given_type", "expected"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.uuid(), pa.binary()),
        (pa.json_(), pa.string()),
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns", "Europe/Berlin"), UTC),
        (pa.timestamp("s"), NTZ),
        (pa.duration("ns"), pa.duration("us")),
        (pa.time32("s"), pa.time64("ns")),
        (pa.decimal32(9, 2), pa.decimal128(9, 2)),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.large_list(pa.uint8()), list_of(pa.int16())),
        (pa.list_view(pa.int8()), list_of(pa.int8())),
        (pa.list_(pa.field("x", pa.int8(), nullable=False), 3), list_of(pa.int8(), nullable=False)),
        (pa.map_(pa.large_string(), pa.date64()), map_of(pa.string(), pa.date32())),
        (
            pa.struct([pa.field("a", pa.date64(), nullable=False)]),
            pa.struct([pa.field("a", pa.date32(), nullable=False)]),
        ),
    ],
    ids=str,
)
def test_other_types_become_canonical(given_type: pa.DataType, expected: pa.DataType) -> None:
    assert canonical_schema(one(given_type)).field(0).type == expected


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.null(), "Cast"),
        (pa.uint64(), "DECIMAL"),
        (pa.month_day_nano_interval(), "INTERVAL"),
        (pa.dense_union([pa.field("a", pa.int8())]), "VARIANT"),
        (pa.decimal256(39, 0), "38"),
        (pa.decimal128(5, -1), "DECIMAL"),
        (pa.list_(pa.struct([pa.field("u", pa.uint64())])), r"c\.element\.u"),
        (pa.struct([pa.field("a", pa.int8()), pa.field("A", pa.int8())]), r"\ba\b.*\bA\b"),
        (pa.struct([]), "columns"),
    ],
    ids=str,
)
def test_unsupported_types(kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        canonical_schema(one(kind))


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a", "A"], r"\ba\b.*\bA\b"), ([""], "name"), ([], "columns"), (["_KEY"], "_key")],
)
def test_invalid_names(names: list[str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        canonical_schema(pa.schema([pa.field(name, pa.int8()) for name in names]))


def test_only_comments_are_kept() -> None:
    extra = {SPARK_METADATA: b'{"comment": "who", "__CHAR_VARCHAR_TYPE_STRING": "char(3)"}', b"x": b"y"}
    schema = canonical_schema(one(pa.string(), metadata=extra))
    assert schema.field(0).metadata == comment_metadata("who")
    assert spark_json(schema)["fields"][0]["metadata"] == {"comment": "who"}
    assert schema_of_spark_json(spark_json(schema)).field(0).metadata == comment_metadata("who")
    cut = pa.schema([pa.field("a", pa.string(), metadata={SPARK_METADATA: rb'{"comment": "\ud83d\ude00 \ud83d"}'})])
    assert canonical_schema(cut).field(0).metadata == comment_metadata("\U0001f600 "), "not half a character"
    assert canonical_schema(one(pa.string(), metadata={SPARK_METADATA: b"{"})).field(0).metadata is None


@pytest.mark.parametrize("name", ["char(3)", "varchar(20)", "string collate UTF8_LCASE", "interval day", "time(3)"])
def test_other_names_of_spark_types(name: str) -> None:
    content = {"type": "struct", "fields": [{"name": "c", "type": name, "nullable": True, "metadata": {}}]}
    assert schema_of_spark_json(content).field(0).type in (pa.string(), pa.duration("us"), pa.time64("ns"))


def fields(*parts: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(parts)}


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"type": "array"},
        {"type": "struct", "fields": None},
        fields({"name": "c"}),
        fields({"name": "c", "type": "long"}),
        fields({"name": "c", "type": "long", "nullable": 1}),
        fields({"name": 3, "type": "long", "nullable": True}),
        fields({"name": "c", "type": "interval year to month", "nullable": True}),
        fields({"name": "c", "type": "geometry", "nullable": True}),
        fields({"name": "c", "type": "decimal(50,2)", "nullable": True}),
        fields({"name": "c", "type": "decimal(x)", "nullable": True}),
        fields({"name": "c", "type": f"decimal(1{'0' * 30},0)", "nullable": True}),
        fields({"name": "c", "type": {"type": "map"}, "nullable": True}),
        fields({"name": "c", "type": {"type": "array", "elementType": "long", "containsNull": "no"}, "nullable": True}),
        fields({"name": "\ud800", "type": "long", "nullable": True}),
        fields({"name": "c", "type": "long", "nullable": True}, {"name": "C", "type": "long", "nullable": True}),
        [],
    ],
)
def test_json_that_is_not_a_schema(content: Any) -> None:
    with pytest.raises(SchemaError):
        schema_of_spark_json(content)


def test_deeply_nested_json() -> None:
    kind: Any = "long"
    for _ in range(5000):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    with pytest.raises(SchemaError):
        schema_of_spark_json(fields({"name": "c", "type": kind, "nullable": True}))


# --- growth ---------------------------------------------------------------------------------------------------------

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


@pytest.mark.parametrize(
    ("table", "incoming", "merged"),
    [
        *((INTS[a], INTS[b], INTS[max(a, b)]) for a in range(4) for b in range(4)),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int16(), pa.float32(), pa.float32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float64(), pa.float32(), pa.float64()),
        (pa.float64(), pa.int64(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(12, 2), pa.decimal128(9, 2), pa.decimal128(12, 2)),
        (pa.decimal128(12, 2), pa.int32(), pa.decimal128(12, 2)),
        (list_of(pa.int8()), list_of(pa.int64()), list_of(pa.int64())),
        (map_of(pa.string(), pa.int8()), map_of(pa.string(), pa.int16()), map_of(pa.string(), pa.int16())),
    ],
    ids=str,
)
def test_types_widen(table: pa.DataType, incoming: pa.DataType, merged: pa.DataType) -> None:
    assert merge_schemas(one(table), one(incoming)).field(0).type == merged


@pytest.mark.parametrize(
    ("table", "incoming", "message"),
    [
        (pa.int64(), pa.float64(), "DOUBLE"),
        (pa.string(), pa.int8(), "STRING"),
        (pa.binary(), pa.string(), "BINARY"),
        (UTC, NTZ, "TIMESTAMP_NTZ"),
        (pa.bool_(), pa.int8(), "BOOLEAN"),
        (VARIANT, pa.struct([pa.field("value", pa.binary(), nullable=False)]), "VARIANT"),
        (list_of(pa.int8()), pa.int8(), "ARRAY"),
        (map_of(pa.int8(), pa.int8()), map_of(pa.int16(), pa.int8()), "c.key"),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())]), r"c\.a"),
    ],
    ids=str,
)
def test_incompatible_types(table: pa.DataType, incoming: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        merge_schemas(one(table), one(incoming))


def test_columns_and_fields_are_added_and_keep_the_spelling_of_the_table() -> None:
    table = pa.schema([pa.field("Id", pa.int32(), nullable=False), pa.field("s", pa.struct([("A", pa.int8())]))])
    incoming = pa.schema(
        [
            pa.field("new", pa.int8(), nullable=False),
            ("S", pa.struct([("b", pa.string()), ("a", pa.int16())])),
            ("ID", pa.int64()),
        ]
    )
    expected = pa.schema(
        [
            pa.field("Id", pa.int64(), nullable=False),
            pa.field("s", pa.struct([("A", pa.int16()), ("b", pa.string())])),
            ("new", pa.int8()),
        ]
    )
    assert merge_schemas(table, incoming).equals(expected)


@pytest.mark.parametrize(
    ("table", "incoming", "merged"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(18, 2)),
        (pa.float64(), pa.float32(), pa.float64()),
    ],
    ids=str,
)
def test_keys_change_to_types_with_the_same_bytes(
    table: pa.DataType, incoming: pa.DataType, merged: pa.DataType
) -> None:
    assert merge_schemas(one(table), one(incoming), key_columns=["c"]).field(0).type == merged


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (pa.int8(), pa.float64()),
        (pa.int8(), pa.float32()),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())])),
    ],
    ids=str,
)
def test_keys_do_not_change_otherwise(table: pa.DataType, incoming: pa.DataType) -> None:
    assert merge_schemas(one(table), one(incoming)) is not None
    with pytest.raises(SchemaError, match="c"):
        merge_schemas(one(table), one(incoming), key_columns=["c"])


def parts(*given: tuple[str, pa.DataType, bool]) -> pa.DataType:
    return pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in given])


@pytest.mark.parametrize(
    ("stored", "table", "expected"),
    [
        (pa.int8(), pa.int64(), None),
        (pa.int32(), pa.float64(), None),
        (pa.int16(), pa.float32(), None),
        (pa.float32(), pa.float64(), None),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), None),
        (list_of(pa.int8()), list_of(pa.int64()), None),
        (list_of(pa.int8(), nullable=False), list_of(pa.int8()), None),
        (parts(("a", pa.int8(), True)), parts(("b", pa.int8(), True), ("a", pa.int16(), True)), None),
        (pa.int64(), pa.int32(), "c"),
        (pa.int64(), pa.float64(), "c"),
        (pa.int32(), pa.float32(), "c"),
        (pa.float64(), pa.float32(), "c"),
        (pa.int32(), pa.decimal128(20, 0), "c"),
        (pa.decimal128(9, 2), pa.decimal128(5, 2), "c"),
        (pa.decimal128(5, 2), pa.decimal128(9, 3), "c"),
        (pa.string(), pa.binary(), "c"),
        (VARIANT, pa.struct([pa.field("a", pa.int8())]), "c"),
        (list_of(pa.int8()), list_of(pa.int8(), nullable=False), "c.element"),
        (map_of(pa.string(), pa.int64()), map_of(pa.string(), pa.int32()), "c.value"),
        (parts(("a", pa.int8(), True)), parts(("A", pa.int8(), True)), "c.a"),
        (parts(("a", pa.int8(), True)), parts(("a", pa.int8(), False)), "c.a"),
        (parts(("a", pa.int8(), True)), parts(("a", pa.int8(), True), ("b", pa.int8(), False)), "c.b"),
    ],
    ids=str,
)
def test_values_that_are_read_as_others(stored: pa.DataType, table: pa.DataType, expected: str | None) -> None:
    assert find_misread(one(stored), one(table)) == expected


@pytest.mark.parametrize(
    ("stored", "table", "is_same"),
    [
        (pa.int8(), pa.int64(), True),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), True),
        (pa.int32(), pa.float64(), False),
        (pa.float32(), pa.float64(), False),
        (parts(("a", pa.int8(), True)), parts(("a", pa.int64(), True)), True),
        (parts(("a", pa.float32(), True)), parts(("a", pa.float64(), True)), False),
        (
            parts(("a", pa.int8(), True), ("b", pa.int8(), True)),
            parts(("b", pa.int8(), True), ("a", pa.int8(), True)),
            False,
        ),
    ],
    ids=str,
)
def test_keys_that_are_read_as_others(stored: pa.DataType, table: pa.DataType, is_same: bool) -> None:
    assert (find_misread(one(stored), one(table), key_columns=["c"]) is None) is is_same


_SHAPES: list[Callable[[pa.DataType], pa.DataType]] = [
    lambda kind: kind,
    list_of,
    lambda kind: map_of(pa.string(), kind),
    lambda kind: parts(("a", list_of(kind), True)),
]


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_float_in_json_stays_one(shape: Callable[[pa.DataType], pa.DataType]) -> None:
    """It is stored as 0.1, which is another number as a DOUBLE."""
    single, double, small = (one(shape(kind)) for kind in (pa.float32(), pa.float64(), pa.int16()))
    assert merge_schemas(single, double, value_format="json").equals(single)
    assert find_misread(single, double, value_format="json") is not None
    for wider in (single, double):
        assert merge_schemas(small, wider, value_format="json").equals(wider)
        assert find_misread(small, wider, value_format="json") is None
    assert merge_schemas(single, double).equals(double)


def test_columns_that_are_stored_otherwise() -> None:
    strict, loose = one(pa.int8(), nullable=False), one(pa.int8())
    assert find_misread(strict, loose) is None
    assert find_misread(loose, strict) == "c"
    assert find_misread(pa.schema([]), loose) is None
    assert find_misread(pa.schema([]), strict) == "c"
    assert find_misread(pa.schema([pa.field("C", pa.int8())]), loose) == "C"
