"""SlateTable, by concern: rows, writes, versions, upkeep. Each method delegates.

May import the rest of `slatespark.spark` but for `sql` and `demo`. Keep out: decisions.
"""

from __future__ import annotations

from slatespark.spark.slate_table.table import SlateTable

__all__ = ["SlateTable"]
