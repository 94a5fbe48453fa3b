"""Avro values are byte for byte those of fastavro, and nothing else is taken for one."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slatespark.encoding.avro_schema import avro_name, avro_schema, column_name, fingerprint
from slatespark.encoding.avro_value import FINE, MALFORMED, decode_avro_values, encode_avro_values
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.encoding.json_value import decode_json_values, encode_json_values
from slatespark.errors import InternalError, SchemaError
from tests.unit.encoding.columns_and_rows import (
    cut,
    datum_of,
    plain_schema,
    read_with_fastavro,
    rows_of,
    written_by_fastavro,
)

Kind = Any
INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-130, 130)
TEXT = st.text(max_size=5) | st.text(max_size=100)
FLOAT32 = st.floats(width=32)


def decimals(kind: Kind) -> st.SearchStrategy[Any]:
    largest = 10**kind.precision - 1
    unscaled = st.integers(-largest, largest) | st.integers(-9, 9) | st.sampled_from([largest, -largest])
    return unscaled.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -kind.scale)))


FLAT: dict[Kind, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): INT64,
    pa.float32(): FLOAT32,
    pa.float64(): st.floats(),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=40),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.timestamp("us", "UTC"): INT64,
    pa.timestamp("us"): INT64,
    pa.duration("us"): INT64,
    pa.time64("ns"): st.integers(0, 86_399_999_999).map(lambda micros: micros * 1000),
    **{kind: decimals(kind) for kind in (pa.decimal128(1, 0), pa.decimal128(18, 18), pa.decimal128(38, 6))},
}

names = st.text(min_size=1, max_size=6).filter(lambda name: name.isprintable()) | st.sampled_from(
    ["a", "b c", "_x0020_", "1", "é", "value", "item"]
)
flat_kinds = st.sampled_from(list(FLAT))


def struct_of(parts: list[tuple[str, Kind, bool]]) -> Kind:
    return pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in parts])


def with_parts(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    part = st.tuples(names, inner, st.booleans())
    return st.one_of(
        st.builds(lambda kind, nullable: list_of(kind, nullable=nullable), inner, st.booleans()),
        st.builds(
            lambda key, kind, nullable: map_of(key, kind, nullable=nullable),
            st.sampled_from([pa.string(), pa.int32(), pa.date32()]),
            inner,
            st.booleans(),
        ),
        st.lists(part, min_size=1, max_size=3, unique_by=lambda given: given[0]).map(struct_of),
        st.just(VARIANT),
    )


kinds = flat_kinds | with_parts(st.recursive(flat_kinds, with_parts, max_leaves=4))


def values_of(kind: Kind, *, nullable: bool) -> st.SearchStrategy[Any]:
    found = decimals(kind) if pa.types.is_decimal128(kind) else FLAT.get(kind)
    if pa.types.is_list(kind):
        found = st.lists(values_of(kind.value_type, nullable=kind.value_field.nullable), max_size=3)
    elif pa.types.is_map(kind):
        pair = st.tuples(
            values_of(kind.key_type, nullable=False), values_of(kind.item_type, nullable=kind.item_field.nullable)
        )
        found = st.lists(pair, max_size=3, unique_by=lambda given: given[0])
    elif pa.types.is_struct(kind):
        found = st.fixed_dictionaries({part.name: values_of(part.type, nullable=part.nullable) for part in kind})
    assert found is not None
    return st.none() | found if nullable else found


@st.composite
def tables(draw: st.DrawFn, kinds: st.SearchStrategy[Kind] = kinds) -> tuple[list[Any], list[list[Any]]]:
    """Fields, and the plain values of each column."""
    named = draw(st.lists(st.tuples(names, kinds, st.booleans()), max_size=6, unique_by=lambda given: given[0]))
    count = draw(st.integers(1, 5))
    fields = [pa.field(name, kind, nullable=nullable) for name, kind, nullable in named]
    rows = [
        draw(st.lists(values_of(item.type, nullable=item.nullable), min_size=count, max_size=count)) for item in fields
    ]
    return fields, rows


def arrays_of(fields: list[Any], columns: list[list[Any]]) -> list[Any]:
    return [pa.array(column, item.type) for item, column in zip(fields, columns, strict=True)]


def encoded(fields: list[Any], columns: list[list[Any]]) -> list[bytes]:
    count = len(columns[0]) if columns else 1
    return cut(encode_avro_values(arrays_of(fields, columns), fields, avro_schema(fields), count=count))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables())
def test_values_are_those_of_fastavro(table: tuple[list[Any], list[list[Any]]]) -> None:
    fields, columns = table
    schema = avro_schema(fields)
    values = encoded(fields, columns)
    head = b"\xc3\x01" + struct.pack("<Q", fingerprint(schema))
    for number, value in enumerate(values):
        datum = {
            avro_name(item.name): datum_of(item.type, column[number])
            for item, column in zip(fields, columns, strict=True)
        }
        assert value == head + written_by_fastavro(datum, schema)
        assert repr(read_with_fastavro(value, schema)) == repr(datum)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables(), st.data())
def test_what_was_written_is_read(table: tuple[list[Any], list[list[Any]]], data: st.DataObject) -> None:
    fields, columns = table
    values = encoded(fields, columns)
    wanted = data.draw(st.permutations([item.name for item in fields]))[: data.draw(st.integers(0, len(fields)))]
    schema = avro_schema(fields)
    writers = {fingerprint(schema): schema}
    found, status = decode_avro_values(*rows_of(values), writers=writers, fields=fields, wanted=wanted)
    assert status.tolist() == [FINE] * len(values)
    assert list(found) == wanted
    kept = [number for number, item in enumerate(fields) if item.name in wanted]
    some = [fields[number] for number in kept]
    again = cut(encode_avro_values([found[item.name] for item in some], some, avro_schema(some), count=len(values)))
    assert again == encoded(some, [columns[number] for number in kept]) or not kept
    for item in some:
        found[item.name].validate(full=True)


# --- evolution --------------------------------------------------------------------------------------------------------

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
WIDER = {
    pa.int8(): [pa.int16(), pa.int32(), pa.int64(), pa.float64()],
    pa.int16(): [pa.int32(), pa.int64(), pa.float64()],
    pa.int32(): [pa.int64(), pa.float64()],
    pa.float32(): [pa.float64()],
    pa.decimal128(1, 0): [pa.decimal128(38, 0)],
    pa.decimal128(18, 18): [pa.decimal128(38, 18)],
}


def evolve(draw: st.DrawFn, fields: list[Any], fresh: list[str]) -> list[Any]:
    """Return the next generation of a table: a column dropped, one widened or made nullable, one or two added."""
    fields = [item for item in fields if draw(st.integers(0, 4))] or fields[:1]
    changed = [
        pa.field(item.name, draw(st.sampled_from([item.type, *WIDER.get(item.type, [])])), nullable=item.nullable)
        for item in fields
    ]
    changed = [item.with_nullable(True) if draw(st.booleans()) else item for item in changed]
    added = [pa.field(fresh.pop(), draw(kinds), nullable=True) for _ in range(draw(st.integers(0, 2)))]
    return draw(st.permutations(changed + added))


@st.composite
def generations(draw: st.DrawFn) -> list[tuple[list[Any], list[list[Any]]]]:
    fresh = [f"column {number}" for number in range(30)]
    fields = [pa.field(fresh.pop(), kind, nullable=draw(st.booleans())) for kind in (*INTEGERS, *WIDER, pa.string())]
    fields = draw(st.permutations(fields))[:4]
    history = []
    for _ in range(5):
        rows = [draw(st.lists(values_of(item.type, nullable=item.nullable), min_size=2, max_size=2)) for item in fields]
        history.append((fields, rows))
        fields = evolve(draw, fields, fresh)
    return history


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(generations(), st.randoms(use_true_random=False))
def test_rows_of_five_generations_under_the_last(history: list[tuple[list[Any], list[list[Any]]]], random: Any) -> None:
    newest = [item.with_nullable(True) for item in history[-1][0]]
    rows: list[tuple[bytes, dict[str, Any]]] = []
    writers = {}
    for fields, columns in history:
        schema = avro_schema(fields)
        writers[fingerprint(schema)] = schema
        for number, value in enumerate(encoded(fields, columns)):
            old = {item.name: column[number] for item, column in zip(fields, columns, strict=True)}
            rows.append((value, {item.name: promoted(old.get(item.name), item.type) for item in newest}))
    random.shuffle(rows)
    wanted = [item.name for item in newest]
    found, status = decode_avro_values(
        *rows_of([value for value, _ in rows]), writers=writers, fields=newest, wanted=wanted
    )
    assert not status.any()
    expected = [[row[name] for _, row in rows] for name in wanted]
    assert cut(encode_avro_values([found[name] for name in wanted], newest, avro_schema(newest))) == encoded(
        newest, expected
    )


def promoted(value: Any, kind: Kind) -> Any:
    return float(value) if value is not None and pa.types.is_floating(kind) else value


# --- bytes of anybody -------------------------------------------------------------------------------------------------


@st.composite
def mutated(draw: st.DrawFn, values: list[bytes]) -> list[bytes]:
    changed = []
    for value in values:
        data = bytearray(value)
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(8, max(8, len(data))))
            cut_out = draw(st.integers(0, 3))
            data[at : at + cut_out] = draw(st.binary(max_size=3) | st.sampled_from([b"\xff" * 9, b"\x80", b"\x01"]))
        changed.append(bytes(data))
    return changed


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables(), st.data())
def test_other_bytes_are_refused_or_are_what_fastavro_reads(
    table: tuple[list[Any], list[list[Any]]], data: st.DataObject
) -> None:
    fields, columns = table
    values = data.draw(mutated(encoded(fields, columns)))
    schema = avro_schema(fields)
    wanted = [item.name for item in fields]
    writers = {fingerprint(schema): schema}
    found, status = decode_avro_values(*rows_of(values), writers=writers, fields=fields, wanted=wanted)
    for name in wanted:
        found[name].validate(full=True)
    if not fields:
        return
    again = cut(
        encode_avro_values(
            [found[name] for name in wanted],
            [item.with_nullable(True) for item in fields],
            avro_schema([item.with_nullable(True) for item in fields]),
        )
    )
    for value, good, one in zip(values, status.tolist(), again, strict=True):
        if good == FINE:
            every = avro_schema([item.with_nullable(True) for item in fields])
            assert same_datum(read_with_fastavro(one, every), read_with_fastavro(value, schema))


def same_datum(left: Any, right: Any) -> bool:
    """Tell whether two Avro objects are equal; decimals may have had more bytes than they need."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_datum(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_datum, left, right))
    if isinstance(left, bytes) and left != right:
        return int.from_bytes(left, "big", signed=True) == int.from_bytes(right, "big", signed=True)
    return repr(left) == repr(right)


