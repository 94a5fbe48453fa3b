"""Rewriting views of which most rows are due: which ones, as tasks in any process, and what is known of them since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from slatespark.errors import CommitConflictError
from slatespark.format.references import SstView
from slatespark.kernels import lower_bound
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange, key_after
from slatespark.table.clock import Clock
from slatespark.table.commit.held_lease import HeldLease
from slatespark.table.read.merge.cursor import Window, layer_windows
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.retention.due_windows import due_windows, holds_several_versions
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.past_retention import surviving_rows
from slatespark.table.retention.plan import DueBlocks, DueView, Treatment, choose_treatment
from slatespark.table.rows.row_keeper import to_tombstones
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.stores import TableStores
from slatespark.table.tasks import TaskRunner

RewriteId: TypeAlias = tuple[SstView, tuple[KeyRange, ...]]  # a view, and the keys of older ones


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files that replace a view, and how many rows other than tombstones were removed."""

    files: tuple[NewFile, ...]
    gone: int


@dataclass(slots=True)
class _Rest:
    """The remaining rows, window by window.

    Attributes
    ----------
    gone : number of removed rows other than tombstones
    open_key : a key whose versions span several windows; they are all kept
    """

    windows: Iterable[Window]
    older: Sequence[KeyRange]
    retired_ms: int
    gone: int = 0
    open_key: bytes | None = None

    def pieces(self) -> Iterator[SortedRows]:
        for window in self.windows:
            rows, low, high = window.rows, window.low, window.high
            start = self._end_of_open_key(window)
            if start > low:
                yield SortedRows([rows], np.arange(low, start, dtype=np.int64))
            if start == high:
                continue
            left = surviving_rows(rows, start, high, self.older, self.retired_ms)
            to_tombstones(rows, left.positions[left.tombstones])
            self.gone += left.gone
            if len(left.positions):
                yield SortedRows([rows], left.positions)

    def _end_of_open_key(self, window: Window) -> int:
        """Return the end of the rows of a key that spans several windows."""
        if window.bound is not None and window.bound[1] == 0:
            self.open_key = window.bound[0]
            return window.high
        if self.open_key is None:
            return window.low
        return lower_bound(window.rows, key_after(self.open_key), window.low, window.high)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A view that is rewritten if most of its rows go.

    Attributes
    ----------
    outline : outline of its file, to count the rows that go first; None if most of them go for certain
    """

    view: DueView
    blocks: DueBlocks
    outline: FileOutline | None

    @property
    def rewrite_id(self) -> RewriteId:
        """What its remaining rows depend on."""
        return self.view.stored.view, self.view.older

    @property
    def stored_bytes(self) -> int:
        """Size of the blocks of its file."""
        return self.view.stored.part.file.data_bytes


@dataclass(frozen=True, slots=True)
class RewriteOutcome:
    """What became of a candidate.

    Attributes
    ----------
    gone : how many rows a rewrite would remove, at least; None if they were not counted
    rewrite : None if tombstones are better
    """

    gone: int | None
    rewrite: Rewrite | None


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Counts the due rows of candidates and rewrites these, in any process.

    Attributes
    ----------
    retired_ms : rows created at or before it are due
    planned_ms : time part of the ids of new files
    window_bytes : decoded at a time
    """

    stores: TableStores
    clock: Clock
    options: WriteOptions
    retired_ms: int
    planned_ms: int
    window_bytes: int

    def __call__(self, candidate: Candidate) -> RewriteOutcome:
        """Upload what is left of a view, unless tombstones are better."""
        view, blocks, gone = candidate.view, candidate.blocks, None
        if candidate.outline is not None:
            gone = self.count_gone(view, candidate.outline, blocks.reads)
            if not _goes_mostly(gone, blocks):
                return RewriteOutcome(gone, None)
        return RewriteOutcome(gone, self.rewrite(view))

    def count_gone(self, view: DueView, outline: FileOutline, reads: Sequence[tuple[int, int]]) -> int:
        """Return how many rows other than tombstones a rewrite would remove, at least; parameters as for `read_blocks`.

        Keys with versions in other blocks count as kept.
        """
        gone, part = 0, view.stored.part
        for window in due_windows(self.stores, part, outline, reads, self.retired_ms, window_bytes=self.window_bytes):
            low, high = window.low, window.high
            for edge in window.open_edges():
                low, high = (max(low, edge.stop), high) if edge.start == 0 else (low, min(high, edge.start))
            if low < high:
                gone += surviving_rows(window.rows, low, high, view.older, self.retired_ms).gone
        return gone

    def rewrite(self, view: DueView) -> Rewrite:
        """Upload a view without its due rows.

        Requires: `view.may_be_rewritten`.
        """
        windows = layer_windows(self.stores, Layer("rewritten", (view.stored.part,)), self.window_bytes)
        rest = _Rest(windows, view.older, self.retired_ms)
        files = upload_sorted(self.stores.main, rest.pieces(), self.options, self.clock, self.planned_ms)
        return Rewrite(files, rest.gone)


