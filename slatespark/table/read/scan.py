"""Split -> visible rows as Arrow batches: the windowed merge of its layers. Memory is bounded by `readBuffer`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.format.row import Row, RowKind
from slatespark.kernels import merge_visible
from slatespark.kernels.columns import (
    GROUP_HEAD,
    GROUP_REST,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    ROW_BITS,
    RowColumns,
    Selection,
    Visibility,
)
from slatespark.kernels.lifetimes import expired, reached
from slatespark.ranges import KeyRange
from slatespark.table.read.held_tail import fetch_sorted_tail
from slatespark.table.read.materialise import Materialiser, UndecodableRows, join_small
from slatespark.table.read.merge.cursor import (
    LayerCursor,
    Window,
    bytes_ahead,
    layer_windows,
    open_cursors,
    window_size,
)
from slatespark.table.read.merge.fold_groups import fold_groups, fold_selection
from slatespark.table.read.merge.joined_windows import join_windows
from slatespark.table.read.merge.merge_function import MergeFunction, row_at
from slatespark.table.read.merge.retention import hide_retired, may_be_due
from slatespark.table.read.merge.validity import Intervals, ValiditySettings, interval_columns, valid_intervals
from slatespark.table.read.merge.windows import LongKey, whole_key_windows
from slatespark.table.read.planning.plan import Split, cut_layers
from slatespark.table.read.planning.row_cuts import cut_rows, has_rows
from slatespark.table.read.points import key_cursors
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores

MAX_PARTS: Final = 256  # of a long key with operands, each folded to a row, before all of them are


def scan_split(
    stores: TableStores, split: Split, settings: ScanSettings, tally: UndecodableRows | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the visible rows of a split in key order.

    Parameters
    ----------
    tally : counts undecodable rows, if they are ignored; without one this warns of them at the end

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, OptionError (operands without an operator), UnavailableError
    """
    counted = UndecodableRows() if tally is None else tally
    made = Materialiser(
        settings.projection, settings.residual, settings.table, counted if settings.ignore_undecodable else None
    )
    try:
        if settings.validity is not None:
            yield from join_small(_interval_batches(stores, split, settings, settings.validity, made))
        else:
            yield from join_small(
                batch
                for window in join_windows(visible_rows(stores, split, settings))
                for batch in made.batches(*window)
            )
    finally:
        if tally is None:
            counted.warn(settings.table)


def split_intervals(
    stores: TableStores, split: Split, settings: ScanSettings, validity: ValiditySettings
) -> Iterator[Intervals]:
    """Yield the versions of a split that were ever valid, with their intervals; raises as `scan_split`."""
    return valid_intervals(visible_rows(stores, split, settings), validity, settings.fold)


def visible_rows(
    stores: TableStores, split: Split, settings: ScanSettings
) -> Iterator[tuple[list[RowColumns], NDArray[np.int64]]]:
    """Yield the packed rows of a split that are visible, keys ascending; raises as `scan_split`."""
    if split.copies:
        yield from _rows_with_copies(stores, split, settings)
        return
    for cursors in _open_chunks(stores, split, settings):
        yield from _merged_rows(cursors, settings)


def _rows_with_copies(
    stores: TableStores, split: Split, settings: ScanSettings
) -> Iterator[tuple[list[RowColumns], NDArray[np.int64]]]:
    """Yield the same from columnar copies where they pay; newer rows are laid over them by key."""
    from slatespark.table.read.copies.choice import choose_copies  # most tables have none
    from slatespark.table.read.copies.usable import covered_slices
    from slatespark.table.read.copies.windows import CopyReads

    tail = _tail_rows(stores, split, settings)
    covered = covered_slices(split, lambda keys: any(has_rows(rows, keys) for rows in tail))
    parts = choose_copies(stores, split, settings, is_covered=covered).parts
    share = (settings.buffer_bytes, len(split.layers))
    window_bytes = window_size(*share)
    copied = {found.part: found for found in parts}
    reads = CopyReads(copied, settings.projection, settings.columns, bytes_ahead(*share))
    start: bytes | None = split.keys.start
    for found in [*(found for found in parts if not found.is_covered), None]:
        keys = KeyRange(start or b"", split.keys.end if found is None else found.part.keys.start)
        if start is not None and not keys.is_empty():
            layers, newer = cut_layers(split.layers, keys), _cut(tail, [keys])
            cursors = open_cursors(stores, layers, newer, window_bytes, windows=reads.layer_windows)
            yield from _merged_rows(cursors, settings)
        if found is not None:
            yield from _live_rows(reads.part_windows(stores, found, window_bytes), settings)
            start = found.part.keys.end


def _merged_rows(
    cursors: Sequence[LayerCursor], settings: ScanSettings
) -> Iterator[tuple[list[RowColumns], NDArray[np.int64]]]:
    for sources, selection in visible_windows(
        cursors, settings.visibility, settings.fold, retired_ms=settings.retired_ms
    ):
        yield sources, selection.rows


def _live_rows(
    windows: Iterator[Window], settings: ScanSettings
) -> Iterator[tuple[list[RowColumns], NDArray[np.int64]]]:
    """Yield the visible rows of windows that hold the only version of each of their keys, a put within the read."""
    for window in windows:
        rows = window.indices
        if not settings.visibility.include_expired:
            rows = rows[~expired(window.rows, settings.visibility.now_ms)[window.low : window.high]]
        selection = Selection(rows, np.zeros(len(rows), np.uint8))
        if settings.retired_ms is not None:
            selection = hide_retired([window.rows], selection, settings.retired_ms)
        if len(selection.rows):
            yield [window.rows], selection.rows


