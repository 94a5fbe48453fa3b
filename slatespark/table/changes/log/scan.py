"""Split of the log -> writes as Arrow batches, as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.without_pandas import array_of_numpy, words_of
from slatespark.kernels import gather_fields, take_rows
from slatespark.kernels.columns import HAS_CREATE, MERGE, TOMBSTONE, RowColumns, all_rows
from slatespark.kernels.results import Fields
from slatespark.table.changes.log.plan import CommitPart, LogSettings, LogSplit, WalPart
from slatespark.table.changes.log.wal import fetch_wal_log
from slatespark.table.changes.scan import DELETE, UPSERT
from slatespark.table.read.arrow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, instants
from slatespark.table.read.materialise import Materialiser, join_small
from slatespark.table.read.merge.cursor import layer_windows, window_size
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.planning.row_cuts import positions_within
from slatespark.table.stores import TableStores

MERGE_OPERAND: Final = "merge"

_WORDS: Final = (UPSERT, DELETE, MERGE_OPERAND)


def scan_log(stores: TableStores, split: LogSplit, settings: LogSettings) -> Iterator[pa.RecordBatch]:
    """Yield the writes of a split in the order of their sequence numbers, and by key where they are equal.

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
    """
    return join_small(_batches(stores, split, settings))


def _batches(stores: TableStores, split: LogSplit, settings: LogSettings) -> Iterator[pa.RecordBatch]:
    made = Materialiser(settings.projection, settings.condition, settings.table, None)
    for part in split.parts:
        if isinstance(part, WalPart):
            yield from _wal_batches(stores, part, settings, made)
        else:
            yield from _commit_batches(stores, part, settings, made)


def _wal_batches(
    stores: TableStores, part: WalPart, settings: LogSettings, made: Materialiser
) -> Iterator[pa.RecordBatch]:
    for number, version in zip(part.files, part.versions, strict=True):
        rows = fetch_wal_log(stores, number)
        if rows is None:
            continue
        inside = positions_within(rows, settings.keys)
        chosen = inside[_between(rows, part.after_seq, part.last_seq)[inside]]
        fields = gather_fields([rows], chosen)
        times = instants(fields.create_ts, (fields.flags & HAS_CREATE) == 0)
        yield from made.batches([rows], chosen, _known(fields, version, times))


def _commit_batches(
    stores: TableStores, part: CommitPart, settings: LogSettings, made: Materialiser
) -> Iterator[pa.RecordBatch]:
    for sources in _commit_rows(stores, part, settings):
        chosen = all_rows(sources)
        seqs = np.concatenate([rows.seqs for rows in sources])
        chosen = chosen[np.argsort(seqs, kind="stable")]
        fields = gather_fields(sources, chosen)
        times = instants(np.full(len(chosen), part.committed_ms, np.int64), np.zeros(len(chosen), np.bool_))
        yield from made.batches(sources, chosen, _known(fields, part.version, times))


def _commit_rows(stores: TableStores, part: CommitPart, settings: LogSettings) -> Iterator[list[RowColumns]]:
    """Yield the rows of a commit in some of its files, without those that others wrote, some at a time.

    They are put in order later, so all rows of a key come together: more than `readBuffer` where these are more, or
    where files overlap.
    """
    held, size, last_key = list[RowColumns](), 0, b""
    starts = [each.keys.start for each in part.slices]  # ascending
    for number, each in enumerate(part.slices):
        following = next(iter(starts[number + 1 :]), None)
        for window in layer_windows(stores, Layer("commit", (each,)), window_size(settings.buffer_bytes, 1)):
            inside = window.indices
            inside = inside[_between(window.rows, part.after_seq, part.last_seq)[window.low : window.high]]
            is_apart = window.rows.key(window.low) > last_key and (following is None or following > last_key)
            if held and size >= settings.buffer_bytes and is_apart:
                yield held
                held, size = [], 0
            if len(inside):
                held.append(take_rows([window.rows], inside))
                size += held[-1].nbytes
                last_key = max(last_key, window.rows.key(window.high - 1))
    if held:
        yield held


def _between(rows: RowColumns, after_seq: int, last_seq: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (rows.seqs > np.uint64(after_seq)) & (rows.seqs <= np.uint64(last_seq))
    return found


def _known(fields: Fields, version: int | None, times: pa.Array) -> dict[str, pa.Array]:
    """Return the columns that writes have besides those of the table."""
    words = np.where(fields.flags & TOMBSTONE, 1, np.where(fields.flags & MERGE, 2, 0)).astype(np.int8)
    count = len(words)
    no_version = pa.nulls(count, pa.int64())
    return {
        CHANGE_TYPE: words_of(words, _WORDS),
        COMMIT_VERSION: no_version if version is None else array_of_numpy(np.full(count, version, np.int64)),
        COMMIT_TIMESTAMP: times,
    }