@dataclass(slots=True)
class Rewrites:
    """The rewritten views of a reap; a pass that is planned again uses those of the one before.

    Attributes
    ----------
    lease : held from before the first upload until nothing is left that no commit has published
    settled_lapses : of the lease; nothing uploaded before them is used
    counted : number of rows that a rewrite of a view would remove
    uploaded : what replaces a view, valid while the keys of older views are the same
    finished : files that were made by a rewrite, and are not rewritten again
    left : views, with what decided that tombstones are better: the keys of older ones, and whether operands are above
    """

    runner: TaskRunner
    stores: TableStores
    clock: Clock
    lease: HeldLease | None = None
    settled_lapses: int = 0
    counted: dict[tuple[FileSlice, tuple[KeyRange, ...]], int] = field(default_factory=dict)
    uploaded: dict[RewriteId, Rewrite] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    left: set[tuple[FileSlice, tuple[KeyRange, ...], bool]] = field(default_factory=set)

    def clear(self) -> None:
        """Forget what depends on the retention."""
        self.counted.clear()
        self.uploaded.clear()
        self.left.clear()

    def is_left(self, view: DueView) -> bool:
        """Tell whether tombstones are known to be better."""
        return (view.stored.part, view.older, view.is_under_operands) in self.left

    def hold(self) -> None:
        """Keep collectors off what is uploaded; raises `CommitConflictError` if it may have been collected.

        The lease of a commit is not enough: files are rewritten before it begins, and after a conflict the next pass
        uses them.
        """
        if self.lease is None:
            self.lease, self.settled_lapses = HeldLease.publish(self.stores, self.clock), 0
            return
        self.lease.renew()
        if self.lease.lapses > self.settled_lapses:
            self.settled_lapses = self.lease.lapses
            self.uploaded.clear()
            raise CommitConflictError(
                f"{self.stores.url}: rewritten files may have been collected before their commit.",
                why="The process was suspended for so long that their lease expired.",
                todo="Reap again.",
            )

    def finish(self, published: Mapping[DueView, Rewrite]) -> None:
        """Take note of what a commit published."""
        for view, rewrite in published.items():
            self.uploaded.pop((view.stored.view, view.older), None)
            self.finished.update(str(file.handle.id) for file in rewrite.files)
        if not self.uploaded:
            self.release()

    def release(self) -> None:
        """End the lease, if there is one."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def candidate(self, view: DueView, outline: FileOutline, blocks: DueBlocks) -> Candidate | None:
        """Return a view that may have to be rewritten; None if tombstones are better, which is remembered."""
        treatment, part = choose_treatment(view, blocks), view.stored.part
        if treatment is not Treatment.TOMBSTONES and str(part.file.id) not in self.finished:
            if treatment is Treatment.REWRITE and not holds_several_versions(outline):
                return Candidate(view, blocks, None)
            gone = self.counted.get((part, view.older))
            if gone is None or _goes_mostly(gone, blocks):
                return Candidate(view, blocks, outline if gone is None else None)
        self.left.add((part, view.older, view.is_under_operands))
        return None

    def run(
        self, task: RewriteTask, group: Sequence[Candidate], tell: Callable[[int], None]
    ) -> tuple[dict[DueView, Rewrite], list[Candidate]]:
        """Return what replaces the views of candidates, each a task, and the candidates that are left to tombstones.

        Parameters
        ----------
        tell : called with the bytes of the views rewritten so far

        Raises
        ------
        CommitConflictError
            When earlier ones may have been collected.
        """
        self.hold()
        new, done = [candidate for candidate in group if candidate.rewrite_id not in self.uploaded], 0
        for candidate, outcome in zip(new, self.runner(task, new), strict=True):
            if outcome.gone is not None:
                self.counted[candidate.view.stored.part, candidate.view.older] = outcome.gone
            if outcome.rewrite is not None:
                self.uploaded[candidate.rewrite_id] = outcome.rewrite
                done += candidate.stored_bytes
                tell(done)
        chosen = {item.view: self.uploaded[item.rewrite_id] for item in group if item.rewrite_id in self.uploaded}
        return chosen, [item for item in group if item.rewrite_id not in self.uploaded]


def _goes_mostly(gone: int, blocks: DueBlocks) -> bool:
    return 2 * gone > blocks.rows
