"""Arguments of the calls of a transaction: the options that each call accepts, and keys as Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.exact_values import exact_value
from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import InvalidRequestError, OptionError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.fields import Call, find_other, option_keys, with_common
from slatespark.options.values import normalize_name
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.versions.read_point import refuse_another_point

_OF_COMMIT: Final = option_keys(WriteOptions, Call.BEGIN)
_OF_READ_POINT: Final = option_keys(ReadOptions, Call.BEGIN)
_OF_WRITES: Final = option_keys(WriteOptions, Call.TRANSACTION_WRITE)
_OF_DELETES: Final = option_keys(WriteOptions, Call.TRANSACTION_DELETE)
_TIMES: Final = ("timestamp", "timestampColumn")


def parse_begin(
    common: Mapping[str, Any], given: Mapping[str, Any], timestamp: object
) -> tuple[WriteOptions, ReadOptions]:
    """Return the options of a transaction's commit, and of the read that fixes its read point.

    Parameters
    ----------
    common : path and storage
    timestamp : the instant to read as of; None for the newest state

    Raises
    ------
    OptionError
        When one is unknown, or does not apply to a transaction as a whole.
    """
    taken = (*_OF_COMMIT, *_OF_READ_POINT)
    point = _chosen(given, _OF_READ_POINT)
    rest = {name: value for name, value in given.items() if name not in point}
    if (other := find_other(WriteOptions, rest, taken)) is not None:
        raise OptionError(
            f"begin: {other} does not apply to a transaction as a whole.",
            todo=f"Give it to a call of the transaction; begin takes readTimestamp, {', '.join(taken)}.",
        )
    try:
        read = ReadOptions.parse({**with_common(common, point), "timestampAsOf": timestamp})
    except OptionError as exc:
        raise OptionError(exc.args[0].replace("timestampAsOf", "readTimestamp"), why=exc.why, todo=exc.todo) from exc
    return WriteOptions.parse(with_common(common, rest)), read


def parse_write(common: Mapping[str, Any], begun: Mapping[str, Any], given: Mapping[str, Any]) -> WriteOptions:
    """Return the options of one write of a transaction.

    Parameters
    ----------
    begun : options that were given to `begin`, which apply to all writes

    Raises
    ------
    OptionError
        When one is unknown, or is set by the transaction itself.
    """
    if (other := find_other(WriteOptions, given, _OF_WRITES)) is not None:
        if normalize_name(other) in map(normalize_name, _TIMES):
            raise OptionError(
                f"{other}: all rows of a transaction get the time of its commit.",
                todo="Give it to commit(timestamp=...), or write outside the transaction.",
            )
        raise OptionError(
            f"{other} is not an option of a write in a transaction.",
            todo=f"Choose from {', '.join(_OF_WRITES)}; begin takes txnAppId and the options of the commit.",
        )
    kept = _without(_chosen(begun, _OF_WRITES), given)
    return WriteOptions.parse(with_common({**common, **kept}, given))


def delete_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the write of a delete; raises `OptionError` for one that it does not take, or sets."""
    if (other := find_other(WriteOptions, given, _OF_DELETES, ("condition", "keys"))) is not None:
        raise OptionError(
            f"delete: {other} does not apply in a transaction.",
            why="A delete leaves nothing of the rows but tombstones, at the time of the commit.",
            todo=f"Leave it out; delete takes {', '.join(_OF_DELETES)}.",
        )
    return {**given, "operation": "delete"}


def parse_read(common: Mapping[str, Any], begun: Mapping[str, Any], given: Mapping[str, Any]) -> ReadOptions:
    """Return the options of one read of a transaction; raises `OptionError` for another read point, or table."""
    todo = "Give readTimestamp or pin to begin, or read the table outside the transaction."
    refuse_another_point(given, "a transaction", todo)
    operator = _without(operator_of(begun), given)
    options = ReadOptions.parse(with_common({**common, **operator}, given))
    if options.shows_intervals:
        raise OptionError(
            "readVersions=intervals: own rows are valid from the time of the commit, which is not known yet.",
            todo="Read the intervals outside the transaction.",
        )
    return options


