"""Arrow in all its shapes becomes the same rows; what a table cannot hold is refused."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.table.rows.test_encoder import rows, table


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=4), st.binary(max_size=5)), max_size=12), st.data())
def test_any_cut_into_chunks_gives_the_same_rows(pairs: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    whole = table(pa.binary(), [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    edges = sorted(data.draw(st.lists(st.integers(0, len(pairs)), max_size=4)))
    parts = [whole.slice(a, b - a) for a, b in zip([0, *edges], [*edges, len(pairs)], strict=True)]
    assert [(row.key, row.value) for row in rows(pa.concat_tables(parts))] == pairs
