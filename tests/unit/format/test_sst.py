from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError, InternalError
from slatespark.format.codecs import Compression
from slatespark.format.info import Footer
from slatespark.format.properties import decode_properties
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import BuiltSst, SstBuilder, layout_of
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, ROW_BITS, TOMBSTONE
from slatespark.kernels.siphash import hash_key
from tests.support.row_values import columns_to_rows
from tests.unit.format.reading import read_sst

times = st.none() | st.integers(-(1 << 62), 1 << 62)
puts = st.tuples(st.just(RowKind.PUT), st.binary(max_size=30), times, times)
merges = st.tuples(st.just(RowKind.MERGE), st.binary(max_size=5), times, times)
deletes = st.tuples(st.just(RowKind.DELETE), st.just(b""), times, st.none())
contents = st.tuples(st.binary(min_size=1, max_size=4), st.integers(0, (1 << 64) - 1), puts | merges | deletes)
row_lists = st.lists(contents, min_size=1, max_size=60, unique_by=lambda row: row[:2]).map(
    lambda drawn: sorted((Row(key, seq, *rest) for key, seq, rest in drawn), key=lambda row: (row.key, -row.seq))
)


def build(rows: Sequence[Row], step: int | None = None, **settings: object) -> BuiltSst:
    columns = rows_to_columns(rows)
    builder = SstBuilder(**settings)  # type: ignore[arg-type]
    step = step or len(rows)
    for start in range(0, len(rows), step):
        builder.add([columns], np.arange(start, min(start + step, len(rows)), dtype=np.int64))
    return builder.finish()


def object_of(built: BuiltSst) -> bytes:
    data = b"".join(built.parts)
    assert len(data) == built.size
    return data


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


@given(row_lists, st.sampled_from([40, 4096]), st.booleans())
def test_statistics_and_properties_describe_the_rows(rows: list[Row], block_size: int, history: bool) -> None:
    built = build(rows, 7, block_size=block_size, created_ms=123, all_versions=history)
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
    assert (properties.created_ms, properties.all_versions) == (123, history)

    assert len(bounds) == len(sst.index) == len(sst.stats.block_counts)
    edges = np.cumsum([0, *sst.stats.block_counts.sum(axis=1)], dtype=np.int64)
    for block in range(len(bounds)):
        part = rows[edges[block] : edges[block + 1]]
        expected = smallest([row.create_ts_ms for row in part]), largest([row.expire_ts_ms for row in part])
        none = (1 << 63) - 1
        assert bounds.min_create_ts[block] == (none if expected[0] is None else expected[0])
        assert bounds.max_expire_ts[block] == (-none - 1 if expected[1] is None else expected[1])
        assert bounds.any_flags[block] == np.bitwise_or.reduce([row.flags for row in part])


def test_rows_of_several_sources_and_a_tombstone_with_a_value() -> None:
    one = rows_to_columns([Row(b"a", 1, RowKind.PUT, b"x"), Row(b"c", 2, RowKind.MERGE, b"y", 5)])
    other = rows_to_columns([Row(b"b", 3, RowKind.PUT, b"gone", 7, 9)])
    other.flags[0] = TOMBSTONE | HAS_CREATE | HAS_EXPIRE  # with a value and an expiry in its columns
    builder = SstBuilder(min_filter_keys=1)
    builder.add([one, other], np.array([0, 1 << ROW_BITS, 1], np.int64))
    built = builder.finish()
    sst = read_sst(object_of(built))
    assert columns_to_rows(sst.rows) == [
        Row(b"a", 1, RowKind.PUT, b"x"),
        Row(b"b", 3, RowKind.DELETE, b"", 7),
        Row(b"c", 2, RowKind.MERGE, b"y", 5),
    ]
    assert built.properties.any_flags == TOMBSTONE | HAS_CREATE | MERGE
    assert built.properties.max_expire_ts is None
    assert sst.stats is not None
    assert sst.stats.raw_val_size == 2


def test_a_filter_is_written_from_enough_rows_on() -> None:
    rows = [Row(b"%04d" % number, 1) for number in range(1000)]
    assert read_sst(object_of(build(rows[:999]))).filters is None
    assert read_sst(object_of(build(rows))).filters is not None
    assert read_sst(object_of(build(rows, bloom_bits_per_key=0))).filters is None


def test_the_estimate_follows_the_file() -> None:
    columns = rows_to_columns([Row(b"%06d" % number, 1, RowKind.PUT, b"v" * 100, 1) for number in range(5000)])
    builder = SstBuilder()
    for start in range(0, 5000, 100):
        builder.add([columns], np.arange(start, start + 100, dtype=np.int64))
    estimate = builder.estimated_bytes
    size = builder.finish().size
    assert 0.95 * size < estimate <= size


def test_uncompressed_blocks_are_not_copied() -> None:
    built = build([Row(b"%04d" % number, 1) for number in range(1000)], block_size=256)
    assert isinstance(built.parts[0], memoryview)


def test_a_file_without_rows_is_refused() -> None:
    builder = SstBuilder()
    builder.add([rows_to_columns([])], np.zeros(0, np.int64))
    with pytest.raises(InternalError):
        builder.finish()


def test_rows_out_of_order_are_refused() -> None:
    builder = SstBuilder()
    builder.add([rows_to_columns([Row(b"b", 1)])], np.zeros(1, np.int64))
    with pytest.raises(InternalError, match="key"):
        builder.add([rows_to_columns([Row(b"a", 1)])], np.zeros(1, np.int64))


def test_the_layout_covers_every_byte() -> None:
    built = build([Row(b"%04d" % number, 1) for number in range(2000)])
    sst = read_sst(object_of(built))
    parts = [
        part
        for part in (
            sst.layout.data,
            sst.layout.filter,
            sst.layout.index,
            sst.layout.stats,
            sst.layout.gap,
            sst.layout.info,
            sst.layout.footer,
        )
        if part is not None
    ]
    assert parts[0].start == 0
    assert parts[-1].end == built.size
    assert all(one.end == other.start for one, other in pairwise(parts))
    with pytest.raises(CorruptDataError):
        layout_of(built.info, Footer(built.info.sections_end - 1, 2), built.size)


def test_foreign_bytes_in_the_gap_are_ignored() -> None:
    assert decode_properties(b"") is None
    assert decode_properties(b"somebody else was here before") is None
