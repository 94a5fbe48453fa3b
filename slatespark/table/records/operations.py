"""What a version did, as commit records and `history` name it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

ENGINE: Final = "slatespark"  # of our commits; any SlateDB client is "slatedb", since manifests do not name it


class Operation(StrEnum):
    """What a commit of ours did. The texts are on disk: do not change them."""

    WRITE = "write"
    OVERWRITE = "overwrite"
    REPLACE = "replace"
    CREATE = "create"
    INGEST = "ingest"
    DELETE_RANGE = "deleteRange"
    TRANSACTION = "transaction"
    RESTORE = "restore"
    TRIM = "trim"
    CLONE = "clone"
    COMPACT = "compact"
    REAP = "reap"

    @property
    def can_be_undone(self) -> bool:
        """Whether the version that it replaces is kept, so that the commit can be undone."""
        return self in (Operation.RESTORE, Operation.TRIM)
