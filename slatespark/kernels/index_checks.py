"""Checks of both decoders of the index section beyond its structure."""

from __future__ import annotations

from operator import le

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError


def damaged_index(what: str, offset: int) -> CorruptDataError:
    """Return the error for a damaged index section."""
    return CorruptDataError(f"SST index: {what}.", offset=offset)


def check_indexes(offsets: NDArray[np.uint64], keys: list[bytes], counts: NDArray[np.int64]) -> None:
    """Raise for block offsets that do not ascend or exceed an i64, and for descending first keys.

    Parameters
    ----------
    offsets, keys : those of one index after another
    counts : (k,) number of blocks in each index
    """
    if len(offsets) and int(offsets.max()) >= 1 << 63:
        raise damaged_index(f"a block starts at {offsets.max()}", 0)
    begins = np.zeros(max(2, len(offsets) + 1), np.bool_)
    begins[np.cumsum(counts)] = True
    follows = ~begins[1:-1]  # whether a block but the very first one is of the index of the one before it
    if (follows & (offsets[1:] <= offsets[:-1])).any():
        raise damaged_index("its block offsets do not ascend", 0)
    ascends = np.fromiter(map(le, keys, keys[1:]), np.bool_, len(follows))
    if (follows & ~ascends).any():
        raise damaged_index("its first keys descend", 0)
