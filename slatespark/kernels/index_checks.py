"""Checks of both decoders of the index section beyond its structure."""

from __future__ import annotations

from operator import le

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError


def damaged_index(what: str, offset: int) -> CorruptDataError:
    """Return the error for a damaged index section."""
    return CorruptDataError(f"SST index: {what}.", offset=offset)


def check_index(offsets: NDArray[np.uint64], keys: list[bytes]) -> None:
    """Raise for block offsets that do not ascend or exceed an i64, and for descending first keys."""
    if len(offsets) and int(offsets.max()) >= 1 << 63:
        raise damaged_index(f"a block starts at {offsets.max()}", 0)
    if (offsets[1:] <= offsets[:-1]).any():
        raise damaged_index("its block offsets do not ascend", 0)
    if not all(map(le, keys, keys[1:])):
        raise damaged_index("its first keys descend", 0)
