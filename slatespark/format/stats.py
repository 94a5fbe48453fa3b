"""Statistics of an SST, optional: rows by kind for the file and per block, and raw sizes.

The flatbuffer has one table per block, all of the same shape, so it is read and written as arrays. Source:
`docs/reference/format/stats.md`. Layout written by `encode_stats`:

    00-03   offset of the root table
    04-19   vtable of the root table
    20-23   zero
    24-71   root table: vtable offset, offset of the vector, five u64
    72-75   number of blocks
    76-..   offset of each block's table, u32
    ..      zero to a multiple of 4, vtable of the block tables (10 bytes), 2 zero bytes
    ..      block tables, 12 bytes each: vtable offset, three u16, 2 zero bytes
"""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.format._generated import SstStats as StatsTable
from slatespark.format.codecs import Buffer, decode_section
from slatespark.format.info import SstInfo
from slatespark.format.verifier import verify
from slatespark.format.wire_tables import SST_STATS

_ROOT = struct.Struct("<I8H4xiI5QI")
_ROOT_TABLE: Final = 24
_VECTOR: Final = 72
_BLOCK_VTABLE = struct.Struct("<5H2x")
_BLOCK_BYTES: Final = 12
_BLOCK_SLOTS: Final = (4, 6, 8)
_BLOCK_STATS_SLOT: Final = 14


@dataclass(frozen=True, slots=True, eq=False)
class SstStats:
    """Counts of an SST.

    Attributes
    ----------
    num_puts, num_deletes, num_merges : numbers of rows by kind
    raw_key_size, raw_val_size : sizes of all keys and of all values
    block_counts : (n_blocks, 3) uint16, puts, deletes and merges per block; parallel to the index, or empty
    """

    num_puts: int
    num_deletes: int
    num_merges: int
    raw_key_size: int
    raw_val_size: int
    block_counts: NDArray[np.uint16]

    @property
    def num_rows(self) -> int:
        """Rows of all kinds."""
        return self.num_puts + self.num_deletes + self.num_merges

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SstStats):
            return NotImplemented
        return self._totals() == other._totals() and np.array_equal(self.block_counts, other.block_counts)

    def __hash__(self) -> int:
        return hash(self._totals())

    def _totals(self) -> tuple[int, ...]:
        return (self.num_puts, self.num_deletes, self.num_merges, self.raw_key_size, self.raw_val_size)


def decode_stats_section(data: Buffer, info: SstInfo) -> SstStats:
    """Decode a stats section (`info.stats_range`)."""
    return decode_stats(decode_section(data, info.compression, what="stats section"))


def decode_stats(data: bytes) -> SstStats:
    """Decode the flatbuffer of statistics."""
    verify(data, SST_STATS, what="SST stats")
    table = StatsTable.SstStats.GetRootAs(data)
    return SstStats(
        num_puts=table.NumPuts(),
        num_deletes=table.NumDeletes(),
        num_merges=table.NumMerges(),
        raw_key_size=table.RawKeySize(),
        raw_val_size=table.RawValSize(),
        block_counts=_block_counts(data, table),
    )


def _block_counts(data: bytes, table: StatsTable.SstStats) -> NDArray[np.uint16]:
    """Read all block tables at once; the verifier has checked every offset used here."""
    count = table.BlockStatsLength()
    counts = np.zeros((count, len(_BLOCK_SLOTS)), np.uint16)
    if not count:
        return counts
    octets = np.frombuffer(data, np.uint8)
    offset = table._tab.Vector(table._tab.Offset(_BLOCK_STATS_SLOT))  # no generated accessor for it
    positions = offset + 4 * np.arange(count, dtype=np.int64)
    tables = positions + _u32(octets, positions)
    vtables = tables - _u32(octets, tables).astype(np.int32)
    vtable_bytes = _u16(octets, vtables)
    for column, slot in enumerate(_BLOCK_SLOTS):
        known = np.flatnonzero(vtable_bytes > slot)
        distance = _u16(octets, vtables[known] + slot).astype(np.int64)
        known, distance = known[distance > 0], distance[distance > 0]
        counts[known, column] = _u16(octets, tables[known] + distance)
    return counts


def _u16(octets: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.uint16]:
    return octets[positions] | octets[positions + 1].astype(np.uint16) << np.uint16(8)


def _u32(octets: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    return _u16(octets, positions).astype(np.int64) | _u16(octets, positions + 2).astype(np.int64) << 16


def encode_stats(stats: SstStats) -> bytes:
    """Encode the flatbuffer of statistics."""
    count = len(stats.block_counts)
    offsets_end = _VECTOR + 4 + 4 * count
    vtable = offsets_end
    first = vtable + _BLOCK_VTABLE.size
    root = _ROOT.pack(
        _ROOT_TABLE,
        *(16, _VECTOR - _ROOT_TABLE, 8, 16, 24, 32, 40, 4),  # vtable: its size, the table's size, the six slots
        _ROOT_TABLE - 4,
        _VECTOR - _ROOT_TABLE - 4,
        *stats._totals(),
        count,
    )
    tables = np.arange(count, dtype=np.int64) * _BLOCK_BYTES + first
    offsets = tables - (_VECTOR + 4 + 4 * np.arange(count, dtype=np.int64))
    blocks = np.zeros((count, _BLOCK_BYTES), np.uint8)
    blocks[:, 0:4] = (tables - vtable).astype("<i4").view(np.uint8).reshape(count, 4)
    blocks[:, 4:10] = stats.block_counts.astype("<u2").view(np.uint8).reshape(count, 6)
    return (
        root + offsets.astype("<u4").tobytes() + _BLOCK_VTABLE.pack(10, _BLOCK_BYTES, *_BLOCK_SLOTS) + blocks.tobytes()
    )
