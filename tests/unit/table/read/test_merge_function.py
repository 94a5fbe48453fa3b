from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import OptionError, SchemaError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.kernels.columns import GROUP_HEAD, GROUP_REST, PLAIN, Selection
from slatespark.table.read.fold_groups import fold_groups, fold_selection
from slatespark.table.read.merge_function import MergeFunction, fold_rows, resolve_operator
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

times = st.none() | st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1])


@st.composite
def groups(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> list[Row]:
    """Operands from the newest to the oldest, then perhaps a base."""
    key, base = draw(st.binary(max_size=2)), draw(st.sampled_from([None, RowKind.PUT, RowKind.DELETE]))
    kinds = [RowKind.MERGE] * draw(st.integers(1, 4)) + ([] if base is None else [base])
    return [
        Row(
            key,
            seq,
            kind,
            b"" if kind is RowKind.DELETE else draw(values),
            draw(times),
            None if kind is RowKind.DELETE else draw(times),
        )
        for seq, kind in zip(range(9, 0, -1), kinds, strict=False)
    ]


def folded_alone(group: Sequence[Row], fold: MergeFunction, *, keeps_operands: bool) -> Row:
    base = group[-1]
    folded = fold_rows(group[:-1] if base.kind is RowKind.DELETE else group, fold)
    kind = RowKind.MERGE if keeps_operands and base.kind is RowKind.MERGE else RowKind.PUT
    return Row(folded.key, folded.seq, kind, folded.value, folded.create_ts_ms, folded.expire_ts_ms)


def _reversed(existing: bytes | None, operands: list[bytes]) -> bytes:
    return b"".join(operands[::-1]) + (b"nothing" if existing is None else existing)


@pytest.mark.parametrize("operator", ["concat", "sum", "max", "min", pytest.param(_reversed, id="a function")])
@given(data=st.data(), keeps_operands=st.booleans())
def test_many_groups_fold_as_each_alone(
    operator: str | MergeFunction, data: st.DataObject, keeps_operands: bool
) -> None:
    fold = resolve_operator(operator)
    assert fold is not None
    size = 8 if operator in ("sum", "max", "min") else data.draw(st.integers(0, 3))
    found = data.draw(
        st.lists(groups(st.binary(min_size=size if size == 8 else 0, max_size=size)), min_size=1, max_size=5)
    )
    rows = [row for group in found for row in group]
    first = np.array([place == 0 for group in found for place in range(len(group))])
    sources = [rows_to_columns(rows)]
    folded = fold_groups(sources, np.arange(len(rows), dtype=np.int64), first, fold, keeps_operands=keeps_operands)
    assert columns_to_rows(folded) == [folded_alone(group, fold, keeps_operands=keeps_operands) for group in found]


def test_integers_of_another_size_are_refused_among_many() -> None:
    rows = [Row(b"a", 2, RowKind.MERGE, bytes(8)), Row(b"a", 1, value=bytes(8)), Row(b"b", 1, RowKind.MERGE, b"123")]
    first = np.array([True, False, True])
    with pytest.raises(SchemaError, match="bytes"):
        fold_groups([rows_to_columns(rows)], np.arange(3, dtype=np.int64), first, resolve_operator("sum"))
