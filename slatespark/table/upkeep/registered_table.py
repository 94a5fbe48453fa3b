"""RegisteredTable: where a table of a loop is, and how it is opened for commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from slatespark.options import WriteOptions
from slatespark.options.values import STORAGE_PREFIX
from slatespark.table.stores import TableStores, open_stores


class OpenedTable(NamedTuple):
    """A table's stores, and the options of its commits."""

    stores: TableStores
    options: WriteOptions


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """The location of a table.

    Attributes
    ----------
    path : path or URL of the table
    storage : `walPath`, and options of the storage backend
    """

    path: str
    storage: Mapping[str, Any]

    @classmethod
    def checked(cls, path: str, storage: Mapping[str, Any], options: Mapping[str, Any]) -> Self:
        """Return a table that is registered; a misspelt argument is refused now, not at its turn.

        Parameters and errors as for `open`. Nothing is read, so a store that cannot be reached is not an error.
        """
        registered = cls(path, storage)
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
        storage = dict(self.storage)
        wal_path = storage.pop("walPath", storage.pop("wal_path", None))
        located = {f"{STORAGE_PREFIX}{name}": value for name, value in storage.items()}
        parsed = WriteOptions.parse({"path": self.path, **located, **options})
        return OpenedTable(open_stores(self.path, storage=storage, wal_path=wal_path), parsed)
