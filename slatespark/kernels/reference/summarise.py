"""Summaries of encoded blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.kernels.reference.gather import gather_fields, key_lengths, value_lengths
from slatespark.kernels.results import BlockSummaries
from slatespark.kernels.row_ranges import check_first_rows


def summarise_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> BlockSummaries:
    """See `slatespark.kernels.summarise_blocks`."""
    check_first_rows(first_rows, len(rows))
    fields = gather_fields(sources, rows)
    deletes, merges = (fields.flags & TOMBSTONE) != 0, (fields.flags & MERGE) != 0
    flags = np.where(deletes, fields.flags & ~np.uint8(HAS_EXPIRE), fields.flags).astype(np.uint8)
    blocks = np.split(np.arange(len(rows)), first_rows[1:])

    def bounds(times: NDArray[np.int64], flag: int, chosen: Callable[..., int], none: int) -> NDArray[np.int64]:
        return np.array([chosen(times[block][(flags[block] & flag) != 0].tolist(), default=none) for block in blocks])

    kinds = [[np.count_nonzero(kind[block]) for kind in (~(deletes | merges), deletes, merges)] for block in blocks]
    return BlockSummaries(
        counts=np.array(kinds, np.uint16),
        min_create_ts=bounds(fields.create_ts, HAS_CREATE, min, 2**63 - 1),
        max_create_ts=bounds(fields.create_ts, HAS_CREATE, max, -(2**63)),
        min_expire_ts=bounds(fields.expire_ts, HAS_EXPIRE, min, 2**63 - 1),
        max_expire_ts=bounds(fields.expire_ts, HAS_EXPIRE, max, -(2**63)),
        any_flags=np.array([np.bitwise_or.reduce(flags[block]) for block in blocks], np.uint8),
        all_flags=np.array([np.bitwise_and.reduce(flags[block]) for block in blocks], np.uint8),
        key_bytes=int(key_lengths(sources, rows).sum()),
        value_bytes=int(value_lengths(sources, rows)[~deletes].sum()),
        min_seq=int(fields.seqs.min()),
        max_seq=int(fields.seqs.max()),
    )
