"""Limits of a batch: up to which key the changes between two versions are read at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange
from slatespark.table.changes.plan import ChangePlan, ChangeSplit, with_tails
from slatespark.table.changes.scan import scan_changed_keys
from slatespark.table.read.planning.layers import distinct_files
from slatespark.table.stores import TableStores

# Rows are counted where the limit is applied, not where they are read. A batch ends after so many splits without
# enough of them, so that no compaction, which changes nothing, is searched in one place.
_COUNTED_SPLITS: Final = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a batch may be; None for no limit.

    Attributes
    ----------
    rows : changes, unless those of one key are more
    size_bytes : stored bytes of what is searched for changes
    files : the same, in files of average size
    """

    rows: int | None = None
    size_bytes: int | None = None
    files: int | None = None

    @property
    def are_given(self) -> bool:
        """Whether there is any limit."""
        return self != Limits()


class LimitedUnit:
    """The changes between two versions, which are more than a batch may have.

    Parameters
    ----------
    plan_of : keys, and stored bytes of a split (None for those of the options) -> the plan of their changes
    """

    def __init__(
        self, stores: TableStores, plan_of: Callable[[KeyRange, int | None], ChangePlan], limits: Limits
    ) -> None:
        self._stores, self._plan_of, self._limits = stores, plan_of, limits
        self._borders: list[bytes] | None = None
        self._rows: _CountedRows | None = None

    def end_of_batch(self, start: bytes) -> bytes | None:
        """Return the key before which the batch that starts with a key ends; None if it has all that is left."""
        border = self._next_border(start)
        if self._limits.rows is None:
            return border
        rows, self._rows = self._rows, None  # kept only if this goes well: a read that failed cannot be gone on with
        if rows is None or rows.reached != start:
            plan = with_tails(self._stores, self._plan_of(KeyRange(start), None))
            rows = _CountedRows(self._stores, plan, start)
        end = rows.take(self._limits.rows, border)
        self._rows = rows
        return end

    def _next_border(self, start: bytes) -> bytes | None:
        """Return where the stored bytes from `start` on reach the limit."""
        if self._limits.size_bytes is None and self._limits.files is None:
            return None
        if self._borders is None:
            self._borders = self._plan_borders()
        position = bisect_right(self._borders, start)
        return self._borders[position] if position < len(self._borders) else None

    def _plan_borders(self) -> list[bytes]:
        """Return the ends of all batches but the last, by size alone: the same ones wherever a batch starts."""
        sizes = [] if self._limits.size_bytes is None else [self._limits.size_bytes]
        if self._limits.files is not None:
            plan = self._plan_of(KeyRange(), None)
            files = distinct_files([layer for split in plan.splits for layer in split.searched])
            average = sum(file.data_bytes for file in files) // max(1, len(files))
            sizes.append(max(1, average) * self._limits.files)
        splits = self._plan_of(KeyRange(), min(sizes)).splits
        return [end for split in splits[:-1] if (end := split.keys.end) is not None]


@dataclass(slots=True)
class _Chunk:
    """Changed rows, and where in them each key begins; those from `at` on are left."""

    rows: RowColumns
    starts: NDArray[np.int64]
    at: int = 0

    def key(self, number: int) -> bytes:
        return self.rows.key(int(self.starts[number]))

    def count(self, low: int, high: int) -> int:
        """Return the rows of the keys [low, high)."""
        ends = [int(self.starts[at]) if at < len(self.starts) else len(self.rows) for at in (low, high)]
        return ends[1] - ends[0]

    def keys_of(self, most_rows: int) -> int:
        """Return the end of the keys that have no more rows together than that."""
        ends = np.append(self.starts[1:], len(self.rows)) - self.starts[self.at]
        return int(np.searchsorted(ends, most_rows, side="right"))


class _CountedRows:
    """The changed rows of a plan in key order, taken batch by batch.

    Attributes
    ----------
    reached : the key before which rows have been taken
    """

    def __init__(self, stores: TableStores, plan: ChangePlan, start: bytes) -> None:
        self.reached = start
        self._stores, self._plan = stores, plan
        self._parts = self._read()
        self._chunk: _Chunk | None = None

    def take(self, most_rows: int, border: bytes | None) -> bytes | None:
        """Take as many rows as there may be, but those of one key at least, and return the key before which they end.

        Parameters
        ----------
        border : the key before which the batch ends anyway; None for no such key
        """
        self.reached = self._end(most_rows, border) or b""
        return self.reached or None

    def _end(self, most_rows: int, border: bytes | None) -> bytes | None:
        taken = passed = 0
        while True:
            if self._chunk is None:
                part = next(self._parts, None)
                if part is None:
                    return border
                if isinstance(part, _Chunk):
                    self._chunk = part
                    continue
                passed += 1
                if passed >= _COUNTED_SPLITS and part.keys.end is not None:
                    return part.keys.end if border is None else min(border, part.keys.end)
                continue
            chunk = self._chunk
            end = max(chunk.keys_of(most_rows - taken), chunk.at)
            if end == chunk.at and not taken:
                end += 1  # the changes of one key are more than the limit
            if border is not None:
                end = min(end, bisect_left(range(len(chunk.starts)), border, chunk.at, key=chunk.key))
            taken += chunk.count(chunk.at, end)
            chunk.at = end
            if end < len(chunk.starts):
                return chunk.key(end) if border is None else min(border, chunk.key(end))
            self._chunk = None

    def _read(self) -> Iterator[_Chunk | ChangeSplit]:
        """Yield the rows of each split, and then the split."""
        for split in self._plan.splits:
            for rows, starts in scan_changed_keys(self._stores, split, self._plan.settings):
                yield _Chunk(rows, starts)
            yield split
