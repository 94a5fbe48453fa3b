"""Merging the rows of a load with those of the layers that it replaces. See docs/explanation/cooperative-writes.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.references import SstHandle
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import gather_fields, merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import MERGE, Retention, RowColumns, all_rows, packed_rows
from slatespark.options import WriteOptions
from slatespark.options.values import MergeOperator
from slatespark.table.clock import Clock
from slatespark.table.commit.expiring_ids import copy_sst
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.rebase import RowShift, move_rows
from slatespark.table.commit.row_times import RowTimes
from slatespark.table.cooperation.load_plan import (
    LOAD,
    CopiedFile,
    KeptFile,
    LoadSources,
    MergedKeys,
    Piece,
)
from slatespark.table.read.fetch import sample_indexes
from slatespark.table.read.merge.cursor import LayerCursor, Window, layer_windows, window_size
from slatespark.table.read.merge.merge_function import fold_rows, no_operator, resolve_operator, row_at
from slatespark.table.read.merge.windows import LongKey, MergeWindow, whole_key_windows
from slatespark.table.read.planning.plan import Layer, plan_splits, range_size, stored_bytes
from slatespark.table.rows.row_keeper import RowKeeper
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import upload_sorted
from slatespark.table.stores import TableStores
from slatespark.table.tasks import pool_beside_client, threads_beside_client

LEAST_BYTES: Final = 4 << 20  # of a range: a smaller one is not worth a file
MAX_PARALLELISM: Final = 4  # ranges merged at a time: each takes `writeBuffer` and two files


@dataclass(frozen=True, slots=True)
class Output:
    """A file of the new run; the properties are None for a copy of a file of the client."""

    handle: SstHandle
    properties: SstProperties | None

    def copied(self, stores: TableStores, clock: Clock, at_ms: int) -> Output:
        """Return a copy under an id of that time."""
        return Output(copy_sst(stores, clock, self.handle, at_ms), self.properties)


@dataclass(frozen=True, slots=True)
class LoadRules:
    """How the rows of a load and of its sources become one sequence; the same for all ranges.

    Attributes
    ----------
    shift : what is added to numbers and times of the rows of the load: all get the number of the sources, and none is
        older than these
    merge_operator : how operands are folded; None if it is unknown
    """

    shift: RowShift
    retention: Retention
    merge_operator: MergeOperator | None

    @classmethod
    def of(
        cls, sources: LoadSources, job: WriteJob, times: RowTimes, merge_operator: MergeOperator | None
    ) -> LoadRules:
        """Return the rules by which the client itself would merge the sources."""
        manifest: Manifest = sources.manifest
        by_ms = 0 if times.fixed else max(0, manifest.last_l0_clock_tick - job.create_ts_ms)
        retention = Retention(
            min_seq=manifest.recent_snapshot_min_seq,
            now_ms=manifest.last_l0_clock_tick,
            drops_tombstones=sources.is_lowest,
        )
        return cls(RowShift(sources.seq - job.baseline.last_l0_seq, by_ms, by_ms), retention, merge_operator)

    @property
    def moves(self) -> bool:
        """Whether rows of the load get other numbers or times."""
        return self.shift != RowShift(0, 0, 0)


def run_pieces(
    stores: TableStores,
    clock: Clock,
    pieces: Sequence[Piece],
    rules: LoadRules,
    options: WriteOptions,
    *,
    range_bytes: int,
) -> tuple[Output, ...]:
    """Return the files of the new run, in key order: kept, copied, or merged and uploaded.

    Parameters
    ----------
    range_bytes : the most that one thread merges at a time, about

    Raises
    ------
    OptionError
        When an operand of the load meets a row with its sequence number, and there is no operator.
    CommitConflictError
        When it meets one that expires at another time.
    CorruptDataError, SnapshotExpiredError, UnavailableError
        When the sources cannot be read.
    """
    planned_ms, is_remote = clock.now_ms(), stores.main.is_remote
    parallelism = threads_beside_client(min(MAX_PARALLELISM, os.cpu_count() or 1), is_remote=is_remote)

    def merged(layers: Sequence[Layer]) -> list[Output]:
        rows = merged_rows(stores, layers, rules, window_size(options.write_buffer_bytes, len(layers)))
        # Never ahead on a disk: the client's puts would wait for a second thread, up to 4 times as long.
        files = upload_sorted(stores.main, rows, options, clock, planned_ms, runs_ahead=True)
        return [Output(file.handle, file.properties) for file in files]

    def copied(piece: CopiedFile) -> list[Output]:
        file = piece.part.file
        handle = file.handle
        return [Output(copy_sst(stores, clock, handle, planned_ms), None)]

    steps: list[Callable[[], list[Output]]] = []
    for piece in pieces:
        match piece:
            case KeptFile(file):
                steps.append(partial(list[Output], [Output(file.handle, file.properties)]))
            case CopiedFile():
                steps.append(partial(copied, piece))
            case MergedKeys(keys, layers):
                target_bytes = range_size(
                    stored_bytes(layers), most_bytes=range_bytes, least_bytes=LEAST_BYTES, parallelism=parallelism
                )
                splits = plan_splits(layers, keys, target_bytes=target_bytes, sample=partial(sample_indexes, stores))
                steps.extend(partial(merged, split.layers) for split in splits if split.layers)
    threads = max(1, min(len(steps), parallelism))
    with pool_beside_client(threads, is_remote=is_remote) as pool:
        return tuple(chain.from_iterable(pool.map(lambda step: step(), steps)))


def merged_rows(
    stores: TableStores, layers: Sequence[Layer], rules: LoadRules, window_bytes: int
) -> Iterator[SortedRows]:
    """Yield the kept rows of some layers in key order, newest first within a key.

    Parameters
    ----------
    layers : newest first: that of the load, if it is among them, and sources
    window_bytes : held at a time of each layer
    """
    keeper = RowKeeper(rules.retention, resolve_operator(rules.merge_operator))
    cursors = [
        LayerCursor(_moved(windows, rules.shift) if layer.name == LOAD else windows)
        for layer in layers
        for windows in [layer_windows(stores, layer, window_bytes)]
    ]
    for window in whole_key_windows(cursors, allows_ties=True):
        sources, rows = _packed(window)
        if any((source.flags & MERGE).any() for source in sources):
            sources, rows = _without_ties(sources, rows, keeper)
        yield _kept(sources, rows, keeper)


def _moved(windows: Iterator[Window], shift: RowShift) -> Iterator[Window]:
    for window in windows:
        move_rows(window.rows, window.low, window.high, shift)
        yield window


def _packed(window: MergeWindow | LongKey) -> tuple[list[RowColumns], NDArray[np.int64]]:
    """Return rows of whole keys, newest first within a key; a key that no window holds is put together in memory."""
    if isinstance(window, MergeWindow):
        return window.sources, merge_all(window.sources, window.lows, window.highs)
    parts = [take_rows([rows], np.arange(low, high, dtype=np.int64)) for rows, low, high in window.parts]
    return parts, all_rows(parts)


def _without_ties(
    sources: list[RowColumns], rows: NDArray[np.int64], keeper: RowKeeper
) -> tuple[list[RowColumns], NDArray[np.int64]]:
    """Return rows without those of the sources that a row of the load replaces: with its key and sequence number.

    An operand of the load is folded onto such a row, since two rows cannot have one number. (Where there are no
    operands, the keeper does the rest.)
    """
    fields = gather_fields(sources, rows)
    tied = ~new_key_mask(sources, rows)
    tied[1:] &= fields.seqs[1:] == fields.seqs[:-1]
    if not tied.any():
        return sources, rows
    upper = np.flatnonzero(tied) - 1  # of the load, which is the newest layer
    folded = upper[(fields.flags[upper] & MERGE) != 0]
    if len(folded):
        pairs = [(row_at(sources, int(rows[at])), row_at(sources, int(rows[at + 1]))) for at in folded.tolist()]
        results = rows_to_columns([_fold_tie(*pair, keeper) for pair in pairs])
        rows = rows.copy()
        rows[folded] = packed_rows(len(sources), len(folded))
        sources = [*sources, results]
    return sources, rows[~tied]


def _fold_tie(operand: Row, stored: Row, keeper: RowKeeper) -> Row:
    """Return one row for an operand of the load and a stored row with its number, as a read shows both, now and later.

    Raises `CommitConflictError` if no row can: both are live, and expire at different times.
    """
    now_ms = keeper.retention.now_ms
    if keeper.fold is None:
        raise no_operator(operand.key)
    if _is_expired(stored, now_ms) or stored.kind is RowKind.DELETE:
        return operand if stored.kind is RowKind.MERGE else fold_rows([operand], keeper.fold)  # nothing older shows
    if _is_expired(operand, now_ms):
        return stored
    if operand.expire_ts_ms != stored.expire_ts_ms:  # folded, both would go when the first one does
        raise CommitConflictError(
            f"Key {operand.key.hex()}: the merge operand of this write and the row that is there have one sequence "
            "number, and expire at different times.",
            why="A live client takes one row for both.",
            todo="Write again once the client has written and flushed a row, or give both rows the same expiry.",
        )
    folded = fold_rows([operand, stored], keeper.fold)
    return folded if stored.kind is RowKind.PUT else replace(folded, kind=RowKind.MERGE)


def _is_expired(row: Row, now_ms: int | None) -> bool:
    return now_ms is not None and row.expire_ts_ms is not None and row.expire_ts_ms <= now_ms


def _kept(sources: list[RowColumns], rows: NDArray[np.int64], keeper: RowKeeper) -> SortedRows:
    """Return the versions that are kept: all of them where operands cannot be folded."""
    if keeper.fold is None and (gather_fields(sources, rows).flags & MERGE).any():
        return SortedRows(sources, rows, is_scattered=len(sources) > 1)
    return keeper.of_window(sources, rows)
