"""RestoreTrees: the edit of a commit that restores the trees of an earlier version. Pure.

See docs/explanation/editing-a-manifest.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import ExternalDb, Manifest
from slatespark.format.references import SstMap, SstView
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.table.commit.tree_edit import DROP_TREES, TreeEdit, add_runs, new_runs
from slatespark.table.rows.sst_upload import NewFile


@dataclass(frozen=True, slots=True)
class RestoreTrees(TreeEdit):
    """The trees of an earlier version replace the present ones, under new run ids.

    Attributes
    ----------
    runs : views, run by run, oldest first, with distinct ids
    ssts : the SSTs of the views
    external_dbs : the databases that own some of the SSTs, as in that version
    files : those of rows that were only in the WAL of that version, newer than all runs
    segments : the segment of each file
    version : the id of that version, which a checkpoint has to keep until the commit; None if its files are kept anyway
    """

    runs: tuple[tuple[SstView, ...], ...]
    ssts: SstMap = field(default_factory=SstMap)
    external_dbs: tuple[ExternalDb, ...] = ()
    files: tuple[NewFile, ...] = ()
    segments: KeySegments = WHOLE
    version: int | None = None

    keeps_wal = False

    def with_files(self, files: tuple[NewFile, ...]) -> Self:
        """Return the same edit with other ids of its files."""
        return replace(self, files=files)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the runs of that version, under ids that were never used before.

        Raises
        ------
        CommitConflictError
            When no checkpoint keeps the version any more: its files may have been collected.
        """
        if self.version is not None and self.version not in {point.manifest_id for point in base.checkpoints}:
            raise CommitConflictError(
                f"The checkpoint of version {self.version} was deleted during the restore.", todo="Try again."
            )
        restored: dict[bytes, list[Sequence[SstView]]] = {}
        for run in filter(None, self.runs):
            first_key = self.ssts[run[0].sst_id].key_range().start
            restored.setdefault(self.segments.prefix_of(first_key), []).append(run)
        for prefix, runs in new_runs(self.files, self.segments).items():
            restored.setdefault(prefix, []).extend(runs)
        return replace(
            add_runs(DROP_TREES.apply(base), restored, base.run_ids()),
            ssts=self.ssts.adding([file.handle for file in self.files]),
            external_dbs=_joined(base.external_dbs, self.external_dbs),
        )


def _joined(present: Iterable[ExternalDb], restored: Iterable[ExternalDb]) -> tuple[ExternalDb, ...]:
    """Return the databases of both, with the files of both; path and final checkpoint identify a database."""
    joined = {(database.path, database.final_checkpoint_id): database for database in present}
    for database in restored:
        key = database.path, database.final_checkpoint_id
        known = joined.get(key)
        ids = database.sst_ids if known is None else tuple(dict.fromkeys((*known.sst_ids, *database.sst_ids)))
        joined[key] = replace(known or database, sst_ids=ids)
    return tuple(joined.values())
