"""The rows that one version shows of some keys: looked up, or picked from all rows between the first and the last key.

A lookup asks filters and indexes about each key. Where the keys are so dense that every block has many of them, all
blocks are read anyway, and to read them from one end to the other costs less. Either way only rows with these keys are
merged: other keys need not have an operator for their operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import match_keys, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange, key_after
from slatespark.table.changes.pairs import Rows
from slatespark.table.read.fetch import fetch_index
from slatespark.table.read.merge.cursor import LayerCursor, Window, layer_windows, memory_windows, window_size
from slatespark.table.read.planning.plan import Layer, cut_layers
from slatespark.table.read.points import SoughtKeys, key_cursors
from slatespark.table.read.scan import visible_windows
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores

_FEW: Final = 256  # keys that are looked up without a glance at the indexes
_DENSE: Final = 16  # keys for each block; with five, lookups took two thirds of the time of the range

_Sought = tuple[NDArray[np.uint8], NDArray[np.int64]]


def shown_rows(
    stores: TableStores, layers: Sequence[Layer], keys: Sequence[bytes], settings: ScanSettings, tail: RowColumns | None
) -> Iterator[Rows]:
    """Yield the rows of some keys that a version shows, keys ascending.

    Parameters
    ----------
    layers : the layers of the version
    keys : ascending and distinct
    tail : the rows of its WAL, as far as they may have these keys

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
    """
    for cursors in _cursors(stores, layers, keys, settings, tail):
        found = visible_windows(cursors, settings.visibility, settings.fold, retired_ms=settings.retired_ms)
        for sources, selection in found:
            yield sources, selection.rows


def _cursors(
    stores: TableStores, layers: Sequence[Layer], keys: Sequence[bytes], settings: ScanSettings, tail: RowColumns | None
) -> Iterator[list[LayerCursor]]:
    """Yield cursors over the rows of some keys, newest layer first; a chunk of the keys at a time."""
    if not are_dense(stores, layers, keys):
        newest = () if tail is None else (tail,)
        yield from key_cursors(stores, layers, keys, newest, buffer_bytes=settings.buffer_bytes)
        return
    window_bytes = window_size(settings.buffer_bytes, len(layers))
    windows = [] if tail is None else [memory_windows(tail)]
    windows += [layer_windows(stores, layer, window_bytes) for layer in cut_layers(layers, _span(keys))]
    sought = SoughtKeys.of(keys).between(0, len(keys))
    yield [LayerCursor(_picked(each, sought)) for each in windows]


def are_dense(stores: TableStores, layers: Sequence[Layer], keys: Sequence[bytes]) -> bool:
    """Tell whether some keys are so dense in the files of a version that all blocks between them are read."""
    if len(keys) < _FEW:
        return False
    blocks = 0
    for layer in cut_layers(layers, _span(keys)):
        for part in layer.slices:
            first, end = fetch_index(stores, part.file).blocks_for(part.keys)
            blocks += end - first
    return len(keys) >= _DENSE * blocks


def _picked(windows: Iterator[Window], sought: _Sought) -> Iterator[Window]:
    """Yield the same windows with the sought rows alone, but for those that have none."""
    for window in windows:
        indices = match_keys(window.rows, window.low, window.high, *sought)
        if len(indices):
            yield Window(take_rows([window.rows], indices), 0, len(indices), window.bound)


def _span(keys: Sequence[bytes]) -> KeyRange:
    return KeyRange(keys[0], key_after(keys[-1]))
