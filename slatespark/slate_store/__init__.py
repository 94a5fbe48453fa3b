"""SlateStore, by concern: reading, writing, versions, inspection, upkeep. Each method delegates.

May import everything in `slatespark.table` and `slatespark.display`. What only some methods need is imported by them,
so that a first read does not wait for all of it. Keep out: decisions.
"""

from __future__ import annotations

from slatespark.slate_store.store import SlateStore

__all__ = ["SlateStore"]
