"""RowKeeper: decoded rows -> what a compaction keeps of them. See docs/explanation/what-a-compaction-keeps.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
    TO_TOMBSTONE,
    TOMBSTONE,
    Retention,
    RowColumns,
    Selection,
)
from slatespark.kernels.results import Fields
from slatespark.table.read.fold_groups import fold_groups, fold_selection
from slatespark.table.read.merge_function import MergeFunction, no_operator, row_at
from slatespark.table.rows.sorted_rows import SortedRows

_POSITION_MASK: Final = (1 << ROW_BITS) - 1


@dataclass(slots=True)
class RowKeeper:
    """Decides about versions, and counts them.

    Attributes
    ----------
    retention : what is kept
    fold : joins operands; None if there must not be any
    rows_in, outdated : versions seen, and versions that had expired or were past retention
    """

    retention: Retention
    fold: MergeFunction | None
    rows_in: int = 0
    outdated: int = 0

    def of_window(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> SortedRows:
        """Return what stays of whole keys, given as packed rows, newest first within a key."""
        self.rows_in += len(rows)
        sources, rows = self._kept(sources, rows)
        return SortedRows(sources, rows, is_scattered=len(sources) > 1)

    def _kept(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> tuple[list[RowColumns], NDArray[np.int64]]:
        fields, first = gather_fields(sources, rows), new_key_mask(sources, rows)
        self.refuse_operands(fields, sources, rows)
        repeated = ~first
        repeated[1:] &= fields.seqs[1:] == fields.seqs[:-1]
        if repeated.any():  # one version in two layers: as on read, the newer layer has it
            return self._kept(sources, rows[~repeated])
        return self.apply(sources, rows, self.decide(fields, first))

    def decide(self, fields: Fields, first: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Return what becomes of each version."""
        retained = retain_versions(fields, first, self.retention)
        self.outdated += retained.outdated
        return retained.marks

    def apply(
        self, sources: list[RowColumns], rows: NDArray[np.int64], marks: NDArray[np.uint8]
    ) -> tuple[list[RowColumns], NDArray[np.int64]]:
        """Return what stays by the marks: rows may become tombstones, and groups of them one row."""
        if not marks.any():  # all of them PLAIN
            return sources, rows
        _bury(sources, rows[marks == TO_TOMBSTONE])
        kept = marks != DROPPED
        rows, marks = rows[kept], marks[kept]
        if not (marks == GROUP_HEAD).any():
            return sources, rows
        marks[marks == TO_TOMBSTONE] = PLAIN
        sources, selection = fold_selection(sources, Selection(rows, marks), self.fold, keeps_operands=True)
        return sources, selection.rows

    def folded(self, sources: list[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
        """Return the row for operands that expire alike, newest first, and their base, if that is the last row."""
        if len(rows) == 1:  # of a group that goes on
            return take_rows(sources, rows)
        return fold_groups(sources, rows, np.arange(len(rows)) == 0, self.fold, keeps_operands=True)

    def refuse_operands(self, fields: Fields, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
        """Raise `OptionError` if there are operands and no operator, as the client does."""
        if self.fold is None and (found := np.flatnonzero(fields.flags & MERGE)).size:
            raise no_operator(row_at(sources, int(rows[found[0]])).key)


def _bury(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
    numbers = rows >> ROW_BITS
    for number in np.unique(numbers).tolist():
        bury_rows(sources[number], rows[numbers == number] & _POSITION_MASK)


def bury_rows(rows: RowColumns, positions: NDArray[np.int64]) -> None:
    """Make tombstones of rows: they keep their sequence numbers and creation times."""
    rows.flags[positions] = (rows.flags[positions] & np.uint8(HAS_CREATE)) | np.uint8(TOMBSTONE)
    rows.expire_ts[positions], rows.value_lengths[positions] = 0, 0
