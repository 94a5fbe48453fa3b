"""Delta's name for a compaction: `optimize().where(...).executeCompaction()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from slatespark.errors import InvalidRequestError
from slatespark.table.compaction.report import CompactionReport


class SlateOptimizeBuilder:
    """A compaction to be run, as `DeltaOptimizeBuilder`. Made by `SlateTable.optimize`.

    Examples
    --------
    >>> from slatespark import SlateTable
    >>> table = SlateTable.create(spark, f"{path}/optimized", "id BIGINT, name STRING", "id")
    >>> table.optimize().where("id < 10").executeCompaction(dryRun=True).jobs
    ()
    """

    def __init__(self, compact: Callable[..., CompactionReport], where: str | None = None) -> None:
        self._compact, self._where = compact, where

    def where(self, condition: str) -> SlateOptimizeBuilder:
        """Restrict it to key ranges, of which everything is merged.

        Parameters
        ----------
        condition : comparisons on leading key columns, as the argument `where` of `compact`
        """
        return SlateOptimizeBuilder(self._compact, condition)

    def executeCompaction(self, **options: Any) -> CompactionReport:
        """Run it, and return the report; errors as of `SlateTable.compact`.

        Parameters
        ----------
        options : the other arguments of `SlateTable.compact`
        """
        return self._compact(where=self._where, **options)

    def executeZOrderBy(self, *columns: str) -> NoReturn:
        """Refuse to sort by other columns: rows are sorted by the key.

        Parameters
        ----------
        columns : named in the error

        Raises
        ------
        InvalidRequestError
            Always.
        """
        raise InvalidRequestError(
            f"The table cannot be sorted by {', '.join(columns)}: rows are sorted by the key.",
            todo="Call executeCompaction(). Filters on leading key columns skip files and blocks.",
        )
