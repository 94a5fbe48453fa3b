from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.errors import OptionError, SchemaError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.kernels.columns import GROUP_HEAD, GROUP_REST, HAS_CREATE, HAS_EXPIRE, PLAIN, Selection
from slatespark.table.read.merge.fold_groups import fold_groups, fold_selection
from slatespark.table.read.merge.merge_function import fold_rows, resolve_operator
from tests.support.row_values import columns_to_rows


def i64(*numbers: int) -> list[bytes]:
    return [number.to_bytes(8, "little", signed=True) for number in numbers]


@pytest.mark.parametrize(
    ("name", "existing", "operands", "result"),
    [
        ("concat", b"a", [b"b", b"c"], b"abc"),
        ("concat", None, [b"b", b""], b"b"),
        ("sum", None, i64(1, -5), i64(-4)[0]),
        ("sum", i64(2**62)[0], i64(2**62), i64(-(2**63))[0]),  # wraps
        ("sum", (2**64 - 1).to_bytes(8, "little"), i64(2), i64(1)[0]),  # unsigned does so too
        ("max", i64(-3)[0], i64(-7, -5), i64(-3)[0]),
        ("min", i64(-3)[0], i64(-7, 9), i64(-7)[0]),
        ("min", None, i64(9), i64(9)[0]),
    ],
)
def test_built_in_operators(name: str, existing: bytes | None, operands: list[bytes], result: bytes) -> None:
    fold = resolve_operator(name)
    assert fold is not None
    assert fold(existing, operands) == result


@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_integers_have_eight_bytes(name: str) -> None:
    fold = resolve_operator(name)
    assert fold is not None
    with pytest.raises(SchemaError, match="bytes"):
        fold(b"123", i64(1))


def test_operators_by_name_and_by_value() -> None:
    assert resolve_operator(None) is None
    assert resolve_operator(_first) is _first
    assert resolve_operator("json:dumps") is not None


