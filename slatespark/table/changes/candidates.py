"""Which keys may have changed: a merge of what only one of two versions shows.

A key is the same in both versions, expiry aside, where the newest row of the parts that they do not share is in both:
the same row, moved by a compaction. Older rows of such a key count for nothing, unless that row is a merge operand.
Nor does anything count below a newer row of a shared part. All other keys are looked up in both versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_fields, gather_keys, merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import MERGE, ROW_BITS, TOMBSTONE, RowColumns, key_at
from slatespark.kernels.lifetimes import expired, is_live, retired
from slatespark.kernels.results import Fields
from slatespark.table.changes.equality import same_values
from slatespark.table.changes.plan import ChangeSettings, ChangeSplit
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows, memory_windows, window_size
from slatespark.table.read.merge.windows import MergeWindow, version_windows
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores

OLD: Final = 0
NEW: Final = 1
SHARED: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Keys that may have changed, ascending, and above those of all earlier ones.

    Attributes
    ----------
    keys : keys to be looked up in both versions
    written : newest rows of other keys, which the later version alone has: they decide what it shows
    """

    keys: list[bytes]
    written: list[RowColumns]


def find_candidates(
    stores: TableStores,
    split: ChangeSplit,
    settings: ChangeSettings,
    tails: tuple[RowColumns | None, RowColumns | None],
) -> Iterator[Candidates]:
    """Yield the keys of a split that may have changed, some at a time.

    Parameters
    ----------
    tails : the rows of the WAL of the old and the new version, within the split

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
    """
    groups = (split.old_only, split.new_only, split.due)
    window_bytes = window_size(settings.new.buffer_bytes, sum(map(len, groups)))
    sides: dict[LayerCursor, int] = {}  # of rows that are equal in key and number, the old one comes first
    for side, layers in enumerate(groups):
        tail = tails[side] if side < len(tails) else None
        if tail is not None:
            sides[LayerCursor(memory_windows(tail))] = side
        for layer in layers:
            sides[LayerCursor(layer_windows(stores, layer, window_bytes))] = side
    judge = _Judge(settings)
    for window in version_windows(list(sides)):
        found = judge.candidates(window, np.array([sides[cursor] for cursor in window.cursors], np.int64))
        if found is not None:
            yield found


class _Judge:
    """Judges each key by its newest row, or by the two that are its newest."""

    def __init__(self, settings: ChangeSettings) -> None:
        self._settings = settings
        self._last_key: bytes | None = None

    def candidates(self, window: MergeWindow, sides: NDArray[np.int64]) -> Candidates | None:
        sources, rows = window.sources, merge_all(window.sources, window.lows, window.highs)
        is_first = new_key_mask(sources, rows)
        is_first[0] = (
            key_at(sources, int(rows[0])) != self._last_key
        )  # judged, if its versions began in a window before
        self._last_key = key_at(sources, int(rows[-1]))
        heads = np.flatnonzero(is_first)
        if not len(heads):
            return None
        following = np.minimum(heads + 1, len(rows) - 1)
        side, head, twin = sides[rows >> ROW_BITS], rows[heads], rows[following]
        first, second = gather_fields(sources, head), gather_fields(sources, twin)
        is_twin = ~is_first[following] & (first.seqs == second.seqs)
        is_twin &= side[heads] != side[following]
        same = side[heads] == SHARED
        same[is_twin] = self._are_twins_same(sources, head[is_twin], twin[is_twin])
        operand = ((first.flags | np.where(is_twin, second.flags, 0)) & MERGE) != 0
        changed = ~same | operand | self._ends_between(first)
        if self._settings.pre_images:
            return self._chosen(sources, head, changed, np.zeros(len(heads), np.bool_))
        written = changed & ~is_twin & ~operand & (side[heads] == NEW)
        written &= first.seqs.astype(np.int64) > self._settings.old.visibility.max_seq
        return self._chosen(sources, head, changed & ~written, written)

    def _chosen(
        self,
        sources: Sequence[RowColumns],
        head: NDArray[np.int64],
        sought: NDArray[np.bool_],
        written: NDArray[np.bool_],
    ) -> Candidates | None:
        if not sought.any() and not written.any():
            return None
        offsets, data = gather_keys(sources, head[sought])
        packed = data.tobytes()
        keys = [packed[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        return Candidates(keys, [take_rows(sources, head[written])] if written.any() else [])

    def _are_twins_same(
        self, sources: Sequence[RowColumns], old: NDArray[np.int64], new: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return for rows of one key and number, of both versions, whether they show the same."""
        before, after = gather_fields(sources, old), gather_fields(sources, new)
        gone = _is_gone(before, self._settings.old) & _is_gone(after, self._settings.new)
        equal = (before.flags == after.flags) & (before.create_ts == after.create_ts)
        equal &= before.expire_ts == after.expire_ts
        indices = np.flatnonzero(equal & ~gone)
        equal[indices] = same_values(sources, old[indices], new[indices])
        same: NDArray[np.bool_] = equal | gone
        return same

    def _ends_between(self, rows: Fields) -> NDArray[np.bool_]:
        """Return which rows are past their time in one version, and not in the other."""
        old, new = self._settings.old, self._settings.new
        ends: NDArray[np.bool_] = np.zeros(len(rows.flags), np.bool_)
        if not new.visibility.include_expired:
            ends = expired(rows, old.visibility.now_ms) != expired(rows, new.visibility.now_ms)
        ends |= is_live(rows) & (_is_retired(rows, old) != _is_retired(rows, new))
        return ends


def _is_gone(rows: Fields, settings: ScanSettings) -> NDArray[np.bool_]:
    """Return which rows show nothing, and hide what is older; not for operands."""
    gone: NDArray[np.bool_] = (rows.flags & TOMBSTONE) != 0
    return gone if settings.visibility.include_expired else gone | expired(rows, settings.visibility.now_ms)


def _is_retired(rows: Fields, settings: ScanSettings) -> NDArray[np.bool_]:
    if settings.retired_ms is None:
        return np.zeros(len(rows.flags), np.bool_)
    return retired(rows, settings.retired_ms)
