from __future__ import annotations

import math

import pyarrow as pa

from slatespark.table.columns.nans import NanColumns

LISTS = pa.list_(pa.float32())
STRUCTS = pa.struct([("x", pa.struct([("y", LISTS)]))])
BATCH = pa.record_batch(
    {
        "number": pa.array([1.0, None, math.inf]),
        "nan": pa.array([1.0, math.nan, None]),
        "text": ["nan", None, ""],
        "lists": pa.array([[0.0], None, [math.nan]], LISTS),
        "fine lists": pa.array([[0.0], None, [None]], LISTS),
        "maps": pa.array([[("a", math.nan)], [], None], pa.map_(pa.string(), pa.float64())),
        "structs": pa.array(
            [None, {"x": {"y": [math.nan]}}, {"x": None}], pa.struct([("x", pa.struct([("y", LISTS)]))])
        ),
        "whole lists": pa.array([[1], [], None], pa.list_(pa.int8())),
    }
)


def test_columns_with_nan_be_it_in_a_part() -> None:
    found = NanColumns(BATCH.schema)
    found.add(BATCH.slice(0, 1).drop_columns(["maps"]).append_column("maps", BATCH.column("maps").take([1])))
    assert not found.names
    found.add(BATCH.slice(1, 1))
    found.add(BATCH)
    assert found.names == ("lists", "maps", "nan", "structs")
