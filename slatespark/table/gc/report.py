"""VacuumReport: every object that a vacuum examined, its action, and the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from slatespark.shown import Shown
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.gc.plan import Verdict

DELETED: Final = "deleted"
KEPT: Final = "kept"
WOULD_DELETE: Final = "would delete"


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """An examined object.

    Attributes
    ----------
    path : path below the table, or below the location of its WAL
    size : bytes
    action : `deleted`, `kept`, or `would delete`
    reason : reason for the action
    kind : `manifest`, `compactions`, `columns`, `sst`, `wal`, `unfinished`, `claim`, `commit record`,
        `load`, `filtering`, `lease` or `definition`
    until_ms : when the reason for keeping it ends by itself; None if it does not, or nobody knows when
    """

    path: str
    size: int
    action: str
    reason: str
    kind: str
    until_ms: int | None = None

    @classmethod
    def of(cls, verdict: Verdict, kind: str, *, dry_run: bool) -> Self:
        """Return an object of this kind with the action that its verdict means."""
        done = WOULD_DELETE if dry_run else DELETED
        action = done if verdict.goes else KEPT
        return cls(verdict.meta.path, verdict.meta.size, action, verdict.reason, kind, verdict.until_ms)


@dataclass(frozen=True, slots=True, repr=False)
class VacuumReport(Shown):
    """The result of a vacuum, or its plan.

    Attributes
    ----------
    version : the newest one; None if there is no table
    now_ms : the instant at which ages were judged
    min_age_ms : younger objects were kept
    dry_run : whether nothing was changed
    files : files in the order of deletion
    checkpoints_released : those that had expired, or only recorded the outcome of a commit
    jobs_dropped : ids of abandoned compactions
    views_removed : number of views that showed no row; the next vacuum can delete files that only they showed
    unknown : why unreferenced SSTs and WAL files were kept: some references are unknown; None otherwise
    """

    url: str
    version: int | None
    now_ms: int
    min_age_ms: int
    dry_run: bool
    files: tuple[CollectedFile, ...]
    checkpoints_released: tuple[CheckpointFacts, ...] = ()
    jobs_dropped: tuple[str, ...] = ()
    views_removed: int = 0
    unknown: str | None = None

    @property
    def collected(self) -> tuple[CollectedFile, ...]:
        """Deleted objects, or those that would be deleted."""
        return tuple(file for file in self.files if file.action != KEPT)

    @property
    def kept(self) -> tuple[CollectedFile, ...]:
        """Kept objects."""
        return tuple(file for file in self.files if file.action == KEPT)

    @property
    def bytes(self) -> int:
        """Total size of the collected objects."""
        return sum(file.size for file in self.collected)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of collected objects by kind."""
        return Counter(file.kind for file in self.collected)
