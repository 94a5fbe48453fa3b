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

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.format.codecs import Buffer, decode_section
from slatespark.format.info import SstInfo
from slatespark.format.schemas import BLOCK_STATS, SST_STATS
from slatespark.format.verifier import verify
from slatespark.format.wire_columns import WireColumns
from slatespark.format.wire_table import WireTable, field_numbers

_ROOT = struct.Struct("<I8H4xiI5QI")
_ROOT_TABLE: Final = 24
_VECTOR: Final = 72
_BLOCK_VTABLE = struct.Struct("<5H2x")
_BLOCK_BYTES: Final = 12
_BLOCK_SLOTS: Final = (4, 6, 8)

_NUM_PUTS, _NUM_DELETES, _NUM_MERGES, _RAW_KEY_SIZE, _RAW_VAL_SIZE, _BLOCK_STATS = field_numbers(
    SST_STATS, "num_puts", "num_deletes", "num_merges", "raw_key_size", "raw_val_size", "block_stats"
)
_BLOCK_COUNTS: Final = field_numbers(BLOCK_STATS, "num_puts", "num_deletes", "num_merges")


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
    table = WireTable.root(data)
    return SstStats(
        num_puts=table.u64(_NUM_PUTS),
        num_deletes=table.u64(_NUM_DELETES),
        num_merges=table.u64(_NUM_MERGES),
        raw_key_size=table.u64(_RAW_KEY_SIZE),
        raw_val_size=table.u64(_RAW_VAL_SIZE),
        block_counts=_block_counts(table),
    )


def _block_counts(table: WireTable) -> NDArray[np.uint16]:
    """Read the tables of all blocks at once."""
    if not table.count(_BLOCK_STATS):
        return np.zeros((0, len(_BLOCK_COUNTS)), np.uint16)
    blocks = WireColumns(*table.vector(_BLOCK_STATS))
    return np.stack([blocks.array(field, "<u2") for field in _BLOCK_COUNTS], axis=1)


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
