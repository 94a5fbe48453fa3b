# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import flatbuffers
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format._generated import BlockStats
from slatespark.format._generated import SstStats as StatsTable
from slatespark.format.stats import SstStats, decode_stats, encode_stats
from tests.unit.format.test_stats import block_counts

u64 = st.integers(0, (1 << 64) - 1)

u16 = st.integers(0, (1 << 16) - 1)

counts = st.lists(st.tuples(u16, u16, u16), max_size=30)


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
