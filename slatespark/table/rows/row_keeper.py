"""RowKeeper: decoded rows -> the rows that a compaction keeps. See docs/explanation/what-a-compaction-keeps.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_fields, new_key_mask, retain_versions, take_rows
from slatespark.kernels.columns import (
    DROPPED,
    GROUP_HEAD,
    HAS_CREATE,
    MERGE,
    PLAIN,
    ROW_BITS,
    ROW_MASK,
    TO_TOMBSTONE,
    TOMBSTONE,
    Retention,
    RowColumns,
    Selection,
)
from slatespark.kernels.results import Fields
from slatespark.table.read.merge.fold_groups import fold_groups, fold_selection
from slatespark.table.read.merge.merge_function import MergeFunction, no_operator, row_at
from slatespark.table.rows.sorted_rows import SortedRows


@dataclass(slots=True)
class RowKeeper:
    """Decides which versions are kept, and counts them.

    Attributes
    ----------
    retention : the rules
    fold : folds operands; None if operands are refused
    rows_in, outdated : versions seen, and versions that had expired or were past retention
    tombstones : of the versions seen
    """

    retention: Retention
    fold: MergeFunction | None
    rows_in: int = 0
    outdated: int = 0
    tombstones: int = 0

    def of_window(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> SortedRows:
        """Return the kept rows of whole keys, given as packed rows, newest first within a key."""
        self.rows_in += len(rows)
        sources, rows = self._kept(sources, rows)
        return SortedRows(sources, rows, is_scattered=len(sources) > 1)

    def _kept(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> tuple[list[RowColumns], NDArray[np.int64]]:
        fields, first = gather_fields(sources, rows), new_key_mask(sources, rows)
        self.refuse_operands(fields, sources, rows)
        repeated = ~first
        repeated[1:] &= fields.seqs[1:] == fields.seqs[:-1]
        if repeated.any():  # one version in two layers: as in reads, the newer layer wins
            return self._kept(sources, rows[~repeated])
        return self.apply(sources, rows, self.decide(fields, first))

    def decide(self, fields: Fields, first: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Return the mark of each version."""
        retained = retain_versions(fields, first, self.retention)
        self.outdated += retained.outdated
        self.tombstones += int(np.count_nonzero(fields.flags & TOMBSTONE))
        return retained.marks

    def apply(
        self, sources: list[RowColumns], rows: NDArray[np.int64], marks: NDArray[np.uint8]
    ) -> tuple[list[RowColumns], NDArray[np.int64]]:
        """Return the kept rows: rows may become tombstones, and groups are folded to one row."""
        if not marks.any():  # all of them PLAIN
            return sources, rows
        _to_tombstones(sources, rows[marks == TO_TOMBSTONE])
        kept = marks != DROPPED
        rows, marks = rows[kept], marks[kept]
        if not (marks == GROUP_HEAD).any():
            return sources, rows
        marks[marks == TO_TOMBSTONE] = PLAIN
        sources, selection = fold_selection(sources, Selection(rows, marks), self.fold, keeps_operands=True)
        return sources, selection.rows

    def folded(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
        """Return the folded row of operands with equal expiry, newest first; the last row may be their base."""
        if len(rows) == 1:  # of a group that continues
            return take_rows(sources, rows)
        return fold_groups(sources, rows, np.arange(len(rows)) == 0, self.fold, keeps_operands=True)

    def refuse_operands(self, fields: Fields, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
        """Raise `OptionError` if there are operands and no operator, as in the client."""
        if self.fold is None and (found := np.flatnonzero(fields.flags & MERGE)).size:
            raise no_operator(row_at(sources, int(rows[found[0]])).key)


def _to_tombstones(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
    numbers = rows >> ROW_BITS
    for number in np.unique(numbers).tolist():
        to_tombstones(sources[number], rows[numbers == number] & ROW_MASK)


def to_tombstones(rows: RowColumns, positions: NDArray[np.int64]) -> None:
    """Turn rows into tombstones, in place. They keep sequence number and create_ts."""
    rows.flags[positions] = (rows.flags[positions] & np.uint8(HAS_CREATE)) | np.uint8(TOMBSTONE)
    rows.expire_ts[positions], rows.value_lengths[positions] = 0, 0