# --- names and JSON ---------------------------------------------------------------------------------------------------


@given(st.text(min_size=1) | st.text("_x0019AFé", min_size=1))
def test_names_are_reversible_and_allowed(name: str) -> None:
    escaped = avro_name(name)
    assert column_name(escaped) == name
    assert escaped.isascii()
    assert escaped.isidentifier()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables())
def test_json_round_trip(table: tuple[list[Any], list[list[Any]]]) -> None:
    fields, columns = table
    assume(fields)
    try:
        values = cut(encode_json_values(arrays_of(fields, columns), fields))
    except SchemaError:  # there is no date that far back
        assume(not any(str(-(2**63)) in repr(column) for column in columns))
        raise
    found, status = decode_json_values(*rows_of(values), fields=fields, wanted=[item.name for item in fields])
    assert not status.any()
    nullable = [item.with_nullable(True) for item in fields]
    schema = avro_schema(nullable)
    again = cut(encode_avro_values(list(found.values()), nullable, schema))
    for one, other in zip(again, encoded(nullable, columns), strict=True):  # JSON has one NaN
        assert repr(read_with_fastavro(one, schema)) == repr(read_with_fastavro(other, schema))


@given(
    st.lists(
        st.binary(max_size=30)
        | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda value: repr(value).encode()),
        min_size=1,
        max_size=5,
    )
)
def test_json_of_anybody(values: list[bytes]) -> None:
    fields = [pa.field("a", kind) for kind in (pa.int8(),)]
    found, status = decode_json_values(*rows_of(values), fields=fields, wanted=["a"])
    assert len(found["a"]) == len(status) == len(values)
    assert set(status.tolist()) <= {FINE, MALFORMED}


def test_a_number_of_rows_without_columns_of_the_value() -> None:
    schema = avro_schema([])
    values = cut(encode_avro_values([], [], schema, count=3))
    assert values == [b"\xc3\x01" + struct.pack("<Q", fingerprint(schema))] * 3
    with pytest.raises(InternalError, match="count"):
        encode_avro_values([], [], schema)
    assert np.array_equal(
        decode_avro_values(*rows_of(values), writers={fingerprint(schema): schema}, fields=[], wanted=[])[1], [0, 0, 0]
    )


def test_plain_schemas_have_the_same_fingerprint() -> None:
    fields = [pa.field("a", pa.timestamp("us")), pa.field("b", list_of(pa.decimal128(3, 1)))]
    assert fingerprint(plain_schema(avro_schema(fields))) == fingerprint(avro_schema(fields))
