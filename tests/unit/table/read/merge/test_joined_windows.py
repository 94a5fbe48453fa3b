from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels.columns import ROW_BITS, RowColumns, key_at
from slatespark.table.read.arrow import SMALL_BATCH_ROWS
from slatespark.table.read.merge import joined_windows
from slatespark.table.read.merge.joined_windows import PackedRows, join_windows
from tests.unit.kernels.rows import packed

SOURCES = [rows_to_columns([Row(b"%d-%d" % (source, row), 1) for row in range(20)]) for source in range(8)]


def keys(window: PackedRows) -> list[bytes]:
    sources, rows = window
    return [key_at(sources, row) for row in rows.tolist()]


def window(sources: list[int], rows: list[tuple[int, int]]) -> PackedRows:
    chosen = [row for source, at in rows for row in packed(source % len(sources), at)]
    return [SOURCES[source] for source in sources], np.array(chosen, np.int64)


windows = st.lists(
    st.builds(
        window,
        st.lists(st.integers(0, 7), min_size=1, max_size=5),  # one may come twice
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 19)), max_size=30),
    ),
    max_size=12,
)


@given(windows, st.integers(1, 60))
def test_joined_windows_have_the_same_rows(given_windows: list[PackedRows], small: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_windows, "SMALL_BATCH_ROWS", small)
        joined = list(join_windows(given_windows))
    assert [key for found in joined for key in keys(found)] == [key for found in given_windows for key in keys(found)]


def test_small_windows_are_one_and_large_ones_stay_as_they_are() -> None:
    big = rows_to_columns([Row(b"%05d" % row, 1) for row in range(SMALL_BATCH_ROWS)])
    large: PackedRows = [big], np.arange(len(big))
    small = window([0, 1], [(0, 1), (1, 2)])
    first, second, *more = join_windows([large, small, small, window([1, 0], [(0, 3)])])
    assert first is large
    assert keys(second) == [b"0-1", b"1-2"] * 2 + [b"1-3"]
    assert len(second[0]) == 2
    assert more == []


def test_waiting_rows_do_not_hold_the_sources_of_a_whole_scan() -> None:
    made: list[RowColumns] = []

    def scan() -> Iterator[PackedRows]:
        for _ in range(100):
            made.append(rows_to_columns([Row(b"k", 1)]))
            yield made[-2:], np.array([(len(made[-2:]) - 1) << ROW_BITS], np.int64)

    joined = list(join_windows(scan()))
    assert max(len(sources) for sources, _ in joined) <= 5
    assert sum(len(rows) for _, rows in joined) == 100
