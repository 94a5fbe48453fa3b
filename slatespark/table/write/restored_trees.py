"""RestoreTrees: the edit of a commit that brings back the trees of an earlier version. Pure.

See docs/explanation/editing-a-manifest.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import ExternalDb, Manifest, SortedRun, SstMap, SstView
from slatespark.table.commit.tree_edit import identity_views
from slatespark.table.rows.sst_upload import NewFile


@dataclass(frozen=True, slots=True)
class RestoreTrees:
    """The trees of an earlier version take the place of all that stands, under new numbers of runs.

    Attributes
    ----------
    runs : views, run by run, oldest first; no two have one id
    ssts : what they show
    external_dbs : the databases that own some of these, as that version named them
    flushed : files of rows that only the WAL of that version had, newer than all runs
    version : the id of that version, which a checkpoint has to keep until the commit; None where its files stand anyway
    """

    runs: tuple[tuple[SstView, ...], ...]
    ssts: SstMap = field(default_factory=SstMap)
    external_dbs: tuple[ExternalDb, ...] = ()
    flushed: tuple[NewFile, ...] = ()
    version: int | None = None
    keeps_wal: bool = False

    @property
    def files(self) -> tuple[NewFile, ...]:
        """Rows that only the WAL had."""
        return self.flushed

    def with_files(self, files: tuple[NewFile, ...]) -> RestoreTrees:
        """Return the same change with other ids of its files."""
        return replace(self, flushed=files)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the runs of that version; numbers of runs are not used again.

        Raises
        ------
        CommitConflictError
            When the version is not kept any more: a collector may have taken its files.
        """
        if self.version is not None and self.version not in {point.manifest_id for point in base.checkpoints}:
            raise CommitConflictError(
                f"The checkpoint on version {self.version} was deleted while it was restored.", todo="Try again."
            )
        views = [*self.runs, tuple(identity_views(self.flushed))]
        first = max(base.run_ids(), default=-1) + 1
        runs = [SortedRun(first + at, run) for at, run in enumerate(run for run in views if run)]
        return replace(
            base,
            compacted=tuple(reversed(runs)),
            ssts=self.ssts.adding([file.handle for file in self.flushed]),
            external_dbs=_joined(base.external_dbs, self.external_dbs),
        )


def _joined(standing: Iterable[ExternalDb], restored: Iterable[ExternalDb]) -> tuple[ExternalDb, ...]:
    """Return the databases of both, with the files of both; path and final checkpoint tell which is which."""
    joined = {(database.path, database.final_checkpoint_id): database for database in standing}
    for database in restored:
        key = database.path, database.final_checkpoint_id
        known = joined.get(key)
        ids = database.sst_ids if known is None else tuple(dict.fromkeys((*known.sst_ids, *database.sst_ids)))
        joined[key] = replace(known or database, sst_ids=ids)
    return tuple(joined.values())
