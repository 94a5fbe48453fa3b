"""Rows on their way to a task arrive as they were."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.table.read.planning.sent_rows import MOST_NUMBER_BYTES, NarrowNumbers, SentRows
from tests.support.row_values import columns_to_rows

ENDS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
NUMBERS = st.one_of(st.sampled_from(ENDS), st.integers(-(2**63), 2**63 - 1), st.integers(0, 70_000))
TIMES = st.one_of(st.none(), NUMBERS.filter(bool))
KEYS, VALUES = st.binary(max_size=300), st.binary(max_size=300)
SEQS = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 300))
KINDS = st.sampled_from([RowKind.PUT, RowKind.MERGE])
ROWS = st.one_of(
    st.builds(Row, KEYS, SEQS, KINDS, VALUES, create_ts_ms=TIMES, expire_ts_ms=TIMES),
    st.builds(Row, KEYS, SEQS, st.just(RowKind.DELETE), create_ts_ms=TIMES),
)


@given(st.lists(ROWS, max_size=20))
def test_rows_arrive_as_they_were(rows: list[Row]) -> None:
    columns = rows_to_columns(rows)
    assert columns_to_rows(pickle.loads(pickle.dumps(SentRows.of(columns))).rows()) == columns_to_rows(columns)


@given(st.lists(NUMBERS, max_size=20))
def test_numbers_arrive_as_they_were(numbers: list[int]) -> None:
    given = np.array(numbers, np.int64)
    found = NarrowNumbers.of(given).values(np.int64)
    assert (found.dtype, found.tolist()) == (np.dtype(np.int64), numbers)
    unsigned = given.view(np.uint64)
    assert NarrowNumbers.of(unsigned).values(np.uint64).tolist() == unsigned.tolist()


@pytest.mark.parametrize(
    ("numbers", "width"),
    [
        ([], 0),
        ([7], 0),
        ([-5, -5, -5], 0),
        ([-5, 250], 1),
        ([-5, 251], 2),
        ([2**60, 2**60 + 2**16 - 1], 2),
        ([0, 2**16], 4),
        ([-1, 2**32 - 2], 4),
        ([-1, 2**32 - 1], 8),
        (ENDS, 8),
    ],
)
def test_a_column_is_as_wide_as_its_span_needs(numbers: list[int], width: int) -> None:
    assert NarrowNumbers.of(np.array(numbers, np.int64)).above.nbytes == width * len(numbers)


def test_no_row_takes_more_than_is_reckoned_with() -> None:
    ends = [(0, -(2**63), 2**63 - 1), (2**64 - 1, 2**63 - 1, -(2**63))] * 500
    sent = SentRows.of(
        rows_to_columns([Row(b"", seq, create_ts_ms=created, expire_ts_ms=ending) for seq, created, ending in ends])
    )
    assert len(pickle.dumps(sent)) < MOST_NUMBER_BYTES * len(ends)
