"""Several versions of a key in one write become one. Rows of a key are given oldest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from slatespark.errors import InvalidRequestError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.table.read.merge.merge_function import resolve_operator, row_at
from slatespark.table.rows.sorted_rows import one_version_per_key

CONCAT = resolve_operator("concat")


def put(key: bytes, value: bytes, expire_ms: int | None = None) -> Row:
    return Row(key, 7, value=value, expire_ts_ms=expire_ms)


def delete(key: bytes) -> Row:
    return Row(key, 7, RowKind.DELETE)


def operand(key: bytes, value: bytes, expire_ms: int | None = None) -> Row:
    return Row(key, 7, RowKind.MERGE, value, expire_ts_ms=expire_ms)


def reduced(rows: Sequence[Row], *, has_operator: bool = True) -> list[Row]:
    sources, kept = one_version_per_key(
        [rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64), CONCAT if has_operator else None
    )
    return [row_at(sources, row) for row in kept.tolist()]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([put(b"a", b"1")], [put(b"a", b"1")], id="one row"),
        pytest.param(
            [put(b"a", b"1"), put(b"a", b"2"), put(b"b", b"3")], [put(b"a", b"2"), put(b"b", b"3")], id="last"
        ),
        pytest.param([put(b"a", b"1"), delete(b"a")], [delete(b"a")], id="a delete wins"),
        pytest.param([operand(b"a", b"1"), put(b"a", b"2")], [put(b"a", b"2")], id="an upsert hides operands"),
        pytest.param([operand(b"a", b"1"), operand(b"a", b"2")], [operand(b"a", b"12")], id="operands stay operands"),
        pytest.param([put(b"a", b"0"), operand(b"a", b"1")], [put(b"a", b"01")], id="onto a value"),
        pytest.param([delete(b"a"), operand(b"a", b"1")], [put(b"a", b"1")], id="onto nothing"),
        pytest.param(
            [operand(b"a", b"0"), delete(b"a"), operand(b"a", b"1"), operand(b"a", b"2")],
            [put(b"a", b"12")],
            id="what a delete hides does not count",
        ),
        pytest.param(
            [put(b"a", b"1"), put(b"a", b"2"), operand(b"b", b"x"), operand(b"b", b"y"), put(b"c", b"3")],
            [put(b"a", b"2"), operand(b"b", b"xy"), put(b"c", b"3")],
            id="each key on its own, in order",
        ),
        pytest.param([operand(b"a", b"1", 50), operand(b"a", b"2", 50)], [operand(b"a", b"12", 50)], id="same expiry"),
        pytest.param([delete(b"a"), operand(b"a", b"2", 50)], [put(b"a", b"2", 50)], id="a delete has no expiry"),
    ],
)
def test_one_version_of_each_key(rows: list[Row], expected: list[Row]) -> None:
    assert reduced(rows) == expected


def test_a_single_operand_needs_no_operator() -> None:
    rows = [operand(b"a", b"1"), put(b"b", b"1"), put(b"b", b"2")]
    assert reduced(rows, has_operator=False) == [operand(b"a", b"1"), put(b"b", b"2")]


@pytest.mark.parametrize(
    ("rows", "has_operator", "word"),
    [
        ([operand(b"a", b"1"), operand(b"a", b"2")], False, "operator"),
        ([delete(b"a"), operand(b"a", b"2")], False, "operator"),
        ([operand(b"a", b"1"), operand(b"a", b"2", 50)], True, "expire"),
        ([put(b"a", b"1", 49), operand(b"a", b"2", 50)], True, "expire"),
    ],
)
def test_operands_that_cannot_be_folded(rows: list[Row], has_operator: bool, word: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"Key 61 .*{word}"):
        reduced(rows, has_operator=has_operator)


def test_times_may_separate_versions_of_one_key() -> None:
    rows = [put(b"a", b"1"), put(b"a", b"2"), put(b"a", b"3")]
    sources, kept = one_version_per_key(
        [rows_to_columns(rows)], np.arange(3), None, first=np.array([True, False, True])
    )
    assert [row_at(sources, row).value for row in kept.tolist()] == [b"2", b"3"]
