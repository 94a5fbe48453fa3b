"""Split -> changes as Arrow batches: the keys that may have changed, looked up in both versions and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.predicates.row_filter import RowTest
from slatespark.encoding.without_pandas import array_of_numpy, words_of
from slatespark.kernels import take_rows, value_lengths
from slatespark.kernels.columns import ROW_BITS, ROW_MASK, RowColumns
from slatespark.kernels.lifetimes import TimedRows, expired, is_live, retired
from slatespark.table.changes.candidates import Candidates, find_candidates
from slatespark.table.changes.equality import same_rows
from slatespark.table.changes.pairs import Rows, aligned, in_key_order, pair_rows
from slatespark.table.changes.plan import ChangeSettings, ChangeSplit
from slatespark.table.changes.sides import shown_rows
from slatespark.table.read.arrow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, decode_columns, instants
from slatespark.table.read.batch_cuts import cut_sizes
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.materialise import Materialiser, join_small
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.planning.row_cuts import cut_rows
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.read.points import CHUNK_KEYS
from slatespark.table.read.scan import visible_rows
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.rows.row_keeper import to_tombstones
from slatespark.table.stores import TableStores

INSERT: Final = "insert"
UPDATE_PREIMAGE: Final = "update_preimage"
UPDATE_POSTIMAGE: Final = "update_postimage"
UPSERT: Final = "upsert"
DELETE: Final = "delete"

_WORDS: Final = (INSERT, UPDATE_PREIMAGE, UPDATE_POSTIMAGE, UPSERT, DELETE)
_INSERT, _PREIMAGE, _POSTIMAGE, _UPSERT, _DELETE = map(np.int8, range(len(_WORDS)))
_CHUNK_BYTES: Final = 8 << 20  # of rows that wait for the lookup of the keys around them


def scan_changes(stores: TableStores, split: ChangeSplit, settings: ChangeSettings) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a split in key order, the old row of an update before the new one.

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, OptionError (operands without an operator), UnavailableError
    """
    return join_small(_change_batches(stores, split, settings))


def scan_changed_keys(
    stores: TableStores, split: ChangeSplit, settings: ChangeSettings
) -> Iterator[tuple[RowColumns, NDArray[np.int64]]]:
    """Yield the changed rows of a split in key order, some at a time, and where in them each key begins.

    No key is in two parts. Raises as `scan_changes`.
    """
    for changes in _found_changes(stores, split, settings):
        if len(changes.words):
            yield take_rows(changes.sources, changes.rows), np.flatnonzero(changes.words != _POSTIMAGE)


def _change_batches(stores: TableStores, split: ChangeSplit, settings: ChangeSettings) -> Iterator[pa.RecordBatch]:
    made = Materialiser(settings.projection, None, settings.new.table, None)
    for changes in _found_changes(stores, split, settings):
        yield from made.batches(changes.sources, changes.rows, _known(changes.words, settings))


def _found_changes(stores: TableStores, split: ChangeSplit, settings: ChangeSettings) -> Iterator[_Changes]:
    if settings.are_all_new:
        yield from _all_new(stores, split, settings)
        return
    feed = _Feed.of(settings)
    tails = _tail(stores, split, settings.old, split.old_wal), _tail(stores, split, settings.new, split.new_wal)
    if split.points is not None:
        found: Iterable[Candidates] = [Candidates(list(split.points), [])]
    else:
        found = find_candidates(stores, split, settings, tails)
    for chunk in _joined(found):
        old = shown_rows(stores, split.old, chunk.keys, settings.old, tails[0])
        new = shown_rows(stores, split.new, chunk.keys, settings.new, tails[1])
        for old_rows, new_rows, written in aligned(old, new, map(_all_of, chunk.written)):
            yield _in_key_order([_compared(old_rows, new_rows, feed), _judged(written, feed)])


def _all_new(stores: TableStores, split: ChangeSplit, settings: ChangeSettings) -> Iterator[_Changes]:
    """Yield the rows that the later version shows: no lookup tells more."""
    feed, word = _Feed.of(settings), _INSERT if settings.pre_images else _UPSERT
    whole = Split(split.keys, split.new, split.ranges, split.points, wal=split.new_wal)
    for found in visible_rows(stores, whole, settings.new):
        sources, rows = feed.passing(found)
        yield _Changes(sources, rows, np.full(len(rows), word))


def _tail(stores: TableStores, split: ChangeSplit, settings: ScanSettings, share: WalShare | None) -> RowColumns | None:
    """Return the rows of the WAL of a version that lie in a split; `share` are those that it was sent, if it was."""
    if share is not None:
        return share.rows() if len(share) else None
    if not settings.wal.last_seq:
        return None
    rows = fetch_wal_rows(stores, settings.wal, settings.wal_above_seq, split.keys)
    return rows if rows is None or not split.ranges else cut_rows(rows, split.ranges)


