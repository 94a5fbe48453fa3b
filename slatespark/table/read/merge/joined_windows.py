"""Small windows of rows, joined before their rows are copied.

Windows of overlapping files end near each other, so a merge yields a large window, then a small one for each file. It
costs a fixed time to copy the rows of a window, and small batches that are joined later are copied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import ROW_BITS, ROW_MASK, RowColumns
from slatespark.table.read.arrow import SMALL_BATCH_ROWS

PackedRows: TypeAlias = tuple[list[RowColumns], NDArray[np.int64]]


def join_windows(windows: Iterable[PackedRows]) -> Iterator[PackedRows]:
    """Yield the same rows, with consecutive small windows as one.

    Rows that wait hold at most as many sources as the window after them has, beside those of that window.

    Parameters
    ----------
    windows : sources and packed rows of them
    """
    waiting = _Waiting()
    for window in windows:
        sources, rows = window
        if not waiting.parts and len(rows) >= SMALL_BATCH_ROWS:
            yield window
            continue
        waiting.add(sources, rows)
        if waiting.count >= SMALL_BATCH_ROWS or len(waiting.sources) > 2 * len(sources):
            yield waiting.joined()
            waiting = _Waiting()
    if waiting.parts:
        yield waiting.joined()


@dataclass(slots=True)
class _Waiting:
    """The rows of some windows, packed with the numbers of all their sources."""

    sources: list[RowColumns] = field(default_factory=list)
    parts: list[NDArray[np.int64]] = field(default_factory=list)
    count: int = 0
    _numbers: dict[int, int] = field(default_factory=dict)  # by identity: `sources` keeps them alive

    def add(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> None:
        """Add a window; most of its sources are those of the window before."""
        for source in sources:
            if id(source) not in self._numbers:
                self._numbers[id(source)] = len(self.sources)
                self.sources.append(source)
        numbers = np.array([self._numbers[id(source)] for source in sources], np.int64) << ROW_BITS
        self.parts.append(numbers[rows >> ROW_BITS] | rows & ROW_MASK)
        self.count += len(rows)

    def joined(self) -> PackedRows:
        """Return all rows as one window."""
        return self.sources, np.concatenate(self.parts)
