"""SlateStore, by concern: reading, writing, versions, inspection, upkeep. Each method delegates.

May import everything in `slatespark.table`, and `display` when a method shows something. Keep out: decisions.
"""

from __future__ import annotations

from slatespark.table.slate_store.store import SlateStore

__all__ = ["SlateStore"]