def _without(begun: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a transaction that a call does not give itself."""
    own = {normalize_name(name) for name, value in given.items() if value is not None}
    return {name: value for name, value in begun.items() if normalize_name(name) not in own}


def _chosen(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options with these names, in any spelling."""
    wanted = set(map(normalize_name, names))
    return {name: value for name, value in options.items() if normalize_name(name) in wanted}


def operator_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option `mergeOperator`, in any spelling; empty if it is not given."""
    return _chosen(options, ["mergeOperator"])


def has_instants(options: WriteOptions, definition: TableDefinition) -> bool:
    """Tell whether the rows of a write expire at fixed instants, which do not move when the commit sets their time.

    Raises
    ------
    OptionError
        When some do, and others expire by a TTL, which counts from the time of the commit.
    """
    if options.ttl_from == "write":
        return True
    if options.expire_at_column is None:
        return False
    if definition.ttl_ms(options.ttl_ms) is not None:
        raise OptionError(
            "expireAtColumn: rows without an instant would expire by a TTL.",
            why="A TTL counts from the commit, which moves such expiries, but not instants.",
            todo="Set ttl=none or ttlFrom=write, or write the rows with a TTL separately.",
        )
    return True


# --- keys -----------------------------------------------------------------------------------------------------------


def key_table(keys: object, codec: RowCodec) -> pa.Table:
    """Return keys as a table of the key columns.

    Parameters
    ----------
    keys : each a tuple or list of values, or a value where there is one key column

    Raises
    ------
    InvalidRequestError
        When the argument has another form, or the values do not make a key.
    """
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable) or hasattr(keys, "columns"):
        raise InvalidRequestError(
            f"keys: {type(keys).__name__} is not a list of keys.",
            todo="Give a list, with a tuple of values for each key.",
        )
    found = [tuple(key) if isinstance(key, tuple | list) else (key,) for key in keys]
    fields = codec.key_fields
    try:
        columns = [
            pa.array([exact_value(value, field.type) for value in values], field.type)
            for field, values in zip(fields, zip(*found, strict=True) if found else [[]] * len(fields), strict=True)
        ]
    except (TypeError, ValueError, ArithmeticError):
        _encode_each(found, codec)
        raise
    if codec.key_format != "tuple" and columns[0].null_count:
        _encode_each(found, codec)
    return pa.table(columns, [field.name for field in fields])


def _encode_each(keys: Sequence[tuple[Any, ...]], codec: RowCodec) -> None:
    """Raise the error of the first invalid key."""
    for key in keys:
        codec.encode_key(key)


def encoded_keys(keys: pa.Table, codec: RowCodec) -> list[bytes]:
    """Return the keys of a table that `key_table` made."""
    data, offsets = codec.encode_keys(keys)
    edges = offsets.tolist()
    found = [data[start:end].tobytes() for start, end in pairwise(edges)]
    if b"" in found:
        raise InvalidRequestError("A key is empty; SlateDB has no empty keys.", todo="Omit it.")
    return found


def one_of(condition: object, keys: object, call: str) -> tuple[str | None, object]:
    """Return the condition or the keys of a call that takes exactly one of them; text is a condition, or refused."""
    if isinstance(keys, str) and condition is None:
        _require_condition(keys, call)
        return keys, None
    if not isinstance(condition, str | None):
        condition, keys = (None, condition) if keys is None else (condition, keys)
    if (condition is None) == (keys is None):
        raise OptionError(f"{call}: a condition or keys are needed, and not both.", todo="Give one of them.")
    return (condition, None) if isinstance(condition, str) else (None, keys)


def _require_condition(keys: str, call: str) -> None:
    """Raise `OptionError` if text that is given as keys is no condition: it is probably one key."""
    from slatespark.encoding.predicates import parse_filter  # most transactions have no condition

    try:
        parse_filter(keys)
    except OptionError as exc:
        todo = f"Give keys=[{keys!r}] for a key, or a condition of comparisons."
        why = f"It is not a condition either: {exc.args[0].removeprefix('filter: ')}"
        raise OptionError(f"{call}: keys is text.", why=why, todo=todo) from exc
