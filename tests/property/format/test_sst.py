from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.codecs import Compression
from slatespark.format.row import Row, RowKind
from slatespark.kernels.siphash import hash_key
from tests.support.row_values import columns_to_rows
from tests.unit.format.reading import read_sst
from tests.unit.format.test_sst import build, object_of

times = st.none() | st.integers(-(1 << 62), 1 << 62)

puts = st.tuples(st.just(RowKind.PUT), st.binary(max_size=30), times, times)

merges = st.tuples(st.just(RowKind.MERGE), st.binary(max_size=5), times, times)

deletes = st.tuples(st.just(RowKind.DELETE), st.just(b""), times, st.none())

contents = st.tuples(st.binary(min_size=1, max_size=4), st.integers(0, (1 << 64) - 1), puts | merges | deletes)

row_lists = st.lists(contents, min_size=1, max_size=60, unique_by=lambda row: row[:2]).map(
    lambda drawn: sorted((Row(key, seq, *rest) for key, seq, rest in drawn), key=lambda row: (row.key, -row.seq))
)


@given(row_lists, st.sampled_from(Compression), st.sampled_from([40, 100, 4096]), st.integers(0, 3))
def test_rows_round_trip(rows: list[Row], codec: Compression, block_size: int, min_filter_keys: int) -> None:
    built = build(rows, block_size=block_size, compression=codec, min_filter_keys=min_filter_keys)
    sst = read_sst(object_of(built))
    assert columns_to_rows(sst.rows) == rows
    assert sst.info == built.info
    assert (sst.info.first_entry, sst.info.last_entry) == (rows[0].key, rows[-1].key)
    assert (sst.filters is not None) == (len(rows) >= min_filter_keys)
    hashes = np.array([hash_key(row.key) for row in rows], np.uint64)
    assert sst.filters is None or sst.filters.probe(hashes).all()


@given(row_lists, st.integers(1, 20), st.sampled_from([40, 100, 4096]), st.sampled_from(Compression))
def test_bytes_do_not_depend_on_the_steps(rows: list[Row], step: int, block_size: int, codec: Compression) -> None:
    whole = build(rows, block_size=block_size, compression=codec, min_filter_keys=5)
    stepwise = build(rows, step, block_size=block_size, compression=codec, min_filter_keys=5)
    assert object_of(whole) == object_of(stepwise)


def smallest(values: list[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def largest(values: list[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


@given(row_lists, st.sampled_from([40, 4096]))
def test_statistics_and_properties_describe_the_rows(rows: list[Row], block_size: int) -> None:
    built = build(rows, 7, block_size=block_size, created_ms=123)
    sst = read_sst(object_of(built))
    assert sst.stats is not None
    assert sst.properties is not None
    properties, bounds = sst.properties
    assert properties == built.properties
    kinds = [sum(row.kind is kind for row in rows) for kind in (RowKind.PUT, RowKind.DELETE, RowKind.MERGE)]
    assert [properties.puts, properties.deletes, properties.merges] == kinds
    assert [sst.stats.num_puts, sst.stats.num_deletes, sst.stats.num_merges] == kinds
    assert properties.num_rows == sst.stats.num_rows == len(rows)
    assert sst.stats.raw_key_size == sum(len(row.key) for row in rows)
    assert sst.stats.raw_val_size == sum(len(row.value) for row in rows)
    assert (properties.min_seq, properties.max_seq) == (min(row.seq for row in rows), max(row.seq for row in rows))
    created, expires = [row.create_ts_ms for row in rows], [row.expire_ts_ms for row in rows]
    assert (properties.min_create_ts, properties.max_create_ts) == (smallest(created), largest(created))
    assert (properties.min_expire_ts, properties.max_expire_ts) == (smallest(expires), largest(expires))
    assert properties.any_flags == np.bitwise_or.reduce([row.flags for row in rows])
    assert properties.all_flags == np.bitwise_and.reduce([row.flags for row in rows])
    assert (properties.created_ms, properties.all_versions) == (123, False)

    assert len(bounds) == len(sst.index) == len(sst.stats.block_counts)
    edges = np.cumsum([0, *sst.stats.block_counts.sum(axis=1)], dtype=np.int64)
    for block in range(len(bounds)):
        part = rows[edges[block] : edges[block + 1]]
        expected = smallest([row.create_ts_ms for row in part]), largest([row.expire_ts_ms for row in part])
        none = (1 << 63) - 1
        assert bounds.min_create_ts[block] == (none if expected[0] is None else expected[0])
        assert bounds.max_expire_ts[block] == (-none - 1 if expected[1] is None else expected[1])
        assert bounds.any_flags[block] == np.bitwise_or.reduce([row.flags for row in part])
