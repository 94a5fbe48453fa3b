"""Selected rows as Arrow batches: their limits, types and nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark.errors import SchemaError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels.columns import ROW_BITS, RowColumns
from slatespark.options import ReadOptions
from slatespark.table.read.arrow import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    Projection,
    project,
    row_dict,
)
from slatespark.table.read.materialise import Materialiser

ALL = Projection(("key", "value", "_key", "_seq", "_op", "_create_ts", "_expire_ts"), shows_deletes=True)


def packed(source: int, *positions: int) -> list[int]:
    return [(source << ROW_BITS) + position for position in positions]


def batches(sources: list[RowColumns], rows: list[int], projection: Projection = ALL) -> list[pa.RecordBatch]:
    made = list(Materialiser(projection, None, "", None).batches(sources, np.array(rows, np.int64)))
    for batch in made:
        batch.validate(full=True)
        assert batch.schema == projection.schema
    return made


def wide(lengths: list[int]) -> RowColumns:
    """Rows whose values share one buffer."""
    rows = len(lengths)
    return RowColumns(
        key_bytes=np.zeros(rows, np.uint8),
        key_offsets=np.arange(rows + 1, dtype=np.int64),
        seqs=np.ones(rows, np.uint64),
        flags=np.zeros(rows, np.uint8),
        create_ts=np.zeros(rows, np.int64),
        expire_ts=np.zeros(rows, np.int64),
        value_bytes=np.zeros(max(lengths, default=0), np.uint8),
        value_starts=np.zeros(rows, np.int64),
        value_lengths=np.array(lengths, np.int64),
    )


def test_every_column_and_what_is_absent() -> None:
    one = rows_to_columns(
        [
            Row(b"a", 1, value=b"x", create_ts_ms=1_000, expire_ts_ms=2_000),
            Row(b"b", 2, RowKind.DELETE, create_ts_ms=3_000),
            Row(b"c", 2**63 - 1, RowKind.MERGE),
        ]
    )
    other = rows_to_columns([Row(b"", 5), Row(b"bb", 4, value=b"yy", create_ts_ms=-1)])
    [batch] = batches([one, other], [*packed(0, 0, 1), *packed(1, 1), *packed(0, 2)])
    instants = [value.cast(pa.int64()).to_pylist() for value in (batch["_create_ts"], batch["_expire_ts"])]
    assert batch.to_pydict() | {"_create_ts": instants[0], "_expire_ts": instants[1]} == {
        "key": [b"a", b"b", b"bb", b"c"],
        "value": [b"x", None, b"yy", b""],
        "_key": [b"a", b"b", b"bb", b"c"],
        "_seq": [1, 2, 4, 2**63 - 1],
        "_op": ["put", "delete", "put", "merge"],
        "_create_ts": [1_000_000, 3_000_000, -1000, None],
        "_expire_ts": [2_000_000, None, None, None],
    }


@pytest.mark.parametrize("name", ["key", "value", "_seq", "_op", "_create_ts"])
def test_one_column_alone(name: str) -> None:
    [batch] = batches([rows_to_columns([Row(b"a", 1, value=b"x")])], packed(0, 0), Projection((name,)))
    assert batch.num_rows == 1


def test_no_rows_no_batch() -> None:
    assert batches([rows_to_columns([])], []) == []


@pytest.mark.parametrize(
    ("ms", "us"),
    [
        (0, 0),
        (-1, -1000),
        ((2**63 - 1) // 1000, (2**63 - 1) // 1000 * 1000),
        ((2**63 - 1) // 1000 + 1, (2**63 - 1) // 1000 * 1000),
        (2**63 - 1, (2**63 - 1) // 1000 * 1000),
        (-(2**63), -((2**63 - 1) // 1000 * 1000)),
    ],
)
def test_instants_that_microseconds_cannot_hold_are_the_nearest(ms: int, us: int) -> None:
    columns = rows_to_columns([Row(b"a", 1, create_ts_ms=ms, expire_ts_ms=ms)])
    [batch] = batches([columns], packed(0, 0), Projection(("_create_ts", "_expire_ts")))
    assert [column.cast(pa.int64()).to_pylist() for column in batch.columns] == [[us], [us]]


def test_a_row_as_python_values_keeps_what_the_calendar_has_not() -> None:
    columns = rows_to_columns([Row(b"a", 1, create_ts_ms=0, expire_ts_ms=2**62)])
    [batch] = batches([columns], packed(0, 0))
    row = row_dict(batch)
    assert (row["key"], row["_create_ts"].year) == (b"a", 1970)
    assert row["_expire_ts"] == (2**63 - 1) // 1000


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (MAX_BATCH_ROWS, [MAX_BATCH_ROWS]),
        (MAX_BATCH_ROWS + 1, [MAX_BATCH_ROWS, 1]),
        (2 * MAX_BATCH_ROWS + 7, [MAX_BATCH_ROWS, MAX_BATCH_ROWS, 7]),
    ],
)
def test_batches_have_at_most_64_ki_rows(rows: int, expected: list[int]) -> None:
    made = batches([wide([1] * rows)], packed(0, *range(rows)), Projection(("key", "value")))
    assert [len(batch) for batch in made] == expected


MIB = 1 << 20


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([MAX_BATCH_BYTES - 1], [1]),
        ([MAX_BATCH_BYTES - 2, 0, 0], [2, 1]),  # keys of one byte count too
        ([MAX_BATCH_BYTES * 2, 1, 1], [1, 2]),  # a larger row comes alone
        ([1, MAX_BATCH_BYTES * 2, 1], [1, 1, 1]),
        ([5 * MIB] * 7, [3, 3, 1]),
        ([0] * 10, [10]),
        ([MIB // 1024 - 1] * 20_000, [16384, 3616]),  # many that are alike
        ([MIB] + [0] * 20_000, [20_001]),  # by what they have together, where the longest is an exception
    ],
)
def test_batches_have_at_most_16_mib(lengths: list[int], expected: list[int]) -> None:
    source = wide(lengths)
    made = batches([source], packed(0, *range(len(lengths))), Projection(("key", "value")))
    assert [len(batch) for batch in made] == expected
    narrow = batches([source], packed(0, *range(len(lengths))), Projection(("key",)))
    assert [len(batch) for batch in narrow] == [len(lengths)]  # values that nobody asked for count nothing


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ("key", "value")),
        ({"metadataColumns": "op,seq"}, ("key", "value", "_seq", "_op")),
        ({"columns": "value"}, ("value",)),
        ({"columns": "_seq,key", "metadataColumns": True}, ("_seq", "key")),
        ({"readVersions": "all"}, ("key", "value", "_key", "_seq", "_op", "_create_ts", "_expire_ts")),
    ],
)
def test_projections(given: dict[str, Any], names: tuple[str, ...]) -> None:
    assert project(ReadOptions.parse({"path": "p", **given})).names == names


def test_a_column_that_is_not_offered() -> None:
    with pytest.raises(SchemaError, match="_seq"):
        project(ReadOptions.parse({"path": "p", "columns": "_seq"}))
