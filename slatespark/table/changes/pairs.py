"""The rows of two versions side by side: two streams in key order -> windows that hold the same keys of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import lower_bound, merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import ROW_BITS, RowColumns
from slatespark.ranges import key_after

Rows: TypeAlias = tuple[Sequence[RowColumns], NDArray[np.int64]]  # sources, and packed rows of them


@dataclass(slots=True)
class _Stream:
    """A stream of rows, of which some have been taken."""

    windows: Iterator[Rows]
    rows: RowColumns | None = None
    at: int = 0
    _ended: bool = field(default=False)

    def load(self) -> bool:
        """Make sure that there are rows to take; False at the end."""
        while not self._ended and (self.rows is None or self.at == len(self.rows)):
            found = next(self.windows, None)
            if found is None:
                self._ended, self.rows = True, None
            else:
                self.rows, self.at = take_rows(*found), 0
        return self.rows is not None

    def last_key(self) -> bytes:
        """Return the last key that is loaded."""
        assert self.rows is not None
        return self.rows.key(len(self.rows) - 1)

    def take(self, last: bytes) -> Rows:
        """Take the rows up to a key, inclusive."""
        if self.rows is None:
            return [], np.zeros(0, np.int64)
        end = lower_bound(self.rows, key_after(last), self.at, len(self.rows))
        taken, self.at = np.arange(self.at, end, dtype=np.int64), end
        return [self.rows], taken


def aligned(*windows: Iterator[Rows]) -> Iterator[tuple[Rows, ...]]:
    """Yield the rows of several streams, up to the same key of each at a time.

    Requires: keys ascending, each once in a stream.
    """
    streams = [_Stream(each) for each in windows]
    while live := [stream for stream in streams if stream.load()]:
        last = min(stream.last_key() for stream in live)
        yield tuple(stream.take(last) for stream in streams)


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Rows of two versions in key order, the old row of a key before the new one.

    Attributes
    ----------
    sources, rows : packed rows
    is_new : (m,) whether a row is of the new version
    is_pair : (m,) whether the other version has the key too
    """

    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    is_new: NDArray[np.bool_]
    is_pair: NDArray[np.bool_]


def pair_rows(old: Rows, new: Rows) -> Paired:
    """Return the rows of two versions, put together by key; each key once in a version."""
    sources = [take_rows(*old), take_rows(*new)]
    rows = in_key_order(sources)
    key_number = np.cumsum(new_key_mask(sources, rows))
    is_new = (rows >> ROW_BITS) == 1
    order = np.lexsort((is_new, key_number))
    rows, key_number, is_new = rows[order], key_number[order], is_new[order]
    is_pair = np.zeros(len(rows), np.bool_)
    first = np.flatnonzero(key_number[1:] == key_number[:-1])
    is_pair[first] = is_pair[first + 1] = True
    return Paired(sources, rows, is_new, is_pair)


def in_key_order(sources: Sequence[RowColumns]) -> NDArray[np.int64]:
    """Return all rows of some sources, each of which has its keys in order."""
    return merge_all(sources, np.zeros(len(sources), np.int64), np.array([len(each) for each in sources], np.int64))
