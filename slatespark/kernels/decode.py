"""Decoder of data blocks, compiled. Layouts and steps are those of `slatespark.kernels.reference.decode`.

One pass over all blocks. The number of rows and key bytes is not known in advance: a kernel that runs out of room
abandons the current block, and restarts it with more room.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._decoding import FIRST_ROOM, KEY_END, MORE_ROWS, RECORD_FIELDS, ROW
from slatespark.kernels._native import SLACK
from slatespark.kernels._sources import address_of, checked_address
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.damage import MIN_ROW_BYTES, check_extents, damaged_block, key_bytes_limit
from slatespark.kernels.decode_v1 import decode_v1
from slatespark.kernels.decode_v2 import decode_v2

# First guesses; doubled when exceeded.
_KEY_BYTES_GUESS: Final = 32
_RESTART_INTERVAL_GUESS: Final = 16


def decode_blocks(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    version: int,
    ordered: bool = True,
) -> RowColumns:
    """See `slatespark.kernels.decode_blocks`."""
    check_extents(data, starts, ends, version=version)
    base = checked_address(data, np.uint8, 0)
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    decode = decode_v1 if version == 1 else decode_v2
    output = _Output(data, starts, ends, version)
    extents = address_of(starts), address_of(ends), len(starts)
    while result := decode(base, base + len(data), *extents, int(ordered), output.record_address()):
        if result > 0:
            raise output.error(result)
        output.make_room(result)
    return output.columns(data)


class _Output:
    """The columns being filled, and the progress record of the kernel."""

    def __init__(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], version: int
    ) -> None:
        self.record = np.zeros(RECORD_FIELDS, np.int64)
        self.row_limit = int((ends - starts).sum()) // MIN_ROW_BYTES[version] + 1
        self.key_limit = key_bytes_limit(starts, ends)
        self.row_room = min(_guess_rows(data, starts, ends, version), self.row_limit)
        self.key_room = min(_KEY_BYTES_GUESS * self.row_room, self.key_limit)
        self.keys = np.empty(0, np.uint8)
        self.key_offsets = np.zeros(1, np.int64)
        self.seqs = np.empty(0, np.uint64)
        self.flags = np.empty(0, np.uint8)
        self.create_ts, self.expire_ts = np.empty(0, np.int64), np.empty(0, np.int64)
        self.value_starts, self.value_lengths = np.empty(0, np.int64), np.empty(0, np.int64)
        self._allocate_keys()
        self._allocate_rows()

    def make_room(self, wanted: int) -> None:
        """Double the exhausted room."""
        if wanted == MORE_ROWS:
            self.row_room = min(2 * self.row_room, self.row_limit)
            self._allocate_rows()
        else:
            self.key_room = min(2 * self.key_room, self.key_limit)
            self._allocate_keys()

    def _allocate_rows(self) -> None:
        room, used = self.row_room, int(self.record[ROW // 8])
        self.key_offsets = _grown(self.key_offsets, used + 1, room + 1)
        self.seqs, self.flags = _grown(self.seqs, used, room), _grown(self.flags, used, room)
        self.create_ts, self.expire_ts = _grown(self.create_ts, used, room), _grown(self.expire_ts, used, room)
        self.value_starts = _grown(self.value_starts, used, room)
        self.value_lengths = _grown(self.value_lengths, used, room)

    def _allocate_keys(self) -> None:
        self.keys = _grown(self.keys, int(self.record[KEY_END // 8]), self.key_room + SLACK)

    def record_address(self) -> int:
        """Return the address of the record, with the addresses of the columns in it."""
        columns = (self.keys, self.key_offsets, self.seqs, self.flags, self.create_ts, self.expire_ts)
        addresses = [address_of(column) for column in (*columns, self.value_starts, self.value_lengths)]
        self.record[FIRST_ROOM // 8 :] = [self.row_room, self.key_room, self.key_limit, *addresses]
        return address_of(self.record)

    def error(self, damage: int) -> Exception:
        block, _, _, offset, found = self.record[:5].tolist()
        return damaged_block(damage, block=block, offset=offset, found=found)

    def columns(self, data: NDArray[np.uint8]) -> RowColumns:
        _, rows, key_end = self.record[:3].tolist()
        return RowColumns(
            key_bytes=self.keys[:key_end],
            key_offsets=self.key_offsets[: rows + 1],
            seqs=self.seqs[:rows],
            flags=self.flags[:rows],
            create_ts=self.create_ts[:rows],
            expire_ts=self.expire_ts[:rows],
            value_bytes=data,
            value_starts=self.value_starts[:rows],
            value_lengths=self.value_lengths[:rows],
        )


def _guess_rows(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], version: int) -> int:
    """Estimate the number of rows from the row or restart counts of the blocks."""
    tails = ends[ends - starts >= 2]
    counts = int(data[tails - 2].astype(np.int64).sum()) * 256 + int(data[tails - 1].astype(np.int64).sum())
    return max(counts if version == 1 else counts * _RESTART_INTERVAL_GUESS, 1)


def _grown(array: NDArray[Any], used: int, room: int) -> NDArray[Any]:
    """Return an array of `room` items that starts with the first `used` items."""
    grown = np.empty(room, array.dtype)
    grown[:used] = array[:used]
    return grown
