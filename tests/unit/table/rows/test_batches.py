"""Input rows as batches of one schema, in groups that fit a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

from slatespark.errors import SchemaError
from slatespark.table.rows.batches import ROW_OVERHEAD_BYTES, as_batches, group_batches, require_schema

ROW_BYTES = 8 + ROW_OVERHEAD_BYTES  # of a row with one number


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


@pytest.mark.parametrize(
    "given",
    [
        lambda: batch(1, 2),
        lambda: [batch(1), batch(2)],
        lambda: iter([batch(1), batch(2)]),
        lambda: pa.Table.from_batches([batch(1), batch(2)]),
        lambda: pa.RecordBatchReader.from_batches(batch(1).schema, [batch(1), batch(2)]),
        lambda: dataset([batch(1), batch(2)]),
        lambda: pl.DataFrame({"n": [1, 2]}),
        lambda: pytest.importorskip("pandas").DataFrame({"n": [1, 2]}),
        lambda: duckdb.sql("SELECT n::BIGINT AS n FROM (VALUES (1), (2)) AS t(n)"),
    ],
    ids=["batch", "list", "iterator", "table", "reader", "dataset", "polars", "pandas", "duckdb"],
)
def test_anything_with_columns(given: Callable[[], Any]) -> None:
    schema, rows = as_batches(given())
    assert (schema.names, schema.types) == (["n"], [pa.int64()])
    assert [number for part in rows for number in part.column("n").to_pylist()] == [1, 2]


def test_an_index_of_pandas_is_a_column_if_it_has_a_name() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"id": [1, 2, 3], "n": [4, 5, 6]})
    named = frame.set_index("id")
    for given, names in ((frame[frame.n > 4], ["id", "n"]), (named[named.n > 4], ["n", "id"])):
        schema, parts = as_batches(given)
        assert schema.names == names
        assert pa.Table.from_batches(parts, schema).select(["id", "n"]).to_pylist() == [
            {"id": 2, "n": 5},
            {"id": 3, "n": 6},
        ]
    assert as_batches(pl.DataFrame({"__index_level_0__": [1]}))[0].names == ["__index_level_0__"]


@pytest.mark.parametrize("given", [lambda rows: rows, pa.table, lambda rows: pa.table(rows).to_batches()])
def test_text_of_polars_can_be_filtered(given: Callable[[pl.DataFrame], Any]) -> None:
    frame = pl.DataFrame({"t": ["a", "b"], "raw": [b"a", b"b"], "list": [["a"], []], "part": [{"x": "a"}, {"x": "b"}]})
    schema, parts = as_batches(given(frame))
    found = pa.Table.from_batches(parts)
    assert found.schema == schema
    assert found.filter(pa.array([False, True])).to_pylist() == frame.to_dicts()[1:]


def test_an_empty_table_still_has_columns() -> None:
    schema, rows = as_batches(batch(1).schema.empty_table())
    assert (schema, sum(len(part) for part in rows)) == (batch(1).schema, 0)


@pytest.mark.parametrize("given", [[], None, 5, "text", [{"n": 1}], {"n": [1]}, pa.array([1])])
def test_an_object_without_columns(given: Any) -> None:
    with pytest.raises(SchemaError, match="no columns"):
        as_batches(given)


def test_a_column_alone_is_no_row() -> None:
    with pytest.raises(SchemaError, match="ChunkedArray"):
        as_batches(pa.chunked_array([[1]]))


@pytest.mark.parametrize(
    "other",
    [
        pa.record_batch({"m": pa.array([1], pa.int64())}),
        pa.record_batch({"n": pa.array([1], pa.int32())}),
        pa.record_batch({"n": pa.array([1], pa.int64()), "more": pa.array([1])}),
        pa.table({"n": [1]}),
    ],
    ids=["name", "type", "count", "not a batch"],
)
def test_every_batch_has_the_columns_of_the_first(other: Any) -> None:
    found = require_schema([batch(1), batch(), other], batch(1).schema)
    assert (next(found), next(found)) == (batch(1), batch())
    with pytest.raises(SchemaError) as refused:
        next(found)
    assert not refused.value.why


def test_comments_and_nullability_may_differ() -> None:
    field = pa.field("n", pa.int64(), nullable=False, metadata={"comment": "x"})
    other = pa.record_batch([pa.array([1])], schema=pa.schema([field]))
    assert list(require_schema([other], batch(1).schema)) == [batch(1)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string_view()])
def test_batches_of_which_some_are_nullable(kind: pa.DataType) -> None:
    one, other = (
        pa.record_batch([pa.array(["1"]).cast(kind)], schema=pa.schema([pa.field("n", kind, nullable=nullable)]))
        for nullable in (False, True)
    )
    for given in ([one, other], [other, one]):
        schema, parts = as_batches(given)
        assert pa.Table.from_batches(require_schema(parts, schema), schema).num_rows == 2
        assert schema.field("n").nullable == given[0].schema.field("n").nullable
    schema, parts = as_batches([one, pa.record_batch({"n": pa.nulls(1, kind)})])
    with pytest.raises(SchemaError, match="n of a batch has nulls"):
        list(require_schema(parts, schema))


@pytest.mark.parametrize(
    "kind",
    [
        lambda nullable: pa.struct([pa.field("x", pa.int64(), nullable=nullable)]),
        lambda nullable: pa.list_(pa.field("item", pa.int64(), nullable=nullable)),
        lambda nullable: pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=nullable)),
    ],
    ids=["struct", "list", "map"],
)
def test_batches_of_which_some_have_nullable_parts(kind: Callable[[bool], pa.DataType]) -> None:
    one, other = (pa.record_batch({"n": pa.nulls(1, kind(nullable))}) for nullable in (False, True))
    with pytest.raises(SchemaError, match="whether a part of a column may be null"):
        list(require_schema([one, other], one.schema))


# --- groups ---------------------------------------------------------------------------------------------------------


def grouped(
    batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch], rows: float
) -> list[tuple[list[list[int]], bool]]:
    """Groups for a buffer of so many rows."""
    return [
        ([part.column("n").to_pylist() for part in held], is_last)
        for held, is_last in group_batches(batches, int(rows * ROW_BYTES))
    ]


@pytest.mark.parametrize(
    ("batches", "rows", "expected"),
    [
        pytest.param([], 3, [], id="nothing"),
        pytest.param([batch()], 3, [], id="a batch without rows"),
        pytest.param([batch(1, 2), batch(3)], 3, [([[1, 2], [3]], True)], id="exactly full"),
        pytest.param([batch(1, 2), batch(3, 4)], 3, [([[1, 2]], False), ([[3, 4]], True)], id="one too many"),
        pytest.param(
            [batch(1), batch(2), batch(3), batch(4), batch(5)],
            2,
            [([[1], [2]], False), ([[3], [4]], False), ([[5]], True)],
            id="a new group is empty",
        ),
        pytest.param([batch(1, 2), batch(), batch(3)], 3, [([[1, 2], [3]], True)], id="an empty one between"),
        pytest.param([batch(1, 2, 3, 4)], 2, [([[1, 2]], False), ([[3, 4]], True)], id="cut in halves"),
        pytest.param([batch(1, 2, 3)], 2, [([[1, 2]], False), ([[3]], True)], id="cut unevenly"),
        pytest.param([batch(1, 2)], 0.5, [([[1]], False), ([[2]], True)], id="a row larger than the buffer"),
    ],
)
def test_groups_fit_the_buffer(
    batches: list[pa.RecordBatch], rows: float, expected: list[tuple[list[list[int]], bool]]
) -> None:
    assert grouped(batches, rows) == expected
