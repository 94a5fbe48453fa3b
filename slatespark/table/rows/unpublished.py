"""Merging files that no manifest shows yet: the chunks that a task spilled, and the files of several tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns, Visibility
from slatespark.table.read.cursor import LayerCursor, layer_windows, window_size
from slatespark.table.read.plan import Layer
from slatespark.table.read.scan import visible_windows
from slatespark.table.stores import TableStores
from slatespark.units import MIN_MS

Source: TypeAlias = tuple[TableStores, Layer]  # a layer, and where its files lie

_EVERYTHING: Final = Visibility(max_seq=2**64 - 1, now_ms=MIN_MS, all_versions=True)


def merged_descending(
    sources: Sequence[Source], buffer_bytes: int
) -> Iterator[tuple[list[RowColumns], NDArray[np.int64]]]:
    """Yield all rows, window by window in key order: columns, and packed rows, keys descending, oldest first in a key.

    Requires: each source holds a key once, so that all versions of a key are in one window.

    Parameters
    ----------
    sources : newest first
    buffer_bytes : memory for stored bytes in flight
    """
    window_bytes = window_size(buffer_bytes, len(sources))
    cursors = [LayerCursor(layer_windows(stores, layer, window_bytes)) for stores, layer in sources]
    for window, selection in visible_windows(cursors, _EVERYTHING, None):
        yield window, selection.rows[::-1]
