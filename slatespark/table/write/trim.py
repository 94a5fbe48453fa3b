"""Trimming: one commit removes all row versions of a history table that were created after an instant.

See docs/explanation/history-and-the-floor.md, docs/explanation/editing-a-manifest.md.

Files that may hold later versions are rewritten without them; the remaining rows keep their sequence numbers. The state
before the trim stays readable for a while, as the version that the commit replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import HistoryTrimmedError, InvalidRequestError
from slatespark.format.properties import SstProperties
from slatespark.format.segments import KeySegments
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.options import ReadOptions, WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.job import abandon_write, abandoned_on_error, begin_write
from slatespark.table.commit.requirements import LastSeq
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.merge.cursor import FILE_WINDOW_BYTES, Window, layer_windows
from slatespark.table.read.planning.layers import view_slices
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.read.versions.floor import history_floor
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.table.write.trimmed_trees import TrimTrees
from slatespark.units import time_text


def trim_history(
    stores: TableStores,
    clock: Clock,
    after_ms: int,
    options: WriteOptions | None = None,
    *,
    runner: TaskRunner = THREADS,
) -> CommitRecord | None:
    """Remove all row versions that were created after an instant; None when there are none.

    Versions without a create_ts stay. The version id just below the new one shows the state before the trim, for
    `versionRetention`, at least seven days.

    Parameters
    ----------
    after_ms : the latest create_ts that stays
    options : `ifClientActive`, and how files are written
    runner : reads and rewrites files, a view in each task; by default threads of this process

    Raises
    ------
    InvalidRequestError
        When the table has no history.
    HistoryTrimmedError
        When the instant is below the history floor, where the versions to go back to may be gone.
    CommitConflictError
        When another commit came first, or a SlateDB client is active.
    """
    options = options or WriteOptions(path=stores.url)
    refuse_cooperation(options, "a trim")
    snapshot = resolve_snapshot(stores, ReadOptions(path=stores.url), clock)
    definition = resolve_definition(stores, snapshot.manifest).declaring(options.properties)
    if not definition.has_history:
        raise InvalidRequestError(
            f"{stores.url} is not a history table.",
            why="The versions that its newer rows replaced may be gone.",
            todo="Use restoreToTimestamp or restoreToVersion.",
        )
    floor_ms = history_floor(stores, snapshot.manifest, definition)
    if floor_ms is not None and after_ms < floor_ms:
        raise HistoryTrimmedError(
            f"{stores.url}: some row versions of {time_text(after_ms)} may be gone.",
            todo=f"The earliest time to trim to is {time_text(floor_ms)}.",
        )
    found = snapshot.version
    job = begin_write(stores, clock, operation=Operation.TRIM, found=found, definition=definition)
    trimming = _Trimming(stores, clock, after_ms, options, job.planned_ms, job.segments)
    with abandoned_on_error(stores, job):
        edit = trimming.plan(snapshot, runner)
        if edit is None:
            abandon_write(stores, job)
            return None
        nothing_since = LastSeq(snapshot.max_seq)
        return commit_write(stores, clock, job, (), options, edit=edit, requirements=(nothing_since,))


class _Suspect(NamedTuple):
    """The part of a file that a view shows, and whether it certainly shows late versions; otherwise it may."""

    part: FileSlice
    is_late: bool


@dataclass(frozen=True, slots=True)
class _Trimming:
    """Inputs of a trim; they travel to its tasks.

    Attributes
    ----------
    after_ms : versions created later are removed
    planned_ms : time part of the ids of new files
    """

    stores: TableStores
    clock: Clock
    after_ms: int
    options: WriteOptions
    planned_ms: int
    segments: KeySegments

    def plan(self, snapshot: Snapshot, runner: TaskRunner) -> TrimTrees | None:
        """Upload the remaining rows of files with late versions, and return the edit; None if there are none."""
        manifest = snapshot.manifest
        known = file_properties(self.stores, manifest)
        views = view_slices(self.stores, manifest)
        suspects = {
            view: _Suspect(part, is_late=part.is_whole and view.sst_id in known)
            for view, part in views.items()
            if self._may_be_late(known.get(view.sst_id))
        }
        wal = fetch_wal_rows(self.stores, snapshot.wal, manifest.last_l0_seq, ALL_KEYS)
        kept = np.zeros(0, np.int64) if wal is None else self._kept(wal, 0, len(wal))
        rewritten = zip(suspects, runner(self.rewrite_late, [*suspects.values()]), strict=True)
        replacements = {view: files for view, files in rewritten if files is not None}
        if not replacements and (wal is None or len(kept) == len(wal)):
            return None
        from_wal = [] if wal is None else [SortedRows([wal], kept)]
        return TrimTrees(frozenset(views), replacements, self._upload(from_wal), self.segments)

    def rewrite_late(self, suspect: _Suspect) -> tuple[NewFile, ...] | None:
        """Upload the remaining rows of a view, and return their files; None if it shows no late versions."""
        if not suspect.is_late and not any(
            len(self._kept(item.rows, item.low, item.high)) < item.high - item.low
            for item in self._windows(suspect.part)
        ):
            return None
        windows = self._windows(suspect.part)
        return self._upload(SortedRows([item.rows], self._kept(item.rows, item.low, item.high)) for item in windows)

    def _may_be_late(self, properties: SstProperties | None) -> bool:
        """Tell whether a file may hold late versions; a SlateDB client does not record the times of its rows."""
        if properties is None:
            return True
        return properties.max_create_ts is not None and properties.max_create_ts > self.after_ms

    def _windows(self, part: FileSlice) -> Iterator[Window]:
        return layer_windows(self.stores, Layer("trimmed", (part,)), FILE_WINDOW_BYTES)

    def _kept(self, rows: RowColumns, low: int, high: int) -> NDArray[np.int64]:
        """Return which of the rows [low, high) stay."""
        late = ((rows.flags[low:high] & HAS_CREATE) != 0) & (rows.create_ts[low:high] > self.after_ms)
        return low + np.flatnonzero(~late)

    def _upload(self, pieces: Iterable[SortedRows]) -> tuple[NewFile, ...]:
        rows = (piece for piece in pieces if len(piece.rows))
        return upload_sorted(self.stores.main, rows, self.options, self.clock, self.planned_ms, segments=self.segments)
