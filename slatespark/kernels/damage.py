"""Kinds of damage found by the block decoders, with their messages, and limits of both decoders."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError, InternalError, UnsupportedFormatError

MIN_ROW_BYTES: Final = {1: 13, 2: 12}  # an empty key, no value, no times

# With prefix compression, a damaged block of 64 KiB can claim 80 MB of keys. Real keys expand far less.
KEY_BYTES_FLOOR: Final = 128 << 20
KEY_BYTES_PER_BLOCK_BYTE: Final = 256


class Damage(IntEnum):
    """Kind of damage of a block."""

    TOO_SHORT = 1
    EMPTY = 2
    OFFSET_TABLE = 3
    MISPLACED = 4
    TRUNCATED = 5
    VARINT = 6
    RESTART_SHARES = 7
    SHARED = 8
    EXPANSION = 9
    FLAGS = 10
    TOMBSTONE_VALUE = 11
    ORDER = 12
    LEFTOVER = 13


_MESSAGES: Final = {
    Damage.TOO_SHORT: "it has {found} bytes, too few for a row count",
    Damage.EMPTY: "it holds no row",
    Damage.OFFSET_TABLE: "its offset table of {found} entries leaves no room for rows",
    Damage.MISPLACED: "offset {found} of its offset table is not the start of a row",
    Damage.TRUNCATED: "a row runs past the end of the entries",
    Damage.VARINT: "a length is not a u32 varint",
    Damage.RESTART_SHARES: "a row at a restart point shares {found} key bytes, expected 0",
    Damage.SHARED: "a row shares {found} key bytes, more than the other key has",
    Damage.EXPANSION: "its keys expand to more than {found} bytes",
    Damage.FLAGS: "a row has the flags {found:#04x}",
    Damage.TOMBSTONE_VALUE: "a tombstone has a value of {found} bytes",
    Damage.ORDER: "a row is out of order (key ascending, seq descending)",
    Damage.LEFTOVER: "{found} bytes follow its last row",
}


def damaged_block(damage: int, *, block: int, offset: int, found: int) -> CorruptDataError:
    """Return the error for `damage` of block number `block` at byte `offset` of the data given."""
    return CorruptDataError(f"Block {block}: {_MESSAGES[Damage(damage)].format(found=found)}.", offset=offset)


def check_extents(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], *, version: int) -> None:
    """Raise for blocks outside `data`, and for unknown versions."""
    if version not in MIN_ROW_BYTES:
        raise UnsupportedFormatError(f"Block format version is {version}, expected 1 or 2.")
    if len(starts) != len(ends):
        raise InternalError(f"There are {len(starts)} block starts, but {len(ends)} block ends.")
    outside = (starts < 0) | (ends < starts) | (ends > len(data))
    if outside.any():
        block = int(np.argmax(outside))
        extent = f"[{starts[block]}, {ends[block]})"
        raise CorruptDataError(
            f"Block {block} is at {extent}, outside the {len(data)} bytes of data.", offset=int(starts[block])
        )


def key_bytes_limit(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Return the limit of key bytes that the blocks may expand to."""
    return KEY_BYTES_FLOOR + KEY_BYTES_PER_BLOCK_BYTE * int((ends - starts).sum())
