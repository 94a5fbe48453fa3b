"""Groups of parameters that several commands share.

A group is a function. Its parameters are arguments and options of the shell; a command that takes the group has them
all, and gets what the function returns as its first parameter:

    @app.command()
    @failing_with(EXIT_FAILED)
    @taking(located_table)
    def verify(table: TableArguments, as_json: AsJson = False) -> None: ...

In --help arguments come first, then the options of the command, then those of the group.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from slatespark.cli.arguments import (
    ChangesOption,
    Columns,
    CommitOption,
    ExpiryOption,
    IntervalsOption,
    LocationOption,
    ReadOption,
    Storage,
    TablePath,
    TimestampAsOf,
    VersionAsOf,
    VersionOption,
)
from slatespark.cli.table_arguments import ReadArguments, TableArguments, table_arguments, write_arguments
from slatespark.options import ReadOptions

Own = ParamSpec("Own")
Value = TypeVar("Value")


def taking(group: Callable[..., Value]) -> Callable[[Callable[Concatenate[Value, Own], None]], Callable[..., None]]:
    """Return a decorator for commands: the first parameter is replaced by the parameters of a group."""
    shared = inspect.signature(group, eval_str=True).parameters

    def decorate(command: Callable[Concatenate[Value, Own], None]) -> Callable[..., None]:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        call: Callable[..., None] = command

        @functools.wraps(command)
        def run(**given: Any) -> None:
            value = group(**{name: given.pop(name) for name in shared})
            call(value, **given)

        parameters = [
            *(item for item in shared.values() if item.default is item.empty),
            *own,
            *(item for item in shared.values() if item.default is not item.empty),
        ]
        named = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in parameters]
        run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # where typer looks first
        run.__annotations__ = {item.name: item.annotation for item in named}
        return run

    return decorate


# --- the groups -----------------------------------------------------------------------------------------------------


def located_table(table: TablePath, option: LocationOption = None, storage: Storage = None) -> TableArguments:
    """Return a table whose location is all that a command needs to know."""
    return table_arguments(table, option=option, storage=storage)


def committed_table(table: TablePath, option: CommitOption = None, storage: Storage = None) -> TableArguments:
    """Return a table, and the write options of a commit to it."""
    return write_arguments(table, {}, option=option, storage=storage)


def table_version(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: VersionOption = None,
    storage: Storage = None,
) -> ReadOptions:
    """Return the read options that select a version of a table."""
    named = {"versionAsOf": version_as_of, "timestampAsOf": timestamp_as_of}
    return ReadArguments(table, named, option, storage).options({})


def expiry_version(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: ExpiryOption = None,
    storage: Storage = None,
) -> ReadOptions:
    """Return the read options that select a version of a table, and the time of its expiry report."""
    return table_version(table, version_as_of, timestamp_as_of, option, storage)


def table_rows(
    table: TablePath,
    columns: Columns = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: ReadOption = None,
    storage: Storage = None,
) -> ReadArguments:
    """Return what a command that reads rows was given, but for the options of its own."""
    named = {"columns": columns, "versionAsOf": version_as_of, "timestampAsOf": timestamp_as_of}
    return ReadArguments(table, named, option, storage)


def row_versions(
    table: TablePath,
    columns: Columns = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: IntervalsOption = None,
    storage: Storage = None,
) -> ReadArguments:
    """Return what a command that reads the versions of rows was given, but for the options of its own."""
    return table_rows(table, columns, version_as_of, timestamp_as_of, option, storage)


def table_changes(
    table: TablePath, columns: Columns = None, option: ChangesOption = None, storage: Storage = None
) -> ReadArguments:
    """Return what a command that reads changes was given, but for the options of its own."""
    return ReadArguments(table, {"columns": columns, "readChangeFeed": True}, option, storage)
