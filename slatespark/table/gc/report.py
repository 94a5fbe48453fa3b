"""What a collection did: every object that it looked at, and why that went or stayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slatespark.table.checkpoints.store import CheckpointFacts

DELETED: Final = "deleted"
KEPT: Final = "kept"
WOULD_DELETE: Final = "would delete"


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """An object.

    Attributes
    ----------
    path : below the table, or below the place of its WAL
    size : bytes
    action : `deleted`, `kept`, or `would delete`
    reason : why
    kind : `manifest`, `compactions`, `sst`, `wal`, `unfinished`, `claim`, `commit record`, `lease` or `definition`
    """

    path: str
    size: int
    action: str
    reason: str
    kind: str


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a collection did, or would do.

    Attributes
    ----------
    version : the newest one; None where no table stands
    now_ms : the instant at which ages were judged
    min_age_ms : nothing younger went
    dry_run : whether nothing was changed
    files : in the order in which they went
    checkpoints_released : those that had expired, or only said what was committed
    jobs_dropped : ids of compactions that nobody works on any more
    unknown : why SSTs and WAL files stayed that nobody names; None if there was no such reason
    """

    url: str
    version: int | None
    now_ms: int
    min_age_ms: int
    dry_run: bool
    files: tuple[CollectedFile, ...]
    checkpoints_released: tuple[CheckpointFacts, ...] = ()
    jobs_dropped: tuple[str, ...] = ()
    unknown: str | None = None

    @property
    def collected(self) -> tuple[CollectedFile, ...]:
        """What went, or would go."""
        return tuple(file for file in self.files if file.action != KEPT)

    @property
    def kept(self) -> tuple[CollectedFile, ...]:
        """What stayed."""
        return tuple(file for file in self.files if file.action == KEPT)

    @property
    def bytes(self) -> int:
        """Of all that went, or would go."""
        return sum(file.size for file in self.collected)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many objects went, or would go, by kind."""
        return Counter(file.kind for file in self.collected)
