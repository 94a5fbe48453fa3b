"""LZ4 for many blocks at a time: one kernel finds what all of them expand to."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.kernels import lz4_sizes

_PREFIX_BYTES: Final = 4  # the size, u32 little endian


@cache
def _codec() -> pa.Codec:
    return pa.Codec("lz4_raw")


def content_sizes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the size of what each block `data[starts[i]:ends[i]]` holds; None if one is empty or damaged."""
    if (ends - starts <= _PREFIX_BYTES).any():
        return None
    prefixes = data[starts[:, None] + np.arange(_PREFIX_BYTES)]
    stated = prefixes.view("<u4").ravel().astype(np.int64)
    is_true = (stated > 0) & (stated == lz4_sizes(data, starts + _PREFIX_BYTES, ends))
    return stated if is_true.all() else None


def decompress_together(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], sizes: NDArray[np.int64]
) -> bytes | None:
    """Return what some blocks hold, one behind the other; None if one is damaged.

    Parameters
    ----------
    sizes : those of `content_sizes`
    """
    view, decompress = data.data, _codec().decompress
    bounds = zip((starts + _PREFIX_BYTES).tolist(), ends.tolist(), sizes.tolist(), strict=True)
    try:
        return b"".join([decompress(view[start:end], size, True) for start, end, size in bounds])
    except (OSError, pa.ArrowException):
        return None
