"""Operations: the names of what a version did, in commit records and `history`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

ENGINE: Final = "slatespark"  # in contrast to "slatedb": all SlateDB clients, since manifests do not name them


class Operation(StrEnum):
    """The operation of a slatespark commit. The texts are on disk: do not change them."""

    WRITE = "write"
    COOPERATIVE_WRITE = "cooperativeWrite"  # committed by a live client
    OVERWRITE = "overwrite"
    REPLACE = "replace"
    CREATE = "create"
    INGEST = "ingest"
    DELETE_RANGE = "deleteRange"
    ERASE = "erase"
    TRANSACTION = "transaction"
    RESTORE = "restore"
    TRIM = "trim"
    CLONE = "clone"
    COPY = "copy"
    COMPACT = "compact"
    REAP = "reap"
    VACUUM = "vacuum"

    @property
    def can_be_undone(self) -> bool:
        """Whether the replaced version is kept, so that the commit can be undone."""
        return self in (Operation.RESTORE, Operation.TRIM)
