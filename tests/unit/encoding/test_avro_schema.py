from __future__ import annotations

import json
from typing import Any

import fastavro
import fastavro.schema
import pyarrow as pa
import pytest

from slatespark.encoding.avro_resolution import avro_node
from slatespark.encoding.avro_schema import avro_name, avro_schema, column_name, fingerprint
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.errors import InternalError, SchemaError, UnsupportedFormatError
from slatespark.kernels.avro_program import MAX_DEPTH

FLAT = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.time64("ns"): {"type": "long", "logicalType": "time-micros"},
    pa.duration("us"): {"type": "long", "spark": "day-time interval"},
    pa.decimal128(12, 2): {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
}


@pytest.mark.parametrize("kind", FLAT, ids=str)
def test_flat_types(kind: Any) -> None:
    schema = avro_schema([pa.field("a", kind, nullable=False), pa.field("b", kind)])
    assert schema == {
        "type": "record",
        "name": "row",
        "namespace": "slatespark",
        "fields": [
            {"name": "a", "type": FLAT[kind]},
            {"name": "b", "type": ["null", FLAT[kind]], "default": None},
        ],
    }


def test_nested_types() -> None:
    point = pa.struct([pa.field("x", pa.float64(), nullable=False), pa.field("y", pa.float64())])
    record = {
        "type": "record",
        "name": "slatespark.row.a.item",
        "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": ["null", "double"], "default": None}],
    }
    pair = {
        "type": "record",
        "name": "slatespark.row.c",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
    }
    variant = {
        "type": "record",
        "name": "slatespark.row.d",
        "fields": [{"name": "value", "type": "bytes"}, {"name": "metadata", "type": "bytes"}],
        "spark": "variant",
    }
    fields = [
        pa.field("a", list_of(point), nullable=False),
        pa.field("b", map_of(pa.string(), pa.int64(), nullable=False), nullable=False),
        pa.field("c", map_of(pa.int32(), pa.string(), nullable=False), nullable=False),
        pa.field("d", VARIANT, nullable=False),
    ]
    schema = avro_schema(fields)
    assert [field["type"] for field in schema["fields"]] == [
        {"type": "array", "items": ["null", record]},
        {"type": "map", "values": "long"},
        {"type": "array", "items": pair},
        variant,
    ]
    assert json.loads(json.dumps(schema)) == schema
    fastavro.parse_schema(schema)


def test_names_of_records_do_not_depend_on_other_columns() -> None:
    inner = pa.struct([("x", pa.int8())])
    one = avro_schema([pa.field("a", inner)])["fields"][0]
    two = avro_schema([pa.field("b", inner), pa.field("a", inner)])["fields"][1]
    assert one == two


def test_the_same_fingerprint_as_fastavro_and_the_specification() -> None:
    # of the primitive types; given in the Avro specification's own test suite
    assert fingerprint_of_text('"int"') == 0x7275D51A3F395C8F
    assert fingerprint_of_text('"string"') == 0x8F014872634503C7
    schema = avro_schema([])
    canonical = '{"name":"slatespark.row","type":"record","fields":[]}'
    assert fastavro.schema.to_parsing_canonical_form(schema) == canonical
    assert fingerprint(schema) == fingerprint_of_text(canonical)


def fingerprint_of_text(canonical: str) -> int:
    """Return CRC-64-AVRO as the specification defines it."""
    empty = 0xC15D213AA4D7A795
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (empty & -(number & 1))
        table.append(number)
    result = empty
    for byte in canonical.encode():
        result = (result >> 8) ^ table[(result ^ byte) & 0xFF]
    return result


def test_a_fingerprint_does_not_change() -> None:
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("at", VARIANT)]
    assert fingerprint(avro_schema(fields)) == 0xDBB8A883C51E63E7


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain_Name9", "plain_Name9"),
        ("a b", "a_x0020_b"),
        ("9", "_x0039_"),
        ("é", "_x00E9_"),
        ("😀", "_x1F600_"),
        ("_x0020_", "_x005F_x0020_"),
        ("_x0020", "_x005F_x0020"),
        ("_x005Fé", "_x005F_x005F_x00E9_"),
        ("_x00e9_", "_x00e9_"),
        ("a.b", "a_x002E_b"),
    ],
)
def test_names(name: str, escaped: str) -> None:
    assert avro_name(name) == escaped
    assert column_name(escaped) == name


@pytest.mark.parametrize("name", ["_x110000_", "_xFFFFFF_", "_xD800_", "a_xDFFF_b"])
def test_a_name_that_no_column_has_is_its_own(name: str) -> None:
    assert column_name(name) == name
    assert column_name(avro_name(name)) == name


def test_what_cannot_be_written() -> None:
    with pytest.raises(SchemaError, match="name"):
        avro_schema([pa.field("", pa.int8())])
    with pytest.raises(SchemaError, match="'a'"):
        avro_schema([pa.field("a", pa.int8()), pa.field("a", pa.int8())])
    with pytest.raises(SchemaError, match=r"slatespark\.row\.a"):
        avro_schema([pa.field("a", pa.struct([]))])
    with pytest.raises(InternalError, match="type"):
        avro_schema([pa.field("a", pa.large_string())])


@pytest.mark.parametrize(
    "described",
    [
        "null",
        "slatespark.row.a",
        ["null", "int", "long"],
        ["int"],
        {"type": "fixed", "name": "f", "size": 3},
        {"type": "enum", "name": "e", "symbols": ["A"]},
        {"type": "array"},
        {"type": "record", "name": "r", "fields": []},
        7,
    ],
    ids=str,
)
def test_foreign_types_are_refused(described: Any) -> None:
    with pytest.raises(UnsupportedFormatError):
        avro_node(described)


def test_depth_is_limited() -> None:
    described: Any = "int"
    for _ in range(MAX_DEPTH - 1):
        described = {"type": "array", "items": described}
    avro_node(described)
    with pytest.raises(UnsupportedFormatError, match="nested"):
        avro_node({"type": "array", "items": described})
