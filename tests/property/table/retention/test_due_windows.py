from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.table.retention.due_windows import DueWindow


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=2, max_size=7),
    st.integers(1, 3),
    st.integers(0, 1),
    st.integers(0, 1),
)
@example([[False], [True, True, True], [False]], 1, 1, 1)
def test_pieces_have_whole_keys_and_few_due_rows(keys: list[list[bool]], most: int, left: int, right: int) -> None:
    """Each key has versions that are due or not; those of the first and the last may lie outside."""
    rows = [
        Row(b"%d" % number, len(versions) - at, RowKind.PUT, b"", 1, None)
        for number, versions in enumerate(keys)
        for at in range(len(versions))
    ]
    low, high = left * len(keys[0]), len(rows) - right * len(keys[-1])
    due = [
        at for at, is_due in enumerate(each for versions in keys for each in versions) if is_due and low <= at < high
    ]
    window = DueWindow(rows_to_columns(rows), low, high, 0, 1, 100, False, False, np.array(due, np.int64))
    pieces = list(window.pieces(most))
    assert [piece.low for piece in pieces] == [low, *(piece.high for piece in pieces[:-1])]
    assert pieces[-1].high == high
    for piece in pieces:
        assert piece.due.tolist() == [at for at in due if piece.low <= at < piece.high]
        assert len(piece.due) <= most or len({rows[at].key for at in piece.due}) == 1
    filled = [piece for piece in pieces if piece.low < piece.high]
    for piece, other in pairwise(filled):
        assert rows[piece.high - 1].key < rows[other.low].key
        opening = [at for at in other.due if rows[at].key == rows[other.due[0]].key]
        assert len(piece.due) + len(opening) > most, "the next key would have fitted"
    assert all(not piece.due.size for piece in pieces if piece.low == piece.high)
