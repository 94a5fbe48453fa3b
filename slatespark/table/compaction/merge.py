"""Merging the layers of a key range into new files. See docs/explanation/what-a-compaction-keeps.md.

A window holds whole keys, and is decided, folded and written as a whole. A key whose versions go beyond a window is
gone through twice: once for its times, which decide, and once for its values. So memory is bounded by windows, but for
about 25 bytes for each version of a single key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_fields, merge_all
from slatespark.kernels.columns import GROUP_HEAD, GROUP_REST, ROW_BITS, Retention, RowColumns
from slatespark.kernels.results import Fields
from slatespark.options import WriteOptions
from slatespark.options.values import MergeOperator
from slatespark.ranges import KeyRange, key_after
from slatespark.table.clock import Clock
from slatespark.table.compaction.filter_rows import FilterStage, FilterTally
from slatespark.table.read.cursor import LayerCursor, layer_windows, window_size
from slatespark.table.read.fetch import measure_slice
from slatespark.table.read.merge_function import resolve_operator
from slatespark.table.read.merge_windows import LongKey, whole_key_windows
from slatespark.table.read.plan import Layer, cut_layers
from slatespark.table.retention.retained_rows import RowKeeper
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Which versions a compaction keeps; the same for all of its ranges, and picklable if the operator is.

    Attributes
    ----------
    now_ms : expired is what expires at or before it; None if nothing is
    min_seq : of each key every version above it stays, and the newest at or below it; for history tables
        `2**64 - 1` leaves it to the floor
    drops_tombstones : nothing older than the sources holds any of their keys
    floor_ms : of history tables, what was created after it stays as it is; None if everything does
    has_history : whether it is a history table
    retired_ms : of plain tables with retention, what was created at or before it goes; None if nothing does
    merge_operator : how operands fold; None if there must not be any
    """

    now_ms: int | None
    min_seq: int
    drops_tombstones: bool
    floor_ms: int | None = None
    has_history: bool = False
    retired_ms: int | None = None
    merge_operator: MergeOperator | None = None

    def retention(self) -> Retention:
        """Return what they mean for the versions of a key."""
        if not self.has_history:
            return Retention(
                min_seq=self.min_seq,
                now_ms=self.now_ms,
                retired_ms=self.retired_ms,
                drops_tombstones=self.drops_tombstones,
            )
        if self.floor_ms is None:  # the lowest number of all: every version lies above it, or is the oldest of its key
            return Retention(min_seq=0)
        return Retention(
            min_seq=self.min_seq,
            now_ms=None if self.now_ms is None else min(self.now_ms, self.floor_ms),
            floor_ms=self.floor_ms,
            drops_tombstones=self.drops_tombstones,
        )


@dataclass(frozen=True, slots=True)
class MergedRange:
    """What became of a key range.

    Attributes
    ----------
    files : uploaded, in key order; empty if nothing is left
    rows_in, rows_out : versions read, and versions in the files
    expired : versions that had expired, or were past retention: they are gone, or tombstones by now
    dropped : versions that are in no file: hidden, expired, folded into others, filtered, or tombstones
    filtered : versions that filters dropped, made tombstones of, or changed
    bytes_in, bytes_out : stored bytes of the blocks read, and of the files
    """

    files: tuple[NewFile, ...]
    rows_in: int = 0
    rows_out: int = 0
    expired: int = 0
    dropped: int = 0
    filtered: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