def _interval_batches(
    stores: TableStores, split: Split, settings: ScanSettings, validity: ValiditySettings, made: Materialiser
) -> Iterator[pa.RecordBatch]:
    own = settings.projection.codec.schema.names
    for found in split_intervals(stores, split, settings, validity):
        columns = interval_columns(found, validity.now_ms)
        sources, rows, *_ = found
        yield from made.batches(sources, rows, {name: columns[name] for name in columns if name not in own})


def _open_chunks(stores: TableStores, split: Split, settings: ScanSettings) -> Iterator[list[LayerCursor]]:
    """Yield the cursors of each part of a split, newest layer first; but for own writes the WAL tail is the newest."""
    tail = _tail_rows(stores, split, settings)
    if split.points is not None:
        yield from key_cursors(stores, split.layers, split.points, tail, buffer_bytes=settings.buffer_bytes)
        return
    share = (settings.buffer_bytes, len(split.layers))
    windows = partial(layer_windows, ahead_bytes=bytes_ahead(*share))
    yield open_cursors(stores, split.layers, tail, window_size(*share), windows=windows)


def _tail_rows(stores: TableStores, split: Split, settings: ScanSettings) -> list[RowColumns]:
    """Return the rows of the WAL in a split as sorted sources, newer first; of one with points also others."""
    if split.wal is not None:
        return [split.wal.rows()]
    if not settings.has_tail:
        return []
    limit_bytes = settings.wal_buffer_bytes
    tail = fetch_sorted_tail(stores, settings.wal, settings.wal_above_seq, split.keys, limit_bytes=limit_bytes)
    return tail if split.points is not None else _cut(tail, split.ranges or [split.keys])


def _cut(tail: Sequence[RowColumns], ranges: Sequence[KeyRange]) -> list[RowColumns]:
    """Return of each source the rows in some ranges, if it has any."""
    return [rows for source in tail if (rows := cut_rows(source, ranges)) is not None]


def visible_windows(
    cursors: Sequence[LayerCursor], visibility: Visibility, fold: MergeFunction | None, *, retired_ms: int | None = None
) -> Iterator[tuple[list[RowColumns], Selection]]:
    """Merge cursors window by window; yields sources and the selection of plain rows from them, keys ascending.

    Parameters
    ----------
    cursors : newest layer first
    visibility, fold, retired_ms : as in `ScanSettings`
    """
    for window in whole_key_windows(cursors):
        if isinstance(window, LongKey):
            yield from _visible_versions(window, visibility, fold, retired_ms=retired_ms)
            continue
        sources, lows, highs = window.sources, window.lows, window.highs
        selection = merge_visible(sources, lows, highs, visibility)
        if retired_ms is not None and may_be_due(sources, lows, highs, retired_ms):
            selection = hide_retired(sources, selection, retired_ms)
        if len(selection.rows):
            yield fold_selection(sources, selection, fold)


def _visible_versions(
    found: LongKey, visibility: Visibility, fold: MergeFunction | None, *, retired_ms: int | None
) -> Iterator[tuple[list[RowColumns], Selection]]:
    """Yield the visible rows of a key whose versions do not fit a window."""
    group: list[tuple[RowColumns, int]] = []
    settled = False
    for source, low, high in found.parts:
        if visibility.all_versions:
            yield [source], merge_visible([source], np.array([low], np.int64), np.array([high], np.int64), visibility)
        elif not settled:
            held = len(group)
            settled = _take_versions(group, source, low, high, visibility)
            if fold is not None:  # else it is needed only if the row is shown
                group[held:] = _folded(group[held:], fold)
                group = _folded(group, fold) if len(group) > MAX_PARTS else group
    if not group:
        return
    sources, rows = _packed(group)
    marks = np.full(len(group), GROUP_REST, np.uint8)
    marks[0] = GROUP_HEAD if group[0][0].flags[group[0][1]] & MERGE else PLAIN
    selection = Selection(rows, marks)
    if retired_ms is not None:
        selection = hide_retired(sources, selection, retired_ms)
    if len(selection.rows):
        yield fold_selection(sources, selection, fold)


def _folded(group: list[tuple[RowColumns, int]], fold: MergeFunction) -> list[tuple[RowColumns, int]]:
    """Return versions of a key, newest first, as one: the rest of a long key may be more than memory holds."""
    if len(group) < 2:
        return group
    sources, rows = _packed(group)
    return [(fold_groups(sources, rows, np.arange(len(rows)) == 0, fold, keeps_operands=True), 0)]


def _packed(group: Sequence[tuple[RowColumns, int]]) -> tuple[list[RowColumns], NDArray[np.int64]]:
    """Return rows with each source once."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(source for source, _ in group))}
    return list(numbers), np.array([numbers[source] << ROW_BITS | at for source, at in group], np.int64)


def _take_versions(
    group: list[tuple[RowColumns, int]], rows: RowColumns, low: int, high: int, visibility: Visibility
) -> bool:
    """Add the versions that decide what the key shows; True once older ones do not matter."""
    for at in range(low, high):
        row = row_at([rows], at)
        if row.seq > visibility.max_seq or _is_later(row, visibility.max_create_ts_ms):
            continue
        expired = not visibility.include_expired and reached(
            int(rows.flags[at]), HAS_EXPIRE, int(rows.expire_ts[at]), visibility.now_ms
        )
        if row.kind is RowKind.MERGE:
            if not expired:
                group.append((rows, at))
            continue
        shown = visibility.include_deleted and not group if row.kind is RowKind.DELETE else not expired
        if shown:
            group.append((rows, at))
        return True
    return False


def _is_later(row: Row, max_create_ts_ms: int | None) -> bool:
    return max_create_ts_ms is not None and row.create_ts_ms is not None and row.create_ts_ms > max_create_ts_ms
