"""Split -> visible rows as Arrow batches: the windowed merge of its layers. Memory is bounded by `readBuffer`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import merge_visible
from slatespark.kernels.columns import (
    GROUP_HEAD,
    GROUP_REST,
    HAS_EXPIRE,
    PLAIN,
    RowColumns,
    Selection,
    Visibility,
)
from slatespark.kernels.lifetimes import reached
from slatespark.table.read.arrow import Projection
from slatespark.table.read.cursor import LayerCursor, open_cursors, window_size
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.fold_groups import fold_selection
from slatespark.table.read.materialise import Materialiser, UndecodableRows, join_small
from slatespark.table.read.merge_function import MergeFunction, row_at
from slatespark.table.read.merge_windows import LongKey, whole_key_windows
from slatespark.table.read.plan import Split
from slatespark.table.read.points import key_cursors
from slatespark.table.read.retention import hide_retired, may_be_due
from slatespark.table.read.row_cuts import cut_rows
from slatespark.table.read.validity import Intervals, ValiditySettings, interval_columns, valid_intervals
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Filter


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """The rows that a scan shows, and the memory it may use.

    Attributes
    ----------
    visibility : which versions
    projection : which columns
    fold : the merge operator, None if not given
    wal : tail of the snapshot
    wal_above_seq : rows of the tail with seq <= it are in the trees
    buffer_bytes : memory for stored bytes in flight
    residual : of the visible rows only those are shown for which it is true; None shows all
    ignore_undecodable : leave out rows that do not decode
    retired_ms : rows created at or before it are hidden by the table's retention; None hides none
    validity : show all versions with the intervals in which they were valid; None shows rows as usual
    table : where the table is, for messages
    """

    visibility: Visibility
    projection: Projection
    fold: MergeFunction | None
    wal: WalTail
    wal_above_seq: int
    buffer_bytes: int
    residual: Filter | None = None
    ignore_undecodable: bool = False
    retired_ms: int | None = None
    validity: ValiditySettings | None = None
    table: str = ""


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
                batch for found in visible_rows(stores, split, settings) for batch in made.batches(*found)
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
    for cursors in _open_chunks(stores, split, settings):
        for sources, selection in visible_windows(
            cursors, settings.visibility, settings.fold, retired_ms=settings.retired_ms
        ):
            yield sources, selection.rows


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
    rows = _wal_rows(stores, split, settings)
    if split.points is not None:
        yield from key_cursors(stores, split.layers, split.points, rows, buffer_bytes=settings.buffer_bytes)
        return
    window_bytes = window_size(settings.buffer_bytes, len(split.layers))
    yield open_cursors(stores, split.layers, [] if rows is None else [rows], window_bytes)


def _wal_rows(stores: TableStores, split: Split, settings: ScanSettings) -> RowColumns | None:
    """Return the rows of the WAL in a split, sorted; of one with points also others."""
    if split.wal is not None:
        return split.wal.rows
    if settings.wal.last_seq <= settings.wal_above_seq:
        return None
    rows = fetch_wal_rows(stores, settings.wal, settings.wal_above_seq, split.keys)
    return rows if rows is None or not split.ranges else cut_rows(rows, split.ranges)


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
    group: list[Row] = []
    settled = False
    for rows, low, high in found.parts:
        if visibility.all_versions:
            yield [rows], merge_visible([rows], np.array([low], np.int64), np.array([high], np.int64), visibility)
        elif not settled:
            settled = _take_versions(group, rows, low, high, visibility)
    if not group:
        return
    sources, marks = [rows_to_columns(group)], np.full(len(group), GROUP_REST, np.uint8)
    marks[0] = GROUP_HEAD if group[0].kind is RowKind.MERGE else PLAIN
    selection = Selection(np.arange(len(group), dtype=np.int64), marks)
    if retired_ms is not None:
        selection = hide_retired(sources, selection, retired_ms)
    if len(selection.rows):
        yield fold_selection(sources, selection, fold)


def _take_versions(group: list[Row], rows: RowColumns, low: int, high: int, visibility: Visibility) -> bool:
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
                group.append(row)
            continue
        shown = visibility.include_deleted and not group if row.kind is RowKind.DELETE else not expired
        if shown:
            group.append(row)
        return True
    return False


def _is_later(row: Row, max_create_ts_ms: int | None) -> bool:
    return max_create_ts_ms is not None and row.create_ts_ms is not None and row.create_ts_ms > max_create_ts_ms
