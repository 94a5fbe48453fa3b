# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from contextlib import suppress

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format._generated import BlockStats
from slatespark.format._generated import SstStats as StatsTable
from slatespark.format.stats import SstStats, decode_stats, encode_stats

u64 = st.integers(0, (1 << 64) - 1)
u16 = st.integers(0, (1 << 16) - 1)
counts = st.lists(st.tuples(u16, u16, u16), max_size=30)


def block_counts(rows: list[tuple[int, int, int]]) -> NDArray[np.uint16]:
    return np.array(rows, np.uint16).reshape(len(rows), 3)


def by_builder(stats: SstStats) -> bytes:
    """Encode as a generic encoder does: zeros are omitted, every table has its own vtable."""
    builder = flatbuffers.Builder(64)
    tables = []
    for puts, deletes, merges in stats.block_counts.tolist():
        BlockStats.Start(builder)
        BlockStats.AddNumPuts(builder, puts)
        BlockStats.AddNumDeletes(builder, deletes)
        BlockStats.AddNumMerges(builder, merges)
        tables.append(BlockStats.End(builder))
    StatsTable.StartBlockStatsVector(builder, len(tables))
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    vector = builder.EndVector()
    StatsTable.Start(builder)
    StatsTable.AddNumPuts(builder, stats.num_puts)
    StatsTable.AddNumDeletes(builder, stats.num_deletes)
    StatsTable.AddNumMerges(builder, stats.num_merges)
    StatsTable.AddRawKeySize(builder, stats.raw_key_size)
    StatsTable.AddRawValSize(builder, stats.raw_val_size)
    StatsTable.AddBlockStats(builder, vector)
    builder.Finish(StatsTable.End(builder))
    return bytes(builder.Output())


@given(st.tuples(u64, u64, u64, u64, u64), counts)
def test_statistics_round_trip(totals: tuple[int, int, int, int, int], rows: list[tuple[int, int, int]]) -> None:
    stats = SstStats(*totals, block_counts(rows))
    assert decode_stats(encode_stats(stats)) == stats
    assert decode_stats(by_builder(stats)) == stats


def test_statistics_without_blocks_are_read() -> None:
    builder = flatbuffers.Builder(64)
    StatsTable.Start(builder)
    StatsTable.AddNumPuts(builder, 7)
    builder.Finish(StatsTable.End(builder))
    stats = decode_stats(bytes(builder.Output()))
    assert (stats.num_rows, len(stats.block_counts)) == (7, 0)


def test_damaged_statistics_are_refused_or_decode() -> None:
    data = encode_stats(SstStats(1, 2, 3, 4, 5, block_counts([(1, 2, 3), (4, 5, 6)])))
    for at in range(len(data)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = bytearray(data)
            damaged[at] ^= mask
            with suppress(CorruptDataError):
                decode_stats(bytes(damaged))


def test_equality_compares_all_parts() -> None:
    stats = SstStats(1, 2, 3, 4, 5, block_counts([(1, 2, 3)]))
    assert stats == SstStats(1, 2, 3, 4, 5, block_counts([(1, 2, 3)]))
    assert hash(stats) == hash(SstStats(1, 2, 3, 4, 5, block_counts([])))
    assert stats != SstStats(1, 2, 3, 4, 5, block_counts([(1, 2, 4)]))
    assert stats != 5


def test_an_empty_buffer_is_refused() -> None:
    with pytest.raises(CorruptDataError):
        decode_stats(b"")
