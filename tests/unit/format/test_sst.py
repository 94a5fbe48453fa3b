from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, InternalError
from slatespark.format import sst as sst_module
from slatespark.format.codecs import Compression
from slatespark.format.info import Footer
from slatespark.format.properties import decode_properties
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import BuiltSst, SstBuilder, layout_of
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, ROW_BITS, TOMBSTONE
from slatespark.thread_pool import ThreadPool
from tests.support.row_values import columns_to_rows
from tests.unit.format.reading import read_sst


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


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("value_bytes", [2 << 20, 20 << 20])
def test_large_rows_that_compress_well_fill_no_file(compression: Compression, value_bytes: int) -> None:
    """Until some are compressed, nobody knows how well; and few are held meanwhile."""
    value = bytes(value_bytes)
    builder = SstBuilder(compression=compression)
    for number in range(4):
        row = rows_to_columns([Row(b"%d" % number, 1, RowKind.PUT, value)])
        builder.add([row], np.arange(1, dtype=np.int64))
        assert not builder.reaches(value_bytes + (1 << 20))  # the open block counts in full
    assert builder.finish().size < 1 << 20


@pytest.mark.parametrize("compression", Compression)
def test_bytes_do_not_depend_on_threads(compression: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(b"%04d" % number, number, RowKind.PUT, b"%d" % number * 9) for number in range(2000)]
    whole = object_of(build(rows, block_size=256, compression=compression))
    monkeypatch.setattr(sst_module, "BLOCKS_PER_TASK", 3)
    with ThreadPool(3) as pool:
        assert object_of(build(rows, 301, block_size=256, compression=compression, spread=pool.map)) == whole
    assert columns_to_rows(read_sst(whole).rows) == rows


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
