"""Arrow types become canonical or are refused by name; merged schemas lose nothing."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slatespark.encoding.column_list import parse_columns
from slatespark.encoding.column_types import (
    VARIANT,
    all_nullable,
    canonical_schema,
    is_variant,
    list_of,
    map_of,
)
from slatespark.encoding.schema import merge_schemas, schema_of_spark_json, spark_json
from slatespark.encoding.type_names import sql_type
from tests.unit.encoding.test_schema import NTZ, UTC, one

CANONICAL = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(38, 0),
    pa.decimal128(10, 10),
    pa.string(),
    pa.binary(),
    pa.date32(),
    UTC,
    NTZ,
    pa.duration("us"),
    pa.time64("ns"),
    VARIANT,
]


def nested() -> st.SearchStrategy[pa.DataType]:
    def parts(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        flag = st.booleans()
        fields = st.lists(st.tuples(inner, flag), min_size=1, max_size=3)
        return st.one_of(
            st.builds(lambda kind, null: list_of(kind, nullable=null), inner, flag),
            st.builds(
                lambda key, kind, null: map_of(key, kind, nullable=null), st.sampled_from(CANONICAL), inner, flag
            ),
            fields.map(lambda kinds: pa.struct([pa.field(f"f{n}", k, nullable=f) for n, (k, f) in enumerate(kinds)])),
        )

    return st.recursive(st.sampled_from(CANONICAL), parts, max_leaves=6)


@given(nested(), st.booleans())
def test_canonical_types_round_trip_through_json(kind: pa.DataType, nullable: bool) -> None:
    schema = one(kind, nullable=nullable)
    assert canonical_schema(schema).equals(schema)
    found = schema_of_spark_json(json.loads(json.dumps(spark_json(schema))))
    assert found.equals(schema)
    assert is_variant(found.field(0).type) == is_variant(kind)
    assert merge_schemas(schema, schema).equals(schema)
    merged = merge_schemas(all_nullable(schema), schema)
    assert merged.equals(all_nullable(schema))


@given(nested())
def test_a_column_list_says_the_type_that_it_was_made_from(kind: pa.DataType) -> None:
    text = sql_type(pa.field("c", kind))
    [found] = parse_columns(f"c {text} NOT NULL")
    assert (found.name, sql_type(found), found.nullable) == ("c", text, False)
