"""Where a table is, for Spark's tasks. They import little else: a new Python worker imports it all again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slatespark.table.stores import TableStores, open_stores


@dataclass(frozen=True)
class TableLocation:
    """The location of a table and its clock, for tasks in other processes.

    Attributes
    ----------
    path, wal_path : the locations of the table, and of its WAL if that is elsewhere
    storage : options of the storage backend; never shown, since they may hold credentials
    clock : `module:function`; None for the system clock
    """

    path: str
    wal_path: str | None
    storage: Mapping[str, str]
    clock: str | None = None

    def __repr__(self) -> str:
        return f"TableLocation({self.path!r})"

    def open(self) -> TableStores:
        """Return the stores of the table."""
        return open_stores(self.path, storage=self.storage, wal_path=self.wal_path)
