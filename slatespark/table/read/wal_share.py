"""The rows of the WAL in one split: a part of the tail, which was decoded and sorted once for all splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slatespark.kernels.columns import RowColumns


@dataclass(frozen=True, slots=True, eq=False)
class WalShare:
    """Some rows of a sorted tail. Pickled, it takes along these rows alone.

    Attributes
    ----------
    rows : by (key, seq descending); keys and values lie in the order of the rows, without gaps
    """

    rows: RowColumns

    def __reduce__(self) -> tuple[type[WalShare], tuple[RowColumns]]:
        return WalShare, (_compact(self.rows),)

    @property
    def held_bytes(self) -> int:
        """Bytes of the keys and values."""
        offsets = self.rows.key_offsets
        return int(offsets[-1] - offsets[0]) + int(self.rows.value_lengths.sum())

    @classmethod
    def of(cls, rows: RowColumns, low: int, high: int) -> WalShare:
        """Return rows [low, high), without a copy."""
        return cls(
            RowColumns(
                key_bytes=rows.key_bytes,
                key_offsets=rows.key_offsets[low : high + 1],
                seqs=rows.seqs[low:high],
                flags=rows.flags[low:high],
                create_ts=rows.create_ts[low:high],
                expire_ts=rows.expire_ts[low:high],
                value_bytes=rows.value_bytes,
                value_starts=rows.value_starts[low:high],
                value_lengths=rows.value_lengths[low:high],
            )
        )


def _compact(rows: RowColumns) -> RowColumns:
    """Return the same rows with the bytes of their keys and values alone."""
    first, end = int(rows.key_offsets[0]), int(rows.key_offsets[-1])
    start = int(rows.value_starts[0]) if len(rows) else 0
    stop = int(rows.value_starts[-1] + rows.value_lengths[-1]) if len(rows) else 0
    return RowColumns(
        key_bytes=rows.key_bytes[first:end],
        key_offsets=rows.key_offsets - np.int64(first),
        seqs=rows.seqs,
        flags=rows.flags,
        create_ts=rows.create_ts,
        expire_ts=rows.expire_ts,
        value_bytes=rows.value_bytes[start:stop],
        value_starts=rows.value_starts - np.int64(start),
        value_lengths=rows.value_lengths,
    )
