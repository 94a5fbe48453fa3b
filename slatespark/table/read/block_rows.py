"""Blocks of a file that were read together, which need not follow each other in it -> their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.block_group import unpack_blocks
from slatespark.kernels import decode_blocks
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ByteRange
from slatespark.storage import ObjectStore
from slatespark.table.read.planning.plan import SstFile


def joined_ranges(store: ObjectStore, path: str, spans: Sequence[ByteRange]) -> NDArray[np.uint8]:
    """Return some ranges of an object, one behind the other."""
    parts = store.get_ranges(path, spans)
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), np.uint8)


def decoded_rows(
    file: SstFile,
    url: str,
    numbers: NDArray[np.int64],
    data: NDArray[np.uint8],
    edges: NDArray[np.int64],
    encoded_bytes: NDArray[np.int64],
    *,
    window_bytes: int,
) -> Iterator[tuple[int, RowColumns]]:
    """Yield (number of the block after them, rows) of some blocks, about `window_bytes` of them at a time.

    Parameters
    ----------
    url : of the file, for errors
    numbers : of the blocks, ascending
    data : these blocks, one behind the other
    edges, encoded_bytes : of all blocks of the file, as in its index

    Raises
    ------
    CorruptDataError
        With the place in the file.
    """
    starts = edges[numbers]
    inside = np.append(np.zeros(1, np.int64), np.cumsum(edges[numbers + 1] - starts))
    encoded = encoded_bytes[numbers]
    at = 0
    while at < len(numbers):
        try:
            opened = unpack_blocks(data, inside[at:], encoded[at:], file.info.compression, limit_bytes=window_bytes)
            rows = decode_blocks(opened.data, opened.starts, opened.ends, version=file.format_version)
        except CorruptDataError as exc:
            block = int(np.searchsorted(inside, exc.offset or 0, side="right")) - 1
            block = min(max(block, 0), len(numbers) - 1)
            raise exc.located(url, int(starts[block] - inside[block])) from exc
        at += len(opened.starts)
        yield int(numbers[at - 1]) + 1, rows
