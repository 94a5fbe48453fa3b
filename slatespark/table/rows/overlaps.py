"""Merging files of several tasks that share keys, before the commit, where no task alone can order their rows.

That happens with `sequenceColumn`, which decides between rows of one key, with `timestampColumn`, where all versions of
a key are numbered together, and where a live client commits the rows, which takes one sequence of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.errors import InvalidRequestError
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.storage import scratch_folder
from slatespark.table.clock import Clock
from slatespark.table.read.merge.cursor import open_cursors, window_size
from slatespark.table.read.merge.merge_function import MergeFunction
from slatespark.table.read.merge.windows import LongKey, MergeWindow, version_windows, whole_key_windows
from slatespark.table.rows.encoder import RowEncoder
from slatespark.table.rows.sequence import Ranks, order_repeats, rank_values
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.spill import (
    Spill,
    TieBreak,
    distinct_versions,
    numbered,
    restore_times,
    tie_check,
    timed_cursor,
)
from slatespark.table.rows.sst_upload import NewFile, new_layer, upload_sorted
from slatespark.table.stores import TableStores

Outputs = tuple[tuple[NewFile, ...], ...]
_Span = tuple[KeyRange, int, Ulid]  # of a file, with the number of its task and its id


def merge_overlaps(
    stores: TableStores,
    clock: Clock,
    outputs: Sequence[tuple[NewFile, ...]],
    encoder: RowEncoder,
    options: WriteOptions,
    *,
    first_seq: int,
    fold: MergeFunction | None = None,
    segments: KeySegments = WHOLE,
) -> Outputs:
    """Return the files of a write with those rewritten that share keys with files of another task.

    Parameters
    ----------
    outputs : per task, in key order; a later task is newer
    encoder : with the sequence column, or the column of times
    first_seq : of the oldest version of a key, where rows have times
    fold : joins operands of one key and time, or of one key, None if not given
    segments : of the table

    Raises
    ------
    InvalidRequestError
        When that would rewrite more than `commitRewriteLimit`, when deletes are among them, which have no columns, or
        when versions of a key are, or may be, less than a millisecond apart.
    """
    shared = find_overlapping(outputs)
    if not any(shared):
        return tuple(outputs)
    if encoder.has_times:
        shared = _with_whole_keys(outputs, shared)
    files = [file for group in shared for file in group]
    total_bytes = sum(file.size for file in files)
    if total_bytes > options.rewrite_limit_bytes:
        raise _use_slate_table(
            stores,
            f"to merge them would rewrite {total_bytes} bytes, commitRewriteLimit is {options.rewrite_limit_bytes}",
            encoder,
        )
    if encoder.sequence_column is not None and any(file.properties.deletes for file in files):
        raise _use_slate_table(stores, "there are deletes among them, which have no such column", encoder)
    merged = upload_sorted(
        stores.main,
        _merge(stores, shared, encoder, options, first_seq, fold),
        options,
        clock,
        clock.now_ms(),
        segments=segments,
    )
    chosen = {file.handle.id for file in files}
    rest = (tuple(file for file in group if file.handle.id not in chosen) for group in outputs)
    return (*rest, merged)


def _use_slate_table(stores: TableStores, fact: str, encoder: RowEncoder) -> InvalidRequestError:
    reason = "A client takes one row of a key."  # with ifClientActive=cooperate
    if encoder.sequence_column is not None:
        reason = "sequenceColumn has to decide between them."
    return InvalidRequestError(
        f"{stores.url}: tasks of this write hold rows of the same keys, and {fact}.",
        why="All versions of a key are numbered together." if encoder.has_times else reason,
        todo="Repartition the rows by the key columns; SlateTable.write does so by itself.",
    )


def find_overlapping(outputs: Sequence[tuple[NewFile, ...]]) -> Outputs:
    """Return, per task, the files whose key range meets that of a file of another task."""
    spans = sorted(
        ((file.keys, task, file.handle.id) for task, files in enumerate(outputs) for file in files),
        key=lambda span: span[0].start,
    )
    chosen = {one for pair in _neighbours(spans) if pair[0][0].overlaps(pair[1][0]) for _, _, one in pair}
    return tuple(tuple(file for file in files if file.handle.id in chosen) for files in outputs)


def _neighbours(spans: Sequence[_Span]) -> Iterator[tuple[_Span, _Span]]:
    """Yield pairs of ascending spans of two tasks: each span that meets one of another task is in a pair that meets.

    These are, for each span, the one of another task that begins next, and the one that ends last of those before it.
    """
    following: _Span | None = None
    for after, span in pairwise(reversed(spans)):
        following = after if after[1] != span[1] else following
        if following is not None:
            yield span, following
    furthest: list[_Span] = []  # of two tasks at most, the one that ends last first
    for span in spans:
        yield from ((before, span) for before in furthest if before[1] != span[1])
        last = {each[1]: each for each in sorted((*furthest, span), key=lambda each: _end(each[0]))}
        furthest = sorted(last.values(), key=lambda each: _end(each[0]), reverse=True)[:2]


def _end(keys: KeyRange) -> tuple[bool, bytes]:
    return keys.end is None, keys.end or b""


def _with_whole_keys(outputs: Sequence[tuple[NewFile, ...]], shared: Outputs) -> Outputs:
    """Return the files that share keys with another task, and those of the same task that continue one of their keys.

    A key of more versions than a file holds ends one file and begins the next.
    """
    whole = []
    for files, chosen in zip(outputs, shared, strict=True):
        wanted = {file.handle.id for file in chosen}
        for one, next_one in (*pairwise(files), *pairwise(files[::-1])):
            if one.handle.id in wanted and one.keys.overlaps(next_one.keys):
                wanted.add(next_one.handle.id)
        whole.append(tuple(file for file in files if file.handle.id in wanted))
    return tuple(whole)


def _merge(
    stores: TableStores,
    shared: Outputs,
    encoder: RowEncoder,
    options: WriteOptions,
    first_seq: int,
    fold: MergeFunction | None,
) -> Iterator[SortedRows]:
    """Yield the rows of files, a later task newer, in file order."""
    layers = [new_layer(*files) for files in reversed(shared) if files]
    window_bytes = window_size(options.write_buffer_bytes, len(layers))

    def by_sequence(sources: list[RowColumns], rows: NDArray[np.int64], first: NDArray[np.bool_]) -> NDArray[np.int64]:
        return order_repeats(first, _ranks(sources, rows, first, encoder))

    tie_break: TieBreak | None = None if encoder.sequence_column is None else by_sequence
    if any(file.has_remainders for group in shared for file in group):
        tie_break = tie_check(encoder.distinct_times)
    if not encoder.has_times:  # a task has a key once
        windows = _short_keys(whole_key_windows(open_cursors(stores, layers, [], window_bytes)))
        for rows in distinct_versions(windows, fold, tie_break, by_time=False):
            yield SortedRows.whole(rows)
        return
    cursors = [timed_cursor(stores, layer, window_bytes) for layer in layers]
    with scratch_folder("spill") as folder:
        distinct = distinct_versions(version_windows(cursors), fold, tie_break, by_time=True)
        spill = Spill(folder, by_time=True)
        yield from numbered(map(restore_times, distinct), first_seq, spill, options.write_buffer_bytes)


def _short_keys(windows: Iterator[MergeWindow | LongKey]) -> Iterator[MergeWindow]:
    for window in windows:
        assert isinstance(window, MergeWindow)  # one version of a key fits a window
        yield window


def _ranks(sources: list[RowColumns], rows: NDArray[np.int64], first: NDArray[np.bool_], encoder: RowEncoder) -> Ranks:
    """Return the ranks of rows by the column stored in their values; it is decoded only where a key repeats."""
    assert encoder.sequence_column is not None  # the caller's condition
    ranks = Ranks(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))
    repeated = np.flatnonzero(~first | np.append(~first[1:], False))
    if len(repeated):
        column: pa.Array = encoder.codec.decode(sources, rows[repeated], [encoder.sequence_column])[
            encoder.sequence_column
        ]
        found = rank_values(column)
        ranks.order[repeated], ranks.there[repeated] = found.order, found.there
    return ranks
