"""The rows of the WAL in one split: a part of the tail, which was decoded and sorted once for all splits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slatespark.format.row import rows_to_columns
from slatespark.kernels import key_lengths, take_rows, value_lengths
from slatespark.kernels.columns import RowColumns, key_at
from slatespark.ranges import KeyRange
from slatespark.table.read.planning.row_cuts import keys_alone
from slatespark.table.read.planning.sent_rows import SentRows


@dataclass(frozen=True, slots=True, eq=False)
class WalShare:
    """Some rows of a sorted tail. They are copied together where they are read, or where they travel to a task.

    Pickled, it takes along these rows alone.

    Attributes
    ----------
    sources : decoded files, in the order in which the rows were written
    order : packed rows, by (key, seq descending)
    is_source : they are known to be all rows of one source, in its order
    """

    sources: Sequence[RowColumns]
    order: NDArray[np.int64]
    is_source: bool = False

    @classmethod
    def of(cls, rows: RowColumns) -> WalShare:
        """Return all rows of one sorted source."""
        return cls([rows], np.arange(len(rows), dtype=np.int64), is_source=True)

    @classmethod
    def received(cls, rows: SentRows) -> WalShare:
        """Return rows that were pickled."""
        return cls.of(rows.rows())

    def __len__(self) -> int:
        return len(self.order)

    def __reduce__(self) -> tuple[object, ...]:
        return WalShare.received, (SentRows.of(self._copied()),)

    def exceeds(self, limit_bytes: int) -> bool:
        """Tell whether keys and values take more bytes; they are measured only if as many of the longest do."""
        longest = [source.longest for source in self.sources]
        row_bytes = max((key for key, _ in longest), default=0) + max((value for _, value in longest), default=0)
        if len(self) * row_bytes <= limit_bytes or not len(self):
            return False
        sizes = key_lengths(self.sources, self.order) + value_lengths(self.sources, self.order)
        return int(sizes.sum()) > limit_bytes

    def rows(self) -> RowColumns:
        """Return the rows as one source; those of several files, or not in their order, are copied."""
        is_source = self.is_source or (self._lies_in_order and len(self) == len(self.sources[0]))
        return self.sources[0] if is_source else self._copied()

    def as_source(self) -> WalShare:
        """Return the same rows as one source in their order."""
        return self if self.is_source else WalShare.of(self.rows())

    def keys(self) -> tuple[RowColumns, int, int]:
        """Return a source that has the keys in order, and which of its rows they are; only scattered keys are copied.

        Requires: there are rows.
        """
        if self._lies_in_order:
            start = int(self.order[0])
            return self.sources[0], start, start + len(self)
        return keys_alone(self.sources, self.order), 0, len(self)

    def within(self, ranges: Iterable[KeyRange]) -> WalShare:
        """Return the rows with keys in some ranges, which ascend and lie apart."""
        spans = [self.order[slice(*self._span(keys))] for keys in ranges]
        return WalShare(self.sources, spans[0] if len(spans) == 1 else np.concatenate(spans))

    def without_values(self) -> WalShare:
        """Return the rows with empty values, for a read that looks at none."""
        return replace(self, sources=[_without_values(rows) for rows in self.sources])

    def has_rows(self, keys: KeyRange) -> bool:
        """Tell whether there are rows with keys in a range."""
        start, end = self._span(keys)
        return start < end

    @property
    def _lies_in_order(self) -> bool:
        """Whether the rows follow each other in one source."""
        return self.is_source or (len(self.sources) == 1 and bool((np.diff(self.order) == 1).all()))

    def _span(self, keys: KeyRange) -> tuple[int, int]:
        start = self._position_of(keys.start)
        return start, len(self) if keys.end is None else max(start, self._position_of(keys.end))

    def _position_of(self, key: bytes) -> int:
        """Return where the first row is whose key is not below this one."""
        return bisect_left(range(len(self)), key, key=lambda at: key_at(self.sources, int(self.order[at])))

    def _copied(self) -> RowColumns:
        return take_rows(self.sources, self.order) if len(self) else rows_to_columns([])


def _without_values(rows: RowColumns) -> RowColumns:
    nothing = np.zeros(len(rows), np.int64)
    return replace(rows, value_bytes=np.zeros(0, np.uint8), value_starts=nothing, value_lengths=nothing)


NO_ROWS = WalShare((), np.empty(0, np.int64))
