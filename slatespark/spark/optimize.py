"""Delta's name for a compaction: `optimize().where(...).executeCompaction()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from slatespark.errors import InvalidRequestError
from slatespark.table.compaction.report import CompactionReport


class SlateOptimizeBuilder:
    """A compaction to be run, as `DeltaOptimizeBuilder`; made by `SlateTable.optimize`."""

    def __init__(self, compact: Callable[..., CompactionReport], where: str | None = None) -> None:
        self._compact, self._where = compact, where

    def where(self, condition: str) -> SlateOptimizeBuilder:
        """Restrict it to key intervals, as the argument `where` of `compact`."""
        return SlateOptimizeBuilder(self._compact, condition)

    def executeCompaction(self, **options: Any) -> CompactionReport:
        """Run it; `options` are the other arguments of `compact`."""
        return self._compact(where=self._where, **options)

    def executeZOrderBy(self, *columns: str) -> NoReturn:
        """Refuse to sort by other columns: rows are sorted by the key.

        Raises
        ------
        InvalidRequestError
            Always.
        """
        raise InvalidRequestError(
            f"The table cannot be sorted by {', '.join(columns)}: rows are sorted by the key.",
            todo="Call executeCompaction(). Filters on leading key columns skip files and blocks.",
        )
