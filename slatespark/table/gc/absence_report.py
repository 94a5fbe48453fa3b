"""AbsenceReport: where keys are still stored, what keeps each copy, and until when; or that they are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slatespark.shown import Shown
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.write.erase import ErasedRows


@dataclass(frozen=True, slots=True)
class KeyLocation:
    """An object that holds rows of the keys, or names a key without its row.

    Attributes
    ----------
    url : URL of the object
    kind : `sst`, `wal` or `columns` (the columnar copy of an SST), which hold rows; `manifest`, `compactions`,
        `commit record` or `claim`, which name keys
    versions : versions that reference the file, ascending; none if it is unreferenced. A manifest references itself
    checkpoints : checkpoints that pin one of these versions: name, or id
    is_current : whether the newest version is one of them; its rows may be hidden even so
    rows : number of row versions, by `put`, `delete` and `merge`; empty for an object that only names keys
    first_key : the smallest of the keys that it holds or names, or the end of the given interval if it names that
    newest_seq : highest sequence number of these rows; 0 without rows, and of a columnar copy
    is_kept : whether the next vacuum keeps it at any age
    reason : why a vacuum keeps or deletes it
    until_ms : when the reason for keeping it ends by itself; None if it does not, or nobody knows when
    """

    url: str
    kind: str
    versions: tuple[int, ...]
    checkpoints: tuple[str, ...]
    is_current: bool
    rows: Mapping[str, int]
    first_key: bytes
    newest_seq: int = 0
    is_kept: bool = True
    reason: str = ""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an `erase` did before its proof.

    Attributes
    ----------
    removed : what was removed from the newest version
    records : number of records, lists of compactions included, that named a key and no longer do
    released : checkpoints of replaced versions that were given up
    deleted, deleted_bytes : objects that the vacuum deleted, and their size
    has_history : whether it is a history table: reads of other keys as of any time show the same as before
    """

    removed: ErasedRows
    records: int
    released: tuple[CheckpointFacts, ...]
    deleted: int
    deleted_bytes: int
    has_history: bool


@dataclass(frozen=True, slots=True, repr=False)
class AbsenceReport(Shown):
    """Whether keys are gone from a table.

    Attributes
    ----------
    version : the newest one
    versions : all that exist
    gone : no object holds a row of the keys or names a key, and nothing is unread
    found : objects that do
    unread : partial objects of killed or running writers, which a vacuum deletes once they are old; objects with
        foreign names in the folders of SSTs, columnar copies and WAL files; damaged records and copies
    objects : number searched for rows
    erasure : what was done before, of `erase`; None of `proveAbsent`
    """

    url: str
    version: int
    versions: tuple[int, ...]
    gone: bool
    found: tuple[KeyLocation, ...]
    unread: tuple[str, ...]
    objects: int
    erasure: Erasure | None = None

    @property
    def rows(self) -> int:
        """Number of row versions that are still stored."""
        return sum(count for location in self.found for count in location.rows.values())

    @property
    def until_ms(self) -> int | None:
        """When the last copy can be deleted; None if none is kept, or one does not go by itself."""
        times = [location.until_ms for location in self.found if location.is_kept]
        return None if None in times else max((time_ms for time_ms in times if time_ms is not None), default=None)