@pytest.mark.parametrize(
    ("name", "problem"),
    [("nosuch", "unknown"), ("nosuch:f", "imported"), ("json:nosuch", "imported"), ("json:__doc__", "function")],
)
def test_operators_that_are_none(name: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        resolve_operator(name)


def _first(existing: bytes | None, operands: list[bytes]) -> bytes:
    return existing or operands[0]


def test_a_group_takes_the_newest_seq_the_latest_creation_and_the_earliest_expiry() -> None:
    group = [
        Row(b"k", 9, RowKind.MERGE, b"3", create_ts_ms=5, expire_ts_ms=None),
        Row(b"k", 7, RowKind.MERGE, b"2", create_ts_ms=8, expire_ts_ms=100),
        Row(b"k", 1, RowKind.PUT, b"1", create_ts_ms=None, expire_ts_ms=90),
    ]
    fold = resolve_operator("concat")
    assert fold_rows(group, fold) == Row(b"k", 9, value=b"123", create_ts_ms=8, expire_ts_ms=90)
    assert fold_rows(group[:1], fold) == Row(b"k", 9, value=b"3", create_ts_ms=5)
    with pytest.raises(OptionError, match="mergeOperator"):
        fold_rows(group, None)


@pytest.mark.parametrize("error", [ValueError("no number"), KeyError(b"x"), StopIteration()], ids=repr)
def test_an_operator_that_fails_is_named_with_the_key(error: Exception) -> None:
    def fails(existing: bytes | None, operands: list[bytes]) -> bytes:
        raise error

    operands = [Row(b"a", 2 - at, RowKind.MERGE, b"x") for at in range(2)]
    sources, rows, first = [rows_to_columns(operands)], np.arange(2), np.array([True, False])
    for fold in (lambda: fold_groups(sources, rows, first, fails), lambda: fold_rows(operands, fails)):
        with pytest.raises(OptionError, match=f"mergeOperator: for key 61 .* {type(error).__name__}") as caught:
            fold()
        assert caught.value.__cause__ is error


@pytest.mark.parametrize("made", [np.array([5], "<i8"), np.int64(5), "text", None, 5, [b"a"]])
def test_an_operator_returns_bytes_and_nothing_that_is_like_them(made: Any) -> None:
    """The length of an array is not that of its bytes, so values behind it would be cut in the wrong places."""
    operands = [Row(key, 2 - at, RowKind.MERGE, b"x") for key in (b"a", b"b") for at in range(2)]
    first = np.array([True, False, True, False])
    with pytest.raises(OptionError, match="61 the function returned an object of the type"):
        fold_groups([rows_to_columns(operands)], np.arange(4), first, lambda existing, operands: made)
    with pytest.raises(OptionError, match="61 the function returned an object of the type"):
        fold_rows(operands[:2], lambda existing, operands: made)


@pytest.mark.parametrize("made", [bytearray(b"abc"), memoryview(b"abc"), np.array([5], "<i8").data])
def test_buffers_of_bytes_are_taken_whole(made: Any) -> None:
    operands = [Row(key, 1, RowKind.MERGE, b"x") for key in (b"a", b"b")]
    folded = fold_groups([rows_to_columns(operands)], np.arange(2), np.array([True, True]), lambda *_: made)
    assert [row.value for row in columns_to_rows(folded)] == [bytes(made)] * 2
    assert fold_rows(operands[:1], lambda *_: made).value == bytes(made)


def test_groups_next_to_each_other_and_plain_rows() -> None:
    rows = [
        Row(b"a", 1, value=b"plain"),
        Row(b"b", 3, RowKind.MERGE, b"b3"),
        Row(b"b", 2, RowKind.MERGE, b"b2"),
        Row(b"c", 3, RowKind.MERGE, b"c3"),
        Row(b"c", 1, value=b"c1"),
        Row(b"d", 1, value=b"plain"),
        Row(b"e", 4, RowKind.MERGE, b"e4"),
    ]
    marks = [PLAIN, GROUP_HEAD, GROUP_REST, GROUP_HEAD, GROUP_REST, PLAIN, GROUP_HEAD]
    selection = Selection(np.arange(len(rows), dtype=np.int64), np.array(marks, np.uint8))
    sources, folded = fold_selection([rows_to_columns(rows)], selection, resolve_operator("concat"))
    assert not folded.marks.any()
    found = columns_to_rows(take_rows(sources, folded.rows))
    assert [(row.key, row.value, row.seq) for row in found] == [
        (b"a", b"plain", 1),
        (b"b", b"b2b3", 3),
        (b"c", b"c1c3", 3),
        (b"d", b"plain", 1),
        (b"e", b"e4", 4),
    ]
    assert {row.kind for row in found} == {RowKind.PUT}


# --- many groups at a time ------------------------------------------------------------------------------------------


def test_integers_of_another_size_are_refused_among_many() -> None:
    rows = [Row(b"a", 2, RowKind.MERGE, bytes(8)), Row(b"a", 1, value=bytes(8)), Row(b"b", 1, RowKind.MERGE, b"123")]
    first = np.array([True, False, True])
    with pytest.raises(SchemaError, match="bytes"):
        fold_groups([rows_to_columns(rows)], np.arange(3, dtype=np.int64), first, resolve_operator("sum"))


def test_a_deletion_below_operands_gives_them_no_time() -> None:
    rows = rows_to_columns([Row(b"a", 2, RowKind.MERGE, b"2"), Row(b"a", 1, RowKind.DELETE)])
    rows.flags[1] |= HAS_CREATE | HAS_EXPIRE  # whatever a writer says of the end of a deletion
    rows.create_ts[1], rows.expire_ts[1] = 7, 9
    first = np.array([True, False])
    folded = fold_groups([rows], np.arange(2, dtype=np.int64), first, resolve_operator("concat"))
    assert columns_to_rows(folded) == [Row(b"a", 2, value=b"2")]
