"""How many rows a call committed, for the commands whose call returns a version alone."""

from __future__ import annotations

from slatespark.slate_store import SlateStore
from slatespark.slate_store.base import last_commit


def committed_rows(store: SlateStore, kind: str) -> int | None:
    """Return how many rows of a kind the last call committed, `put` or `delete`; None if their number is not known."""
    record = last_commit(store)
    return 0 if record is None else record.rows.get(kind)
