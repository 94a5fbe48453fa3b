"""Merging the layers of a key range into new files. See docs/explanation/what-a-compaction-keeps.md.

A window holds whole keys, and is decided, folded and written as a whole. A key whose versions exceed a window is read
twice: once for the times, which decide, and once for the values. So windows bound the memory, except for about 25 bytes
per version of a single key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.kernels import gather_fields, merge_all
from slatespark.kernels.columns import GROUP_HEAD, GROUP_REST, ROW_BITS, Retention, RowColumns
from slatespark.kernels.results import Fields
from slatespark.options import WriteOptions
from slatespark.options.values import MergeOperator
from slatespark.ranges import KeyRange, key_after
from slatespark.table.clock import Clock
from slatespark.table.columns.write import CopyOutcome, CopyRule, write_copy
from slatespark.table.compaction.filter_rows import FilterStage, FilterTally
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.fetch import measure_slices
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows, window_size
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.merge.windows import LongKey, whole_key_windows
from slatespark.table.read.planning.plan import Layer, cut_layers
from slatespark.table.rows.row_keeper import RowKeeper
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.stores import TableStores

_ANY_SEQ: Final = (1 << 64) - 1  # above every sequence number: the history floor alone decides


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Which versions a compaction keeps; the same for all of its ranges, and picklable if the operator is.

    Attributes
    ----------
    now_ms : versions that expire at or before it have expired; None if none has
    min_seq : sequence number above which all versions of a key are kept, and the newest at or below it; on history
        tables without a snapshot `2**64 - 1` leaves the decision to the floor
    drops_tombstones : nothing older than the sources holds any of their keys
    floor_ms : history tables: versions created after it are kept unchanged; None if all are
    retired_ms : plain tables with retention: rows created at or before it are removed; None if there is no such instant
    merge_operator : how operands are folded; None if operands are refused
    """

    now_ms: int | None
    min_seq: int
    drops_tombstones: bool
    floor_ms: int | None = None
    has_history: bool = False
    retired_ms: int | None = None
    merge_operator: MergeOperator | None = None

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        definition: TableDefinition,
        operator: MergeOperator | None,
        *,
        now_ms: int | None,
        drops_tombstones: bool,
        retired_ms: int | None = None,
        snapshot_seq: int | None = None,
    ) -> MergeRules:
        """Return the rules for sources of a version.

        Parameters
        ----------
        operator : the given merge operator; None for that of the table
        snapshot_seq : the lowest number at which a client has a snapshot of a history table; None for none. Of other
            tables the version tells
        """
        history_seq = _ANY_SEQ if snapshot_seq is None else snapshot_seq
        return cls(
            now_ms=now_ms,
            min_seq=history_seq if definition.has_history else manifest.recent_snapshot_min_seq,
            drops_tombstones=drops_tombstones,
            floor_ms=definition.full_history_ts_low_ms if definition.has_history else None,
            has_history=definition.has_history,
            retired_ms=retired_ms,
            merge_operator=operator or definition.merge_operator,
        )

    def snapshot_seq(self, merged: MergedRange) -> int | None:
        """Return the number above which hidden versions may have been kept for a snapshot; None if none were."""
        is_above = any(file.properties.max_seq > self.min_seq for file in merged.files)
        return self.min_seq if is_above else None

    def retention(self) -> Retention:
        """Return the rules as the kernels take them."""
        if not self.has_history:
            return Retention(
                min_seq=self.min_seq,
                now_ms=self.now_ms,
                retired_ms=self.retired_ms,
                drops_tombstones=self.drops_tombstones,
            )
        if self.floor_ms is None:  # 0: every version is above it, or the oldest of its key
            return Retention(min_seq=0)
        return Retention(
            min_seq=self.min_seq,
            now_ms=None if self.now_ms is None else min(self.now_ms, self.floor_ms),
            floor_ms=self.floor_ms,
            drops_tombstones=self.drops_tombstones,
        )


@dataclass(frozen=True, slots=True)
class MergedRange:
    """The result of merging a key range, or several.

    Attributes
    ----------
    files : uploaded, in key order; empty if no row is left
    rows_in, rows_out : versions read, and versions in the files
    expired : versions that had expired or were past retention: dropped, or turned into tombstones
    dropped : versions that are in no file: hidden, expired, folded into others, filtered, or tombstones
    filtered : versions that filters dropped, turned into tombstones, or changed
    tombstones : number of tombstones among the versions read
    bytes_in, bytes_out : stored bytes of the blocks read, and of the files
    copies : what became of the columnar copy of each file; none if none were asked for
    """

    files: tuple[NewFile, ...]
    rows_in: int = 0
    rows_out: int = 0
    expired: int = 0
    dropped: int = 0
    filtered: int = 0
    tombstones: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    copies: tuple[CopyOutcome, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[MergedRange]) -> MergedRange:
        """Return the results of several ranges, in key order, as one."""
        return cls(
            files=tuple(file for part in parts for file in part.files),
            rows_in=sum(part.rows_in for part in parts),
            rows_out=sum(part.rows_out for part in parts),
            expired=sum(part.expired for part in parts),
            dropped=sum(part.dropped for part in parts),
            filtered=sum(part.filtered for part in parts),
            tombstones=sum(part.tombstones for part in parts),
            bytes_in=sum(part.bytes_in for part in parts),
            bytes_out=sum(part.bytes_out for part in parts),
            copies=tuple(copy for part in parts for copy in part.copies),
        )

    @property
    def ids(self) -> list[Ulid]:
        """The ids of the files."""
        return [file.handle.id for file in self.files]


