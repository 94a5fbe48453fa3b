"""Rows on their way to a task: keys and values as they are, every number in as few bytes as its column needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns

MOST_NUMBER_BYTES: Final = 5 * 8 + 1  # of a row: two lengths, a seq, two times, and the flags
_WIDTHS: Final = (np.uint8, np.uint16, np.uint32, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class NarrowNumbers:
    """Integers as what they are above the least of them.

    Attributes
    ----------
    least : 0 without any
    above : (n,) of the narrowest unsigned type; (0,) if all are equal
    count : n
    """

    least: int
    above: NDArray[Any]
    count: int

    @classmethod
    def of(cls, values: NDArray[Any]) -> NarrowNumbers:
        """Take over (n,) integers of at most 64 bits."""
        least, greatest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if least == greatest:
            return cls(least, np.empty(0, np.uint8), len(values))
        width = next(width for width in _WIDTHS if greatest - least <= np.iinfo(width).max)
        # Differences of unsigned numbers wrap around to the right one, even between the ends of int64.
        above = values.astype(np.uint64) - np.uint64(least % 2**64)
        return cls(least, above.astype(width), len(values))

    def values(self, dtype: type[np.generic]) -> NDArray[Any]:
        """Return the integers, (n,) of the type that they had."""
        if not len(self.above):
            return np.full(self.count, self.least, dtype)
        return (self.above.astype(np.uint64) + np.uint64(self.least % 2**64)).astype(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class SentRows:
    """Row versions as they are pickled.

    Attributes
    ----------
    key_bytes, value_bytes : uint8, of one row after another
    key_lengths, value_lengths, seqs, flags, create_ts, expire_ts : (n,)
    """

    key_bytes: NDArray[np.uint8]
    value_bytes: NDArray[np.uint8]
    key_lengths: NarrowNumbers
    value_lengths: NarrowNumbers
    seqs: NarrowNumbers
    flags: NarrowNumbers
    create_ts: NarrowNumbers
    expire_ts: NarrowNumbers

    @classmethod
    def of(cls, rows: RowColumns) -> SentRows:
        """Pack rows whose keys and values follow each other without gaps, as those of `take_rows` do."""
        return cls(
            rows.key_bytes,
            rows.value_bytes,
            NarrowNumbers.of(np.diff(rows.key_offsets)),
            NarrowNumbers.of(rows.value_lengths),
            NarrowNumbers.of(rows.seqs),
            NarrowNumbers.of(rows.flags),
            NarrowNumbers.of(rows.create_ts),
            NarrowNumbers.of(rows.expire_ts),
        )

    def rows(self) -> RowColumns:
        """Return the rows."""
        value_lengths = self.value_lengths.values(np.int64)
        key_offsets = np.zeros(self.key_lengths.count + 1, np.int64)
        np.cumsum(self.key_lengths.values(np.int64), out=key_offsets[1:])
        return RowColumns(
            key_bytes=self.key_bytes,
            key_offsets=key_offsets,
            seqs=self.seqs.values(np.uint64),
            flags=self.flags.values(np.uint8),
            create_ts=self.create_ts.values(np.int64),
            expire_ts=self.expire_ts.values(np.int64),
            value_bytes=self.value_bytes,
            value_starts=np.cumsum(value_lengths) - value_lengths,
            value_lengths=value_lengths,
        )
