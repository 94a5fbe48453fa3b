"""How many rows a commit wrote, for the commands whose call returns a version alone."""

from __future__ import annotations

from typing import Final

from slatespark.slate_store import SlateStore

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
    newest = store.history(_LATER + 1)
    return next((facts.rows.get(kind, 0) for facts in newest if facts.version == version and facts.operation), None)