def _joined(found: Iterable[Candidates]) -> Iterator[Candidates]:
    """Yield the same candidates, as many together as may be looked up at once."""
    keys: list[bytes] = []
    written: list[RowColumns] = []
    for each in found:
        keys += each.keys
        written += each.written
        rows, size = sum(map(len, written)), sum(len(each.value_bytes) for each in written)
        if len(keys) + rows >= CHUNK_KEYS or size >= _CHUNK_BYTES:
            yield Candidates(keys, written)
            keys, written = [], []
    if keys or written:
        yield Candidates(keys, written)


def _all_of(rows: RowColumns) -> Rows:
    return [rows], np.arange(len(rows), dtype=np.int64)


# --- what changed ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """Changed rows in key order.

    Attributes
    ----------
    sources, rows : packed rows
    words : (m,) what each one is: a number of `_WORDS`
    """

    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    words: NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class _Feed:
    """A feed, with its condition prepared for all rows.

    Attributes
    ----------
    passes : which rows belong to a version; None if all do
    """

    settings: ChangeSettings
    passes: RowTest | None

    @classmethod
    def of(cls, settings: ChangeSettings) -> _Feed:
        condition = settings.condition
        return cls(settings, condition.test() if condition is not None and condition.columns else None)

    def passing(self, rows: Rows) -> Rows:
        """Return the rows that belong to a version under the condition of the feed."""
        return rows[0], rows[1][self.mask(rows)]

    def mask(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it belongs to a version."""
        settings = self.settings
        if self.passes is None or settings.condition is None or not len(rows[1]):
            return np.ones(len(rows[1]), np.bool_)
        sources, packed = rows
        columns, projection = settings.condition.columns, settings.projection
        parts = (packed[start:end] for start, end in cut_sizes(value_lengths(sources, packed)))
        tested = (decode_columns(sources, part, columns, projection, settings.new.table) for part in parts)
        return np.concatenate([self.passes(each) for each in tested])


def _compared(old: Rows, new: Rows, feed: _Feed) -> _Changes:
    """Return how the rows of two versions differ, which are all that they show of some keys."""
    settings, paired = feed.settings, pair_rows(feed.passing(old), feed.passing(new))
    words = np.where(paired.is_new, _INSERT, _DELETE)
    words[paired.is_pair] = np.where(paired.is_new, _POSTIMAGE, _PREIMAGE)[paired.is_pair]
    kept = np.ones(len(words), np.bool_)
    olds, news = np.flatnonzero(paired.is_pair & ~paired.is_new), np.flatnonzero(paired.is_pair & paired.is_new)
    same = same_rows(paired.sources, paired.rows[olds], paired.rows[news], settings.projection.codec)
    kept[olds[same]] = kept[news[same]] = False
    if not settings.pre_images:
        kept &= words != _PREIMAGE
        words[(words == _INSERT) | (words == _POSTIMAGE)] = _UPSERT
    return _changes(take_rows(paired.sources, paired.rows[kept]), words[kept], settings)


def _judged(written: Rows, feed: _Feed) -> _Changes:
    """Return the changes by rows that the later version alone has, and that are the newest of their keys there."""
    settings, rows = feed.settings, take_rows(*written)
    shown = is_live(rows) & ~_has_ended(rows, settings.new)
    indices = np.flatnonzero(shown)
    shown[indices] = feed.mask(([rows], indices))
    return _changes(rows, np.where(shown, _UPSERT, _DELETE), settings)


def _changes(rows: RowColumns, words: NDArray[np.int8], settings: ChangeSettings) -> _Changes:
    if not settings.pre_images:
        to_tombstones(rows, np.flatnonzero(words == _DELETE))  # only the key is told
    return _Changes(*_all_of(rows), words)


def _in_key_order(parts: Sequence[_Changes]) -> _Changes:
    """Return all changes of several parts, which have no key in common, and all rows of one source each."""
    found = [part for part in parts if len(part.words)]
    if len(found) < 2:
        return found[0] if found else parts[0]
    sources = [source for part in found for source in part.sources]
    order = in_key_order(sources)
    starts = np.cumsum([0, *(len(part.words) for part in found[:-1])])
    indices = starts[order >> ROW_BITS] + (order & ROW_MASK)
    return _Changes(sources, order, np.concatenate([part.words for part in found])[indices])


def _has_ended(rows: TimedRows, settings: ScanSettings) -> NDArray[np.bool_]:
    """Return which rows have expired or retired for a version."""
    ended = np.zeros(len(rows.flags), np.bool_)
    if not settings.visibility.include_expired:
        ended = expired(rows, settings.visibility.now_ms)
    return ended if settings.retired_ms is None else ended | retired(rows, settings.retired_ms)


def _known(words: NDArray[np.int8], settings: ChangeSettings) -> dict[str, pa.Array]:
    """Return the columns that changes have besides those of the table."""
    committed = np.full(len(words), settings.committed_ms, np.int64)
    return {
        CHANGE_TYPE: words_of(words, _WORDS),
        COMMIT_VERSION: array_of_numpy(np.full(len(words), settings.version, np.int64)),
        COMMIT_TIMESTAMP: instants(committed, np.zeros(len(words), np.bool_)),
    }
