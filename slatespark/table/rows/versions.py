"""Row versions of one write: in file order, one for each key and time, and numbered.

The file order is key ascending, newest first. Where all rows have one time, that leaves one version of a key. Where
rows have times of their own, sequence numbers are known only with all versions of a key: until then each row carries
its time as its number, so that (key ascending, seq descending) is the file order already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_fields, new_key_mask, take_rows
from slatespark.kernels.columns import ROW_BITS, ROW_MASK, RowColumns, all_rows
from slatespark.table.read.merge.merge_function import MergeFunction
from slatespark.table.rows.lost_versions import DistinctTimes
from slatespark.table.rows.sequence import Ranks, order_repeats
from slatespark.table.rows.sorted_rows import one_version_per_key

_SIGN: Final = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """Rows in file order, one for each key and time.

    Attributes
    ----------
    sources, rows : packed rows
    ranks : of these rows, where a column decides between rows of one key and time
    remainders : of these rows, where times lost parts of a millisecond and no column decides
    """

    sources: list[RowColumns]
    rows: NDArray[np.int64]
    ranks: Ranks | None = None
    remainders: NDArray[np.int64] | None = None

    def split(self, at: int) -> tuple[Versions, Versions]:
        """Return the first `at` rows, and the others; without ranks."""
        cut = (None, None) if self.remainders is None else (self.remainders[:at], self.remainders[at:])
        first, rest = Versions(self.sources, self.rows[:at]), Versions(self.sources, self.rows[at:])
        return replace(first, remainders=cut[0]), replace(rest, remainders=cut[1])

    def known_remainders(self) -> NDArray[np.int64]:
        """Return the remainders, also where all are 0."""
        return np.zeros(len(self.rows), np.int64) if self.remainders is None else self.remainders

    def copy(self) -> Versions:
        """Return the same rows in memory of their own, without ranks."""
        return replace(whole(take_rows(self.sources, self.rows)), remainders=self.remainders)


def seqs_of_times(times: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return numbers in the order of the times."""
    return times.view(np.uint64) ^ _SIGN


def times_of_seqs(seqs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the times behind numbers; the inverse of `seqs_of_times`."""
    return (seqs ^ _SIGN).view(np.int64)


def arrange_versions(
    sources: list[RowColumns],
    rows: NDArray[np.int64],
    ranks: Ranks | None,
    fold: MergeFunction | None,
    *,
    by_time: bool,
    remainders: NDArray[np.int64] | None = None,
    check: DistinctTimes | None = None,
) -> Versions:
    """Put rows into file order; of those of one key and time, keep the last one or the one with the highest rank.

    Parameters
    ----------
    sources, rows : packed rows; those of one key follow each other, a later row behind an earlier one
    ranks : of these rows; None if their order decides
    fold : joins operands of one key and time, None if not given
    by_time : whether rows have times of their own; else all have one time
    remainders, check : of these rows' times; None if they lost nothing, or ranks decide

    Raises
    ------
    InvalidRequestError
        When several operands of one key and time meet and no operator is given, or when versions of a key are less than
        a millisecond apart.
    """
    first = new_key_mask(sources, rows)
    if first.all():  # one version of each key: it is in file order whatever its time
        return Versions(sources, rows, ranks, remainders)
    times = gather_fields(sources, rows).create_ts if by_time else None
    if ranks is not None or (times is not None and not (first[1:] | (times[1:] >= times[:-1])).all()):
        order = order_repeats(first, ranks, times)
        rows = rows[order]
        times = None if times is None else times[order]
        ranks = None if ranks is None else ranks.take(order)
        remainders = None if remainders is None else remainders[order]
    distinct = first
    if times is not None:
        distinct = first.copy()
        distinct[1:] |= times[1:] != times[:-1]
    if remainders is not None and times is not None and check is not None:
        check.check(sources, rows, ~distinct, times, remainders)
    sources, kept = one_version_per_key(sources, rows, fold, first=distinct)
    last = np.flatnonzero(np.append(distinct[1:], True))
    if times is None:
        return Versions(sources, kept, None if ranks is None else ranks.take(last))
    backward, _ = _newest_first(first[distinct])
    last = last[backward]
    return Versions(
        sources,
        kept[backward],
        None if ranks is None else ranks.take(last),
        None if remainders is None else remainders[last],
    )


def number_versions(versions: Versions, first_seq: int) -> None:
    """Set the sequence numbers, in place: `first_seq` for the oldest version of each key, more for later ones."""
    _, ages = _newest_first(new_key_mask(versions.sources, versions.rows))
    seqs = ages.astype(np.uint64) + np.uint64(first_seq)
    numbers, positions = versions.rows >> ROW_BITS, versions.rows & ROW_MASK
    for number, source in enumerate(versions.sources):
        mine = numbers == number
        source.seqs[positions[mine]] = seqs[mine]


def whole(rows: RowColumns) -> Versions:
    """Return all rows of one source, which are in file order."""
    return Versions([rows], np.arange(len(rows), dtype=np.int64))


def joined(parts: Sequence[RowColumns]) -> RowColumns:
    """Return the rows of several sources, one behind the other."""
    return take_rows(parts, all_rows(parts))


def _newest_first(first: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how rows in groups are reversed within each group, and how many older ones each has then.

    Parameters
    ----------
    first : (n,) True where a group begins; the groups keep their lengths
    """
    starts = np.flatnonzero(first)
    sizes = np.diff(starts, append=len(first))
    places = np.arange(len(first), dtype=np.int64)
    ages = np.repeat(starts + sizes, sizes) - 1 - places
    return np.repeat(starts, sizes) + ages, ages
