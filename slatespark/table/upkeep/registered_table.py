"""RegisteredTable: where a table of a loop is, and how it is opened for commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from slatespark.options import WriteOptions
from slatespark.options.values import with_storage_prefix
from slatespark.table.stores import TableStores, absolute_location, open_stores, split_wal_path


class OpenedTable(NamedTuple):
    """A table's stores, and the options of its commits."""

    stores: TableStores
    options: WriteOptions


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """The location of a table.

    Attributes
    ----------
    path : path or URL of the table as it was given, by which the loop knows it
    location : the same in any working folder: the loop may go on in another
    wal_path : the location of its WAL if that is elsewhere
    """

    path: str
    location: str
    wal_path: str | None
    storage: Mapping[str, Any]

    @classmethod
    def checked(cls, path: str, storage: Mapping[str, Any], options: Mapping[str, Any]) -> Self:
        """Return a table that is registered; a misspelt argument is refused now, not at its turn.

        Nothing is read, so a store that cannot be reached is not an error.

        Parameters
        ----------
        storage : `walPath`, and options of the storage backend
        options : as for `open`, with its errors
        """
        wal_path, backend = split_wal_path(storage)
        location = absolute_location(path)
        registered = cls(path, location, wal_path, open_stores(location, storage=backend).storage)
        registered.open(options)
        return registered

    def open(self, options: Mapping[str, Any]) -> OpenedTable:
        """Return the opened table; nothing is read.

        Parameters
        ----------
        options : write options as users give them

        Raises
        ------
        OptionError
            When an option is wrong.
        """
        parsed = WriteOptions.parse({"path": self.location, **with_storage_prefix(self.storage), **options})
        return OpenedTable(open_stores(self.location, storage=self.storage, wal_path=self.wal_path), parsed)
