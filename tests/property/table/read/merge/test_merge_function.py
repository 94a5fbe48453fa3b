from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.table.read.merge.fold_groups import fold_groups
from slatespark.table.read.merge.merge_function import MergeFunction, fold_rows, resolve_operator
from tests.support.row_values import columns_to_rows

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
