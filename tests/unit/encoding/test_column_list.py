from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark import SchemaError
from slatespark.encoding.column_list import parse_columns
from slatespark.encoding.column_types import DURATION, TIMESTAMP_NTZ, VARIANT, list_of, map_of


def test_columns() -> None:
    found = parse_columns("id bigint NOT NULL, `my, ``name` String,a DECIMAL(10, 2) not null, t TIMESTAMP_NTZ")
    assert found == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("my, `name", pa.string()),
            pa.field("a", pa.decimal128(10, 2), nullable=False),
            ("t", TIMESTAMP_NTZ),
        ]
    )


def test_nested_columns() -> None:
    found = parse_columns(
        "a array<map<STRING, DECIMAL(5,1)>>, s STRUCT<x: INT, `y z` ARRAY<DATE>>, v VARIANT, i INTERVAL DAY TO SECOND"
    )
    assert found == pa.schema(
        [
            ("a", list_of(map_of(pa.string(), pa.decimal128(5, 1)))),
            ("s", pa.struct([("x", pa.int32()), ("y z", list_of(pa.date32()))])),
            ("v", VARIANT),
            ("i", DURATION),
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id BIGINT,",
        "id NUMBER",
        "BIGINT id",
        "id ARRAY<>",
        "id ARRAY<INT",
        "id ARRAY<INT>>",
        "id MAP<INT>",
        "id STRUCT<x>",
        "id LIST<INT>",
        "id DECIMAL(50)",
        f"id DECIMAL(1{'0' * 30})",
        f"id DECIMAL(10,1{'0' * 30})",
        f"id DECIMAL(1{'0' * 5000})",
        "id DECIMAL(5,1",
        "`id BIGINT",
        "n\udcae STRING",
        f"id {'ARRAY<' * 3000}INT{'>' * 3000}",
    ],
)
def test_what_is_no_column(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_columns(text)
