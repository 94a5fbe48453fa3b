"""Rewriting views of which most rows are due: which ones, as tasks in any process, and what is known of them since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from slatespark.format.manifest import SstView
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.plan import DueBlocks, DueView, Treatment, choose_treatment
from slatespark.table.retention.reap_files import Rewrite, count_gone, holds_several_versions, rewrite_view
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.table.tasks import TaskRunner

RewriteId: TypeAlias = tuple[SstView, tuple[KeyRange, ...]]  # a view, and the keys of older ones


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
            gone = count_gone(
                self.stores, view, candidate.outline, blocks.reads, self.retired_ms, window_bytes=self.window_bytes
            )
            if not _goes_mostly(gone, blocks):
                return RewriteOutcome(gone, None)
        rewrite = rewrite_view(
            self.stores,
            view,
            self.retired_ms,
            self.options,
            self.clock,
            planned_ms=self.planned_ms,
            window_bytes=self.window_bytes,
        )
        return RewriteOutcome(gone, rewrite)


@dataclass(slots=True)
class Rewrites:
    """The rewritten views of a reap; a pass that is planned again uses those of the one before.

    Attributes
    ----------
    counted : number of rows that a rewrite of a view would remove
    uploaded : what replaces a view, valid while the keys of older views are the same
    finished : files that were made by a rewrite, and are not rewritten again
    """

    runner: TaskRunner
    counted: dict[tuple[FileSlice, tuple[KeyRange, ...]], int] = field(default_factory=dict)
    uploaded: dict[RewriteId, Rewrite] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Forget what depends on the retention."""
        self.counted.clear()
        self.uploaded.clear()

    def finish(self, files: Sequence[NewFile]) -> None:
        """Take note of files that a commit published."""
        self.finished.update(str(file.handle.id) for file in files)

    def candidate(self, view: DueView, outline: FileOutline, blocks: DueBlocks) -> Candidate | None:
        """Return a view that may have to be rewritten; None if tombstones are better."""
        treatment, part = choose_treatment(view, blocks), view.stored.part
        if treatment is Treatment.TOMBSTONES or str(part.file.id) in self.finished:
            return None
        if treatment is Treatment.REWRITE and not holds_several_versions(outline):
            return Candidate(view, blocks, None)
        gone = self.counted.get((part, view.older))
        if gone is None:
            return Candidate(view, blocks, outline)
        return Candidate(view, blocks, None) if _goes_mostly(gone, blocks) else None

    def run(
        self, task: RewriteTask, group: Sequence[Candidate], tell: Callable[[int], None]
    ) -> tuple[dict[DueView, Rewrite], list[Candidate]]:
        """Return what replaces the views of candidates, each a task, and the candidates that are left to tombstones.

        Parameters
        ----------
        tell : called with the bytes of the views rewritten so far
        """
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
