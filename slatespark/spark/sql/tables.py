"""Tables that a statement names: ``slate.`path` ``, or a temporary view of one whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slatespark.errors import OptionError
from slatespark.options import no_path
from slatespark.options.values import STORAGE_PREFIX, WAL_PATH
from slatespark.spark.frame_columns import dotted
from slatespark.spark.pyspark_api import view_options, working_folder
from slatespark.spark.slate_table import SlateTable
from slatespark.spark.slate_table.arguments import CLOCK
from slatespark.spark.slate_table.base import frames_of
from slatespark.spark.sql.statement import FORMAT, names_path
from slatespark.table.stores import absolute_location
from slatespark.texts import listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_ALL_SESSIONS: Final = "global_temp"
_PLACE_OPTIONS: Final = frozenset(name.lower() for name in ("path", WAL_PATH, CLOCK))


@dataclass(frozen=True, repr=False)
class Catalog:
    """What names of tables mean in one call.

    Attributes
    ----------
    storage : arguments of `SlateTable.forPath` for tables that are named by their path; may hold credentials
    """

    spark: SparkSession
    storage: Mapping[str, Any]

    def find(self, name: tuple[str, ...], *, needs_columns: bool) -> SlateTable | None:
        """Return the table of a name, under the alias by which conditions can call it; None if it is another.

        Parameters
        ----------
        needs_columns : whether the statement is about the columns that a view shows, so that they must be the table's

        Raises
        ------
        TableNotFoundError
            When there is no table at the path.
        OptionError
            When the name is a view of a part, or of an earlier state, of a table.
        """
        if names_path(name):
            return SlateTable.forPath(self.spark, name[1], **self.storage)
        options = view_options(self.spark, name, FORMAT) if self._may_be_view(name) else None
        if options is None:
            return None
        view = ".".join(name)
        place = {key: value for key, value in options.items() if _is_place(key)}
        if others := sorted(options.keys() - place.keys()):
            raise OptionError(
                f"sql: the view {view} does not show the whole table: it has the option {others[0]}.",
                todo=f"Name the table itself: {FORMAT}.`path`.",
            )
        folder = working_folder(self.spark)  # the view reads there, wherever this process is
        here = {key: absolute_location(value, folder) if _is_path(key) else value for key, value in place.items()}
        path = next((here.pop(key) for key in list(here) if key.lower() == "path"), None)
        if path is None:  # it was created with a list of columns, for which Spark does not ask the source
            raise no_path(f"The view {view} has no path.")
        table = SlateTable.forPath(self.spark, path, **_spelled(here)).alias(name[-1])
        if needs_columns:
            _require_columns(view, self.view_columns(*name), frames_of(table).codec().schema.names)
        return table

    def view_columns(self, *name: str) -> list[str]:
        """Return the columns that a view shows: those that the table had when it was created, or a list given then."""
        return self.spark.table(dotted(name)).columns

    def readable_columns(self, name: str, table: SlateTable) -> list[str]:
        """Return the columns that a view shows; raises `OptionError` if the table lacks one of them by now."""
        shown, known = self.view_columns(name), frames_of(table).codec().schema.names
        if not {column.lower() for column in shown} <= {column.lower() for column in known}:
            raise _other_columns(name, shown, known)
        return shown

    def shows_ours(self, name: str) -> bool:
        """Tell whether a name is that of a temporary view of a SlateDB table, whole or not."""
        return view_options(self.spark, (name,), FORMAT) is not None

    @staticmethod
    def _may_be_view(name: tuple[str, ...]) -> bool:
        """Tell whether a name may be that of a temporary view, of this session or of all."""
        return len(name) == 1 or (len(name) == 2 and name[0].lower() == _OF_ALL_SESSIONS)


def _require_columns(view: str, shown: Sequence[str], columns: Sequence[str]) -> None:
    """Raise `OptionError` unless a view shows the columns of the table, neither fewer nor in another order."""
    if [name.lower() for name in shown] != [name.lower() for name in columns]:
        raise _other_columns(view, shown, columns)


def _other_columns(view: str, shown: Sequence[str], columns: Sequence[str]) -> OptionError:
    return OptionError(
        f"sql: the view {view} does not show the whole table: its columns are {', '.join(shown)}, but those of the "
        f"table are {listed(columns)}.",
        why="Either it was created with a list of columns, or the table's have changed since.",
        todo=f"Create it again without a list, or name the table itself: {FORMAT}.`path`.",
    )


def _is_path(name: str) -> bool:
    return name.lower() in ("path", WAL_PATH.lower())


def _is_place(name: str) -> bool:
    return name.lower() in _PLACE_OPTIONS or name.lower().startswith(STORAGE_PREFIX)


def _spelled(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by the names that `forPath` knows; Spark ignores case."""
    known = {name.lower(): name for name in (WAL_PATH, CLOCK)}
    return {known.get(name.lower(), name): value for name, value in options.items()}
