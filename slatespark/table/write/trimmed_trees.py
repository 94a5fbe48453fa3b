"""TrimTrees: the edit of a commit that removes late row versions from all files and from the WAL. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstView
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.table.commit.tree_edit import ReplaceViews, TreeEdit, add_runs, new_runs
from slatespark.table.rows.sst_upload import NewFile


@dataclass(frozen=True, slots=True)
class TrimTrees(TreeEdit):
    """New files replace views, and the rows that are only in the WAL.

    Attributes
    ----------
    planned_on : all views of the planned manifest: new ones may hold late versions, or rows that were in the WAL
    replacements : as in `ReplaceViews`
    from_wal : files of the remaining rows of the WAL, in key order; they become the newest run of their tree
    segments : the segment of each file
    """

    planned_on: frozenset[SstView]
    replacements: Mapping[SstView, tuple[NewFile, ...]] = field(default_factory=dict)
    from_wal: tuple[NewFile, ...] = ()
    segments: KeySegments = WHOLE

    keeps_wal = False

    @property
    def files(self) -> tuple[NewFile, ...]:
        """All new files, those with rows of the WAL last."""
        return (*ReplaceViews(self.replacements).files, *self.from_wal)

    def with_files(self, files: tuple[NewFile, ...]) -> Self:
        """Return the same edit with other ids of its files."""
        in_trees = len(files) - len(self.from_wal)
        replaced = ReplaceViews(self.replacements).with_files(files[:in_trees])
        return replace(self, replacements=replaced.replacements, from_wal=files[in_trees:])

    def apply(self, base: Manifest) -> Manifest:
        """Return the trimmed manifest; raises `CommitConflictError` when its views have changed."""
        if self.planned_on != frozenset(base.views()):
            raise CommitConflictError(
                "The files of the table changed while it was being trimmed.",
                why="A compaction, a flush or another commit came first.",
                todo="Run it again.",
            )
        trimmed = ReplaceViews(self.replacements).apply(base)
        if not self.from_wal:
            return trimmed
        added = new_runs(self.from_wal, self.segments)
        ssts = trimmed.ssts.adding([file.handle for file in self.from_wal])
        return replace(add_runs(trimmed, added, base.run_ids()), ssts=ssts)
