"""The loop of every k-way merge: sorted cursors -> windows of rows that follow each other in the merged order.

A window names rows of each cursor that come before all rows the cursors still hold. `whole_key_windows` cuts between
keys, for merges that decide about a key at once. `version_windows` cuts between versions, for cursors whose versions of
a key alternate. The caller decides what to do with the rows of a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.kernels import lower_bound
from slatespark.kernels.columns import RowColumns
from slatespark.table.read.merge.cursor import LayerCursor, RowSpan, rows_before


@dataclass(frozen=True, slots=True, eq=False)
class MergeWindow:
    """Rows [lows[i], highs[i]) of each source, in the order of the cursors, which are those that are not at an end."""

    cursors: Sequence[LayerCursor]
    sources: list[RowColumns]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LongKey:
    """A key whose versions do not fit a window of some cursor.

    Attributes
    ----------
    key : the key
    parts : its versions, newest first; must be exhausted before the next window is asked for
    """

    key: bytes
    parts: Iterator[RowSpan]


def whole_key_windows(cursors: Sequence[LayerCursor], *, allows_ties: bool = False) -> Iterator[MergeWindow | LongKey]:
    """Yield windows of whole keys, ascending; a key that no window holds comes in parts.

    Parameters
    ----------
    cursors : over layers, newest first
    allows_ties : whether two layers may have a version of one key with the same sequence number

    Raises
    ------
    CorruptDataError
        Where the layers of a long key contradict its sequence numbers.
    """
    while live := [cursor for cursor in cursors if cursor.load()]:
        cut = min((cursor.bound for cursor in live if cursor.bound is not None), default=None)
        lows, highs = rows_before(live, cut)
        if cut is not None and (lows == highs).all():
            yield LongKey(cut[0], _parts_by_layer(live, cut[0], allows_ties=allows_ties))
        else:
            yield _consume(live, lows, highs)


def version_windows(cursors: Sequence[LayerCursor]) -> Iterator[MergeWindow]:
    """Yield windows by (key ascending, seq descending); rows that are equal in both are in one window.

    Parameters
    ----------
    cursors : newest first; unlike layers, each may hold older and newer versions of a key than the others
    """
    while live := [cursor for cursor in cursors if cursor.load()]:
        spans = [(cursor.rows, cursor.low, cursor.high) for cursor in live if cursor.rows is not None]
        key, backward_seq = min((rows.key(high - 1), -int(rows.seqs[high - 1])) for rows, _, high in spans)
        lows = np.array([cursor.low for cursor in live], np.int64)
        highs = np.array([_end_of_version(span, key, -backward_seq) for span in spans], np.int64)
        yield _consume(live, lows, highs)


def _consume(live: Sequence[LayerCursor], lows: NDArray[np.int64], highs: NDArray[np.int64]) -> MergeWindow:
    """Take rows off the cursors."""
    sources = [cursor.rows for cursor in live if cursor.rows is not None]
    for cursor, high in zip(live, highs.tolist(), strict=True):
        cursor.low = high
    return MergeWindow(live, sources, lows, highs)


def _parts_by_layer(live: Sequence[LayerCursor], key: bytes, *, allows_ties: bool) -> Iterator[RowSpan]:
    """Consume one key layer by layer: newer layers hold its newer versions."""
    last_seq: int | None = None
    for cursor in live:
        while cursor.load() and cursor.rows is not None and cursor.rows.key(cursor.low) == key:
            rows, low, high = cursor.rows, cursor.low, cursor.end_of(key)
            first_seq = int(rows.seqs[low])
            # Else reads would disagree with each other.
            if last_seq is not None and first_seq >= last_seq + allows_ties:
                raise CorruptDataError(
                    f"key {key.hex()}: seq {first_seq} lies below seq {last_seq} in the layer order."
                )
            last_seq, cursor.low = int(rows.seqs[high - 1]), high
            yield rows, low, high


def _end_of_version(span: RowSpan, key: bytes, seq: int) -> int:
    """Return where the rows of a span end that are of lower keys, or of this one and not older."""
    rows, low, high = span
    start = lower_bound(rows, key, low, high)
    end = lower_bound(rows, key + b"\0", start, high)
    return end - int(np.searchsorted(rows.seqs[start:end][::-1], np.uint64(seq)))
