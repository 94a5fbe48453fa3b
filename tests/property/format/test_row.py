from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
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
