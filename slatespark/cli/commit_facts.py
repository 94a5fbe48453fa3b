"""What a commit did, for the commands whose call returns a version alone."""

from __future__ import annotations

from typing import Final

from slatespark.slate_store import SlateStore
from slatespark.table.inspection.versions import VersionFacts
from slatespark.table.records.operations import Operation

_LATER: Final = 2  # versions of an automatic compaction after the commit


def count_committed(store: SlateStore, version: int, kind: str, *, before: int) -> int | None:
    """Return how many rows of a kind a version wrote, by its commit record; None if there is none.

    Parameters
    ----------
    version : the version that the call returned
    kind : as in `VersionFacts.rows`: `put` or `delete`
    before : the newest version before the call; if it is the same, nothing was committed
    """
    if version == before:
        return 0
    facts = _facts_of(store, version)
    return facts.rows.get(kind, 0) if facts is not None and facts.operation else None


def was_committed(store: SlateStore, version: int, operation: Operation, *, before: int) -> bool:
    """Tell whether a call committed something; else it returned the newest version, which may be another writer's.

    Parameters as for `count_committed`.
    """
    facts = None if version == before else _facts_of(store, version)
    return facts is not None and facts.operation == operation


def _facts_of(store: SlateStore, version: int) -> VersionFacts | None:
    return next((facts for facts in store.history(_LATER + 1) if facts.version == version), None)
