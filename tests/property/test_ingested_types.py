"""A file of any types is refused by a table of any others, or all its values are read as they were written."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import Any, Final

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from slatespark import SchemaError, SlateStore, SstWriter
from slatespark.encoding.column_types import list_of, map_of
from tests.support.effort import examples

_numbers = count()

FLAT: Final = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 4), pa.string(), pa.binary(), pa.bool_()),
]
NAMES: Final = ["a", "A", "b"]


@st.composite
def structs(draw: st.DrawFn, parts: st.SearchStrategy[pa.DataType]) -> pa.DataType:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique_by=str.lower))
    return pa.struct([pa.field(name, draw(parts), nullable=draw(st.booleans())) for name in names])


TYPES: Final = st.recursive(
    st.sampled_from(FLAT),
    lambda parts: st.one_of(
        st.builds(lambda part, nullable: list_of(part, nullable=nullable), parts, st.booleans()),
        st.builds(lambda part, nullable: map_of(pa.string(), part, nullable=nullable), parts, st.booleans()),
        structs(parts),
    ),
    max_leaves=4,
)


@st.composite
def neighbours(draw: st.DrawFn, kind: pa.DataType) -> pa.DataType:
    """A type of the same shape, mostly; its parts and their nulls may be others."""
    if draw(st.integers(0, 3)) == 0:
        return kind
    if pa.types.is_list(kind):
        return list_of(draw(neighbours(kind.value_type)), nullable=draw(st.booleans()))
    if pa.types.is_map(kind):
        return map_of(pa.string(), draw(neighbours(kind.item_type)), nullable=draw(st.booleans()))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, draw(neighbours(f.type)), nullable=draw(st.booleans())) for f in kind])
    return draw(st.sampled_from(FLAT))


def values(kind: pa.DataType, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    found: st.SearchStrategy[Any]
    if pa.types.is_integer(kind):
        found = st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    elif pa.types.is_floating(kind):
        found = st.floats(allow_nan=False, width=kind.bit_width)
    elif pa.types.is_decimal(kind):
        found = st.integers(-99999, 99999).map(lambda number: Decimal(number).scaleb(-kind.scale))
    elif pa.types.is_boolean(kind):
        found = st.booleans()
    elif pa.types.is_list(kind):
        found = st.lists(values(kind.value_type, nullable=kind.value_field.nullable), max_size=2)
    elif pa.types.is_map(kind):
        found = st.just([]) | values(kind.item_type, nullable=kind.item_field.nullable).map(lambda item: [("k", item)])
    elif pa.types.is_struct(kind):
        found = st.fixed_dictionaries({part.name: values(part.type, nullable=part.nullable) for part in kind})
    else:
        found = st.text(max_size=3) if pa.types.is_string(kind) else st.binary(max_size=3)
    return st.none() | found if nullable else found


def columns(kind: pa.DataType, *, nullable: bool) -> pa.Schema:
    return pa.schema([("id", pa.int64()), pa.field("x", kind, nullable=nullable)])


def padded(value: Any, kind: pa.DataType) -> Any:
    """A value as a type with more fields shows it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        assert {part.name for part in kind} >= value.keys()
        return {part.name: padded(value.get(part.name), part.type) for part in kind}
    if pa.types.is_list(kind):
        return [padded(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(key, padded(each, kind.item_type)) for key, each in value]
    return value


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), value_format=st.sampled_from(["avro", "json"]), merge=st.booleans())
def test_values_of_files(data: st.DataObject, value_format: str, merge: bool) -> None:
    number, old = next(_numbers), data.draw(TYPES)
    new = data.draw(neighbours(old))
    table, file = (columns(kind, nullable=data.draw(st.booleans())) for kind in (old, new))
    kept, ingested = (
        data.draw(values(each.field("x").type, nullable=each.field("x").nullable)) for each in (table, file)
    )
    store = SlateStore.create(f"memory://ingested/{number}", table, "id", valueFormat=value_format)
    store.write(pa.Table.from_pylist([{"id": 2, "x": kept}], table))
    path = f"memory://ingested-files/{number}.sst"
    SstWriter(path, file, "id", valueFormat=value_format).write(pa.Table.from_pylist([{"id": 1, "x": ingested}], file))
    try:
        store.ingest(path, mergeSchema=merge)
    except SchemaError:
        event("refused")
        return
    event("accepted")
    found = store.scan().read_all()
    kind = found.schema.field("x").type
    assert found["x"].to_pylist() == [padded(ingested, kind), padded(kept, kind)]
