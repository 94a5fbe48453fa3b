from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.index import separator_key
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.ranges import KeyRange
from tests.unit.format.reading import read_sst


@given(st.binary(max_size=4), st.binary(max_size=4))
def test_a_separator_separates_two_keys(one: bytes, other: bytes) -> None:
    low, high = sorted((one, other))
    separator = separator_key(low, high)
    assert high.startswith(separator)
    assert low < separator <= high or low == high == separator


@given(
    st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=40), st.binary(max_size=3), st.binary(max_size=3)
)
def test_the_blocks_for_a_range_contain_all_its_rows(keys: list[bytes], start: bytes, end: bytes) -> None:
    rows = [Row(key, 1000 - number) for number, key in enumerate(sorted(keys))]
    builder = SstBuilder(block_size=40)
    builder.add([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
    sst = read_sst(b"".join(builder.finish().parts))
    wanted = KeyRange(start, end)
    first, stop = sst.index.blocks_for(wanted)
    outside = [*range(first), *range(stop, len(sst.index))]
    assert sst.stats is not None
    edges = np.cumsum([0, *sst.stats.block_counts.sum(axis=1)], dtype=np.int64)
    for block in outside:
        assert not any(wanted.contains(sst.rows.key(row)) for row in range(edges[block], edges[block + 1]))


@given(
    st.lists(st.binary(min_size=1, max_size=2), min_size=1, max_size=40),
    st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=12),
)
def test_the_blocks_for_many_ranges_are_those_for_each(keys: list[bytes], bounds: list[tuple[bytes, bytes]]) -> None:
    rows = [Row(key, 1000 - number) for number, key in enumerate(sorted(keys))]
    builder = SstBuilder(block_size=40)
    builder.add([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
    index = read_sst(b"".join(builder.finish().parts)).index
    ranges = [KeyRange(*span) for span in bounds]
    assert index.blocks_for_each(ranges) == [index.blocks_for(keys) for keys in ranges]