@dataclass(frozen=True, slots=True)
class RangeTask:
    """The work of one task; it can run anywhere, in any order.

    Attributes
    ----------
    keys : the layers are cut to them
    layers : newest first; never the WAL
    rules : which versions are kept
    options : locate the table; codec, block, file and filter sizes; `writeBuffer` bounds the memory for stored bytes in
        flight
    planned_ms : time part of the file ids, by the driver's clock
    filters : decide about the kept versions; None without filters
    copies : how columnar copies of the files are written; None for none
    """

    keys: KeyRange
    layers: tuple[Layer, ...]
    rules: MergeRules
    options: WriteOptions
    planned_ms: int
    filters: FilterStage | None = None
    copies: CopyRule | None = None


def merge_range(
    stores: TableStores, clock: Clock, task: RangeTask, check: Callable[[], None] | None = None
) -> MergedRange:
    """Merge the layers of a key range, and upload the versions that are kept.

    Parameters
    ----------
    check : called for every piece of rows; stops the merge by raising

    Raises
    ------
    InvalidRequestError
        When a filter fails, or does not return decisions.
    CorruptDataError, SnapshotExpiredError, UnavailableError
        When the sources cannot be read.
    OptionError
        When there are merge operands, and no operator.
    """
    layers, options = task.layers, task.options
    keeper = RowKeeper(task.rules.retention(), resolve_operator(task.rules.merge_operator))
    window_bytes = window_size(options.write_buffer_bytes, len(layers))
    pieces, tally = LayerMerge(stores, layers, keeper, window_bytes).pieces(), FilterTally()
    if task.filters is not None:
        pieces = task.filters.apply(pieces, tally)
    if check is not None:
        pieces = _checked(pieces, check)
    files = upload_sorted(stores.main, pieces, options, clock, task.planned_ms)
    copied = () if task.copies is None else _write_copies(stores, files, task.copies, check)
    rows_out = sum(file.properties.num_rows for file in files)
    return MergedRange(
        files=files,
        rows_in=keeper.rows_in,
        rows_out=rows_out,
        expired=keeper.outdated,
        dropped=keeper.rows_in - rows_out,
        filtered=tally.dropped + tally.tombstones + tally.replaced,
        tombstones=keeper.tombstones,
        bytes_in=sum(measure_slices(stores, [part for layer in layers for part in layer.slices])),
        bytes_out=sum(file.size for file in files),
        copies=copied,
    )


def _write_copies(
    stores: TableStores, files: Sequence[NewFile], rule: CopyRule, check: Callable[[], None] | None
) -> tuple[CopyOutcome, ...]:
    """Write the columnar copies of new files; if that fails, so does the merge, and nobody else knows the files."""
    found = []
    for file in files:
        if check is not None:
            check()
        found.append(write_copy(stores, file.whole().file, rule, file.properties))
    return tuple(found)


def _checked(pieces: Iterator[SortedRows], check: Callable[[], None]) -> Iterator[SortedRows]:
    for piece in pieces:
        check()
        yield piece


@dataclass(slots=True)
class LayerMerge:
    """Merges the layers of a range.

    Attributes
    ----------
    layers : newest first
    window_bytes : held at a time of each layer
    """

    stores: TableStores
    layers: Sequence[Layer]
    keeper: RowKeeper
    window_bytes: int

    def pieces(self) -> Iterator[SortedRows]:
        """Yield the kept versions, in key order, newest first within a key."""
        cursors = [LayerCursor(layer_windows(self.stores, layer, self.window_bytes)) for layer in self.layers]
        for window in whole_key_windows(cursors):
            if isinstance(window, LongKey):
                yield from self._long_key(window)
            else:
                sources = window.sources
                yield self.keeper.of_window(sources, merge_all(sources, window.lows, window.highs))

    # --- a key whose versions exceed a window ---------------------------------------------------------------------

    def _long_key(self, found: LongKey) -> Iterator[SortedRows]:
        fields = self._key_fields(found)
        first = np.zeros(len(fields.seqs), np.bool_)
        first[0] = True
        self.keeper.rows_in += len(first)
        yield from self._key_pieces(found.key, self.keeper.decide(fields, first))

    def _key_fields(self, found: LongKey) -> Fields:
        """Consume the key, and return the fields that decide about its versions."""
        parts: list[Fields] = []
        for rows, low, high in found.parts:
            span = np.arange(low, high, dtype=np.int64)
            parts.append(gather_fields([rows], span))
            self.keeper.refuse_operands(parts[-1], [rows], span)
        return Fields.joined(parts)

    def _key_pieces(self, key: bytes, marks: NDArray[np.uint8]) -> Iterator[SortedRows]:
        """Yield the kept versions of a key, which is read a second time."""
        seen = 0
        open_group: RowColumns | None = None  # folded operands of a group that continues
        for layer in cut_layers(self.layers, KeyRange(key, key_after(key))):
            for window in layer_windows(self.stores, layer, self.window_bytes):
                rows = window.indices
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
