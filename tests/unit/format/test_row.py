from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from tests.support.row_values import columns_to_rows

times = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
rows = st.one_of(
    st.builds(
        Row,
        st.binary(),
        st.integers(0, (1 << 64) - 1),
        st.sampled_from([RowKind.PUT, RowKind.MERGE]),
        st.binary(),
        times,
        times,
    ),
    st.builds(Row, st.binary(), st.integers(0, (1 << 64) - 1), st.just(RowKind.DELETE), st.just(b""), times, st.none()),
)


@given(st.lists(rows, max_size=20))
def test_rows_round_trip(values: list[Row]) -> None:
    columns = rows_to_columns(values)
    assert columns_to_rows(columns) == values
    assert [RowKind.of_flags(int(flags)) for flags in columns.flags] == [row.kind for row in values]


def test_flags() -> None:
    assert Row(b"k", 1).flags == 0
    assert Row(b"k", 1, RowKind.MERGE, b"", 1, 2).flags == MERGE | HAS_CREATE | HAS_EXPIRE
    assert Row(b"k", 1, RowKind.DELETE, create_ts_ms=0).flags == TOMBSTONE | HAS_CREATE


def test_a_delete_has_nothing_to_expire() -> None:
    for value, expire_ts_ms in ((b"x", None), (b"", 5)):
        with pytest.raises(ValueError, match="delete"):
            Row(b"k", 1, RowKind.DELETE, value, None, expire_ts_ms)
