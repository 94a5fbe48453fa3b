"""Several versions of a key in one write: arranged by time, one for each time, and numbered.

While rows are sorted and spilled, their sequence number stands for their time, so that (key ascending, seq descending)
is the order of the file: newest first. Only when all versions of a key are known, they get their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_fields, new_key_mask, take_rows
from slatespark.kernels.columns import ROW_BITS, RowColumns
from slatespark.table.read.fold import Fold
from slatespark.table.rows.sequence import Ranks
from slatespark.table.rows.sorted_rows import one_version_per_key

_SIGN: Final = np.uint64(1 << 63)
_POSITION_MASK: Final = (1 << ROW_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """Rows by key ascending, newest first, one for each key and time.

    Attributes
    ----------
    sources, rows : packed rows
    ranks : of these rows, where a column decides between rows of one key and time
    """

    sources: list[RowColumns]
    rows: NDArray[np.int64]
    ranks: Ranks | None = None


def seqs_of_times(times: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return numbers of the same order as times."""
    return times.view(np.uint64) ^ _SIGN


def times_of_seqs(seqs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the times that stand behind numbers; the opposite of `seqs_of_times`."""
    return (seqs ^ _SIGN).view(np.int64)


def arrange_versions(
    sources: list[RowColumns], rows: NDArray[np.int64], ranks: Ranks | None, fold: Fold | None
) -> Versions:
    """Return rows by time within their key; of those of one time the last is kept, or the one of the highest rank.

    Parameters
    ----------
    sources, rows : packed rows with times; those of one key follow each other, a later row behind an earlier one
    ranks : of these rows; None if their order decides
    fold : joins operands of one key and time, None if not given

    Raises
    ------
    InvalidRequestError
        When several operands of one key and time meet and no operator is given.
    """
    first = new_key_mask(sources, rows)
    times = gather_fields(sources, rows).create_ts
    if ranks is not None or not (first[1:] | (times[1:] >= times[:-1])).all():
        groups = np.cumsum(first)
        decisive = () if ranks is None else (ranks.order, ranks.there)
        order = np.lexsort((*decisive, times, groups))  # stable: a tie leaves the later row behind
        rows, times = rows[order], times[order]
        ranks = None if ranks is None else ranks.take(order)
    distinct = first.copy()
    distinct[1:] |= times[1:] != times[:-1]
    sources, kept = one_version_per_key(sources, rows, fold, first=distinct)
    last = np.append(distinct[1:], np.ones(min(1, len(distinct)), np.bool_))
    backward, _ = _newest_first(first[distinct])
    return Versions(sources, kept[backward], None if ranks is None else ranks.take(np.flatnonzero(last)[backward]))


def number_versions(versions: Versions, first_seq: int) -> None:
    """Set the sequence numbers, in place: `first_seq` for the oldest version of each key, more for later ones."""
    _, ages = _newest_first(new_key_mask(versions.sources, versions.rows))
    seqs = ages.astype(np.uint64) + np.uint64(first_seq)
    numbers, positions = versions.rows >> ROW_BITS, versions.rows & _POSITION_MASK
    for number, source in enumerate(versions.sources):
        mine = numbers == number
        source.seqs[positions[mine]] = seqs[mine]


def whole(rows: RowColumns) -> Versions:
    """Return all rows of one source, which has them in that order."""
    return Versions([rows], np.arange(len(rows), dtype=np.int64))


def joined(parts: Sequence[RowColumns]) -> RowColumns:
    """Return the rows of several sources, one behind the other."""
    packed = [
        (np.int64(number) << ROW_BITS) + np.arange(len(rows), dtype=np.int64) for number, rows in enumerate(parts)
    ]
    return take_rows(parts, np.concatenate(packed))


def _newest_first(first: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how rows in groups are turned around within each, and how many older ones each has then.

    Parameters
    ----------
    first : (n,) True where a group begins; the groups are as long before as after
    """
    starts = np.flatnonzero(first)
    sizes = np.diff(starts, append=len(first))
    places = np.arange(len(first), dtype=np.int64)
    ages = np.repeat(starts + sizes, sizes) - 1 - places
    return np.repeat(starts, sizes) + ages, ages
