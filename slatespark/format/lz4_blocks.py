"""LZ4 for many blocks at a time: one kernel finds what all of them expand to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.format.codecs import LZ4_PREFIX_BYTES, arrow_codec
from slatespark.kernels import lz4_sizes


def content_sizes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the size that each block `data[starts[i]:ends[i]]` states; None if one is empty or damaged.

    The sizes are not proven.
    """
    if (ends - starts <= LZ4_PREFIX_BYTES).any():
        return None
    prefixes = data[starts[:, None] + np.arange(LZ4_PREFIX_BYTES)]
    sizes = prefixes.view("<u4").ravel().astype(np.int64)
    return sizes if sizes.all() else None


def decompress_together(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], sizes: NDArray[np.int64]
) -> bytes | None:
    """Return what some blocks hold, one behind the other; None if one does not hold what its size says.

    Parameters
    ----------
    sizes : those of `content_sizes`
    """
    starts = starts + LZ4_PREFIX_BYTES
    if not np.array_equal(lz4_sizes(data, starts, ends), sizes):
        return None
    view, decompress = data.data, arrow_codec("lz4_raw").decompress
    bounds = zip(starts.tolist(), ends.tolist(), sizes.tolist(), strict=True)
    try:
        return b"".join([decompress(view[start:end], size, True) for start, end, size in bounds])
    except (OSError, pa.ArrowException):
        return None
