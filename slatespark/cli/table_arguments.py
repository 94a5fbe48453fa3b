"""`--option` and `--storage`: NAME=VALUE arguments become checked options, and the location of a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slatespark.errors import OptionError
from slatespark.options import ReadOptions, WriteOptions, option_keys
from slatespark.options.values import (
    STORAGE_PREFIX,
    is_clock,
    normalize_name,
    parse_clock,
    unknown_option,
    with_storage_prefix,
)
from slatespark.slate_store import SlateStore
from slatespark.slate_store.base import last_commit
from slatespark.table.clock import Clock, resolve_clock
from slatespark.table.stores import TableStores, open_stores

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TableArguments:
    """A table as a command names it, and the options of the command.

    Attributes
    ----------
    path : the location of the table
    location : `walPath` and storage options, as `SlateStore.open` takes them
    options : all other options by their names
    clock_name : `module:function`; None for the system clock
    """

    path: str
    location: Mapping[str, Any] = field(repr=False)  # may hold credentials
    options: Mapping[str, Any]
    clock_name: str | None = None

    @property
    def clock(self) -> Clock:
        """The clock of the command."""
        return resolve_clock(self.clock_name)

    def open_store(self) -> SlateStore:
        """Return the table; raises `TableNotFoundError`."""
        return call_with([self.location], SlateStore.open, self.path, clock=self.clock_name)

    def create_store(self, options: Mapping[str, Any], **named: Any) -> SlateStore:
        """Create the table and return it; raises `TableExistsError`.

        Parameters
        ----------
        options, named : further arguments of `SlateStore.create`: given by `--option`, and by the command
        """
        clock = {} if self.clock_name is None else {"clock": self.clock_name}
        return call_with([{**options, **clock}, self.location], SlateStore.create, self.path, **named)

    def open_stores(self) -> TableStores:
        """Return the storage of the table, whether or not there is a table."""
        storage = {name: value for name, value in self.location.items() if name != "walPath"}
        return open_stores(self.path, storage=storage, wal_path=self.location.get("walPath"))

    @property
    def common(self) -> dict[str, Any]:
        """The location as options of reads and writes."""
        located = {name if name == "walPath" else f"{STORAGE_PREFIX}{name}": at for name, at in self.location.items()}
        return {"path": self.path, **located}


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """What a command that reads rows was given, before its own options join.

    Attributes
    ----------
    path : the location of the table
    named : options that have a flag; None if not given
    option, storage : NAME=VALUE arguments
    """

    path: str
    named: Mapping[str, Any]
    option: list[str] | None = field(repr=False)
    storage: list[str] | None = field(repr=False)

    def options(self, own: Mapping[str, Any], *, defaults: Mapping[str, Any] | None = None) -> ReadOptions:
        """Return all options of the read.

        Parameters
        ----------
        own : options of the command by name
        defaults : used unless given

        Raises
        ------
        OptionError
            When an option is unknown, malformed, or given twice.
        """
        return ReadOptions.parse({**(defaults or {}), **self._given(own)})

    def located(self, own: Mapping[str, Any]) -> TableArguments:
        """Return the table, and all options of the read as they were given; raises as `options`."""
        self.options(own)
        return _split(self.path, self._given(own))

    def _given(self, own: Mapping[str, Any]) -> dict[str, Any]:
        return _joined(ReadOptions, self.path, {**self.named, **own}, self.option, self.storage)


def write_arguments(
    table: str, named: Mapping[str, Any], *, option: list[str] | None, storage: list[str] | None
) -> TableArguments:
    """Return the location of a table to be changed, and the write options of a command, checked.

    Parameters
    ----------
    named : options that have a flag of their own; None if not given
    option, storage : NAME=VALUE arguments

    Raises
    ------
    OptionError
        When an option is unknown, malformed, or given twice.
    """
    given = _joined(WriteOptions, table, named, option, storage)
    WriteOptions.parse(given)
    return _split(table, given)


def table_arguments(table: str, *, option: list[str] | None, storage: list[str] | None) -> TableArguments:
    """Return the location of a table, for a command whose only options are those of the location.

    Raises
    ------
    OptionError
        When another option is given, or one is malformed or given twice.
    """
    given = _joined(WriteOptions, table, {}, option, storage)
    arguments = _split(table, given)
    for name in (*arguments.options, *(() if arguments.clock_name is None else ("clock",))):
        raise unknown_option(name, ["walPath"])
    WriteOptions.parse(given)
    return arguments


def command_arguments(table: str, *, option: list[str] | None, storage: list[str] | None) -> TableArguments:
    """Return the location of a table, and options that the command itself checks."""
    return _split(table, _joined(WriteOptions, table, {}, option, storage))


def call_with(
    options: Sequence[Mapping[str, Any]], call: Callable[..., Result], /, *given: Any, **named: Any
) -> Result:
    """Call with the arguments of a command and with those that `--option` and `--storage` give by name.

    Raises
    ------
    OptionError
        When an option has the name of an argument that the command gives, or is given twice.
    """
    own = {*inspect.signature(call).bind_partial(*given, **named).arguments, *named}
    further: dict[str, Any] = {}
    for name, value in (pair for part in options for pair in part.items()):
        if name in ("self", "cls"):  # Python's, and no option
            raise unknown_option(name, sorted(own))
        if name in own:
            raise OptionError(f"{name} is an argument of the command, not an option.", todo="Give it without --option.")
        if name in further:
            raise OptionError(f"{name} is given as --option and as --storage.", todo="Give it once.")
        further[name] = value
    return call(*given, **named, **further)


def committed_rows(store: SlateStore, kind: str) -> int | None:
    """Return how many rows the last call committed, by kind: `put` or `delete`; None if their number is not known."""
    record = last_commit(store)
    return 0 if record is None else record.rows.get(kind)


def parse_pairs(given: list[str] | None, flag: str, example: str) -> list[tuple[str, str]]:
    """Return NAME=VALUE arguments as pairs, in their order.

    Raises
    ------
    OptionError
        When a name or `=` is missing. The message does not show the value, which may be a secret.
    """
    pairs = []
    for entry in given or []:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip().removeprefix(STORAGE_PREFIX):
            raise OptionError(f"{flag} takes NAME=VALUE.", todo=f"Write it like {flag} {example}.")
        pairs.append((name.strip(), value))
    return pairs


def parse_named(given: list[str] | None, flag: str, example: str) -> dict[str, str]:
    """Return NAME=VALUE arguments by name; raises as `parse_pairs`, and for a name that is given twice."""
    found: dict[str, str] = {}
    for name, value in parse_pairs(given, flag, example):
        if name in found:
            raise OptionError(f"{flag}: {name} is given twice.", todo="Give it once.")
        found[name] = value
    return found


def parse_storage(given: list[str] | None, flag: str = "--storage") -> dict[str, str]:
    """Return NAME=VALUE arguments as storage options by name, without their prefix; raises as `parse_pairs`."""
    options: dict[str, str] = {}
    for name, value in parse_pairs(given, flag, "endpoint_url=http://host:9000"):
        key = name.removeprefix(STORAGE_PREFIX).lower()
        if key in options:
            raise OptionError(f"{STORAGE_PREFIX}{key} is given twice.", todo="Give it once.")
        options[key] = value
    return options


# --- options, and the location apart from them ------------------------------------------------------------------------


def _joined(
    cls: type[ReadOptions | WriteOptions],
    table: str,
    named: Mapping[str, Any],
    option: list[str] | None,
    storage: list[str] | None,
) -> dict[str, Any]:
    """Return all options of a command by their documented names; raises `OptionError` if one is given twice."""
    known = {normalize_name(key): key for key in option_keys(cls)}
    pairs = parse_pairs(option, "--option", "walPath=PATH")
    pairs += with_storage_prefix(parse_storage(storage)).items()
    joined = {"path": table, **{name: value for name, value in named.items() if value is not None}}
    for name, value in pairs:
        is_storage = name.lower().startswith(STORAGE_PREFIX)
        key = name.lower() if is_storage else known.get(normalize_name(name), name)
        if key in joined:
            raise OptionError(f"{key} is given twice.", todo="Give it once.")
        joined[key] = value
    return joined


def _split(table: str, given: Mapping[str, Any]) -> TableArguments:
    location, options, clock = {}, {}, None
    for name, value in given.items():
        if name.startswith(STORAGE_PREFIX):
            location[name.removeprefix(STORAGE_PREFIX)] = value
        elif name == "walPath":
            location[name] = value
        elif name == "clock" and is_clock(value):
            clock = parse_clock(value, name)
        elif name != "path":
            options[name] = value
    return TableArguments(table, location, options, clock)