def merge_range(
    stores: TableStores,
    clock: Clock,
    layers: Sequence[Layer],
    rules: MergeRules,
    options: WriteOptions,
    planned_ms: int,
    filters: FilterStage | None = None,
) -> MergedRange:
    """Merge the layers of a key range, and upload what stays.

    Parameters
    ----------
    layers : newest first, cut to the range; never the WAL
    rules : what stays
    options : codec, block, file and filter sizes; `writeBuffer` bounds the memory for stored bytes in flight
    planned_ms : time part of file ids, the driver's
    filters : are asked about what stays; None if there are none

    Raises
    ------
    InvalidRequestError
        When a filter fails, or answers with something else than decisions.
    CorruptDataError, SnapshotExpiredError, UnavailableError
        When the sources cannot be read.
    OptionError
        When there are merge operands, and no operator.
    """
    keeper = RowKeeper(rules.retention(), resolve_operator(rules.merge_operator))
    window_bytes = window_size(options.write_buffer_bytes, len(layers))
    pieces, tally = LayerMerge(stores, layers, keeper, window_bytes).pieces(), FilterTally()
    if filters is not None:
        pieces = filters.apply(pieces, tally)
    files = upload_sorted(stores.main, pieces, options, clock, planned_ms)
    rows_out = sum(file.properties.num_rows for file in files)
    return MergedRange(
        files=files,
        rows_in=keeper.rows_in,
        rows_out=rows_out,
        expired=keeper.outdated,
        dropped=keeper.rows_in - rows_out,
        filtered=tally.dropped + tally.buried + tally.replaced,
        bytes_in=sum(measure_slice(stores, part) for layer in layers for part in layer.slices),
        bytes_out=sum(file.size for file in files),
    )


@dataclass(slots=True)
class LayerMerge:
    """The layers of a range on their way into new files.

    Attributes
    ----------
    layers : newest first
    keeper : decides what stays
    window_bytes : of each layer that are held at a time
    """

    stores: TableStores
    layers: Sequence[Layer]
    keeper: RowKeeper
    window_bytes: int

    def pieces(self) -> Iterator[SortedRows]:
        """Yield what stays, in key order, newest first within a key."""
        cursors = [self._cursor(layer) for layer in self.layers]
        for window in whole_key_windows(cursors):
            if isinstance(window, LongKey):
                yield from self._long_key(window)
            else:
                sources = window.sources
                yield self.keeper.of_window(sources, merge_all(sources, window.lows, window.highs))

    def _cursor(self, layer: Layer) -> LayerCursor:
        return LayerCursor(layer_windows(self.stores, layer, self.window_bytes))

    # --- a key whose versions go beyond a window ------------------------------------------------------------------

    def _long_key(self, found: LongKey) -> Iterator[SortedRows]:
        fields = self._key_fields(found)
        first = np.zeros(len(fields.seqs), np.bool_)
        first[0] = True
        self.keeper.rows_in += len(first)
        yield from self._key_pieces(found.key, self.keeper.decide(fields, first))

    def _key_fields(self, found: LongKey) -> Fields:
        """Consume the key, and return what decides about its versions."""
        parts: list[Fields] = []
        for rows, low, high in found.parts:
            span = np.arange(low, high, dtype=np.int64)
            parts.append(gather_fields([rows], span))
            self.keeper.refuse_operands(parts[-1], [rows], span)
        return Fields(
            seqs=np.concatenate([part.seqs for part in parts]),
            flags=np.concatenate([part.flags for part in parts]),
            create_ts=np.concatenate([part.create_ts for part in parts]),
            expire_ts=np.concatenate([part.expire_ts for part in parts]),
        )

    def _key_pieces(self, key: bytes, marks: NDArray[np.uint8]) -> Iterator[SortedRows]:
        """Yield what stays of a key, which is read once more."""
        seen = 0
        open_group: RowColumns | None = None  # what the operands of a group that goes on have folded to so far
        for layer in cut_layers(self.layers, KeyRange(key, key_after(key))):
            for window in layer_windows(self.stores, layer, self.window_bytes):
                rows = np.arange(window.low, window.high, dtype=np.int64)
                sources, own = [window.rows], marks[seen : seen + len(rows)]
                seen += len(rows)
                if open_group is not None:
                    rows = np.append(np.int64(1 << ROW_BITS), rows)
                    sources, own = [*sources, open_group], np.append(np.uint8(GROUP_HEAD), own)
                    open_group = None
                if seen < len(marks) and marks[seen] == GROUP_REST:
                    head = int(np.flatnonzero(own != GROUP_REST)[-1])
                    open_group = self.keeper.folded(sources, rows[head:])
                    rows, own = rows[:head], own[:head]
                sources, rows = self.keeper.apply(sources, rows, own)
                yield SortedRows(sources, rows)
