"""Options as dataclass fields: how one is declared, how a mapping is parsed by the declarations, how they are listed.

Keys are camelCase. Case and underscores do not matter on input. An unknown key is refused, with the nearest known one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slatespark.errors import OptionError
from slatespark.options.values import STORAGE_PREFIX, Parser, normalize_name, parse_location, unknown_option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)


class Call(Enum):
    """A call that takes options. Each option is tagged with the calls that take it."""

    READ = auto()  # any read of a table
    AS_OF_JOIN = auto()
    INSPECTION = auto()  # of a version: its facts, files, layers, timeline
    EXPIRY = auto()  # the expiry report of a version
    WRITE = auto()  # any write of rows to a table
    DELETE = auto()  # of the rows that fulfil a condition, or of one key
    UPDATE = auto()
    MERGE = auto()
    SST_WRITER = auto()  # SstWriter.write
    INGEST = auto()
    BEGIN = auto()  # of a transaction
    TRANSACTION_READ = auto()  # a read within a transaction
    TRANSACTION_WRITE = auto()
    TRANSACTION_DELETE = auto()
    REAP = auto()
    RESTORE = auto()
    TRIM = auto()
    ERASE = auto()
    ABSENCE = auto()  # the proof that keys are gone
    DELETE_RANGE = auto()  # of a table without history
    DELETE_HISTORY = auto()  # deleteRange of a history table, which writes tombstones
    COMPACT = auto()
    WORKER = auto()  # a worker for the compactions of clients
    UPKEEP = auto()  # reaps and compactions of many tables


def option(
    key: str,
    *,
    doc: str,
    parse: Parser,
    calls: Collection[Call],
    default: Any = None,
    shown: str | None = None,
) -> Any:
    """Declare one option as a dataclass field.

    Parameters
    ----------
    key : its camelCase name
    doc : one sentence or two, for the reference page; an option without documentation is internal, and no message
        names it
    parse : (value, key) -> typed value
    calls : the calls that take it
    default : its value when not given; `dataclasses.MISSING` for an option that must be given
    shown : how the reference page writes the default, if not as Python prints it
    """
    metadata = MappingProxyType({"key": key, "doc": doc, "parse": parse, "calls": frozenset(calls), "shown": shown})
    return dataclasses.field(default=default, metadata=metadata)


# --- options of reads and of writes ---------------------------------------------------------------------------------


MERGE_OPERATOR_DOC: Final = (
    "How merge operands are folded: `concat`; `sum`, `max` or `min` (8-byte little-endian integers); or "
    "`module:function`. Default: the table property `mergeOperator`."
)


def path_option(*, calls: Collection[Call]) -> Any:
    """Declare the location of the table."""
    return option(
        "path",
        doc="Location of the table: a local path or any fsspec URL.",
        parse=parse_location,
        calls=calls,
        default=dataclasses.MISSING,
    )


def wal_path_option(*, calls: Collection[Call]) -> Any:
    """Declare the location of a WAL apart from the table."""
    return option(
        "walPath",
        doc="Location of the WAL if it is apart from the table: the folder that contains `wal/`.",
        parse=parse_location,
        calls=calls,
    )


def storage_options() -> Any:
    """Declare the field of all `storage.*` options."""
    return dataclasses.field(default_factory=dict, repr=False)  # repr=False: it may hold credentials


# --- parsing and listing --------------------------------------------------------------------------------------------


def parse_options(cls: type[Options], given: Mapping[str, Any]) -> Options:
    """Return the options of a mapping; raises `OptionError`."""
    fields = {normalize_name(item.metadata["key"]): item for item in _option_fields(cls)}
    values: dict[str, Any] = {}
    storage: dict[str, str] = {}
    for key, value in given.items():
        if key.lower().startswith(STORAGE_PREFIX):
            if value is not None:
                storage[key[len(STORAGE_PREFIX) :].lower()] = value
            continue
        field = fields.get(normalize_name(key))
        if field is None:
            raise unknown_option(key, list(option_keys(cls)))
        if value is None:
            continue
        if field.name in values:
            raise OptionError(f"Option {field.metadata['key']} is given twice.", todo="Give it once.")
        values[field.name] = field.metadata["parse"](value, field.metadata["key"])
    if "path" not in values:
        raise no_path("No path was given.")
    values["storage"] = storage
    return cls(**values)


def with_common(common: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call together with those of its table, which None does not replace: it is not given."""
    return {**common, **{name: value for name, value in given.items() if value is not None or name not in common}}


def no_path(what: str) -> OptionError:
    """Return the error for a table without a path, which usually comes from Spark's catalog."""
    return OptionError(
        what,
        why="Catalog tables are not supported: Spark drops their options.",
        todo="Use load(path), save(path), or a temporary view with OPTIONS (path '...').",
    )


def option_keys(cls: type[DataclassInstance], call: Call | None = None) -> tuple[str, ...]:
    """Return the keys of the documented options of a class, or of those that a call takes."""
    return tuple(
        item.metadata["key"]
        for item in _option_fields(cls)
        if item.metadata["doc"] and (call is None or call in item.metadata["calls"])
    )


def find_other(
    cls: type[DataclassInstance], given: Mapping[str, Any], taken: Sequence[str], arguments: Sequence[str] = ()
) -> str | None:
    """Return the first given option of a class that a call does not take; None if it takes all of them.

    Parameters
    ----------
    given : options by name; one that is None is not given, but must exist
    taken : the keys of the options that the call takes
    arguments : what it takes besides, for the nearest name of a misspelt one

    Raises
    ------
    OptionError
        When the class has no such option.
    """
    names, known = set(map(normalize_name, taken)), set(map(normalize_name, option_keys(cls)))
    for name, value in given.items():
        if normalize_name(name) in names:
            continue
        if normalize_name(name) not in known and not name.lower().startswith(STORAGE_PREFIX):
            raise unknown_option(name, [*arguments, *taken])
        if value is not None:
            return name
    return None


def changed_options(options: DataclassInstance, fields: Collection[str]) -> list[str]:
    """Return the keys of those options, given as names of fields, that differ from their defaults."""
    declared = _option_fields(type(options))
    return [
        item.metadata["key"] for item in declared if item.name in fields and getattr(options, item.name) != item.default
    ]


def option_rows(cls: type[DataclassInstance]) -> list[tuple[str, str, str]]:
    """Return (key, default, documentation) of every documented option, for the reference page."""
    rows = []
    for field in _option_fields(cls):
        if not field.metadata["doc"]:
            continue
        default = field.metadata["shown"]
        if default is None:
            absent = field.default is dataclasses.MISSING or field.default is None
            default = "" if absent else f"`{str(field.default).lower()}`"
        rows.append((field.metadata["key"], default, field.metadata["doc"]))
    rows.append(
        (f"{STORAGE_PREFIX}*", "", "Passed to the storage backend. `storage.root` is the root of external paths.")
    )
    return rows


def _option_fields(cls: type[DataclassInstance]) -> list[dataclasses.Field[Any]]:
    """Return the fields that `option` declared: those of the class itself, then those of its base."""
    own = cls.__annotations__
    declared = [item for item in dataclasses.fields(cls) if "key" in item.metadata]
    return sorted(declared, key=lambda item: item.name not in own)
