# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from contextlib import suppress

import flatbuffers
import numpy as np
import pytest
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format import verifier
from slatespark.format._generated import SstStats as StatsTable
from slatespark.format.schemas import SST_STATS
from slatespark.format.stats import SstStats, decode_stats, encode_stats


def block_counts(rows: list[tuple[int, int, int]]) -> NDArray[np.uint16]:
    return np.array(rows, np.uint16).reshape(len(rows), 3)


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


def verdict(data: bytes) -> tuple[str, int] | None:
    """What the verifier says of statistics, and the apparent size if it accepts them."""
    walk = verifier._Walk(memoryview(data), "it")
    try:
        walk.follow(0, SST_STATS)
    except CorruptDataError:
        return None
    return "accepted", walk.apparent


def test_many_blocks_are_verified_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2 * verifier.MANY
    data = encode_stats(SstStats(1, 2, 3, 4, 5, block_counts([(number, 5, 6) for number in range(count)])))
    cases = [data, data[:-1], data[:-4], data[:-12]]
    for at in range(72, len(data), 3):  # the vector, the vtable of the blocks, the blocks
        for mask in (1, 4, 64, 255):
            damaged = bytearray(data)
            damaged[at] ^= mask
            cases.append(bytes(damaged))
    together = [verdict(case) for case in cases]
    monkeypatch.setattr(verifier, "MANY", 10 * count)
    assert together == [verdict(case) for case in cases]
    assert together[0] is not None
    assert None in together
