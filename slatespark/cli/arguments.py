"""Arguments that several commands share, and what becomes of them: read options, keys, storage options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import pyarrow as pa
import typer

from slatespark.cli.input_values import array_of_text
from slatespark.display.text import plural
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.type_names import TYPE_NAMES, flat_type, sql_type
from slatespark.errors import InvalidRequestError, OptionError, SchemaError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.values import STORAGE_PREFIX
from slatespark.table.definition.versions import resolve_codec
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.slate_store import SlateStore
from slatespark.table.stores import TableStores, open_stores

NEGATIVE_KEYS: Final = {"ignore_unknown_options": True}  # so that -3 is a key, not an option that nobody knows

TablePath: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="Where the table is: a local path, or any fsspec URL.", show_default=False),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsText: TypeAlias = Annotated[
    bool,
    typer.Option("--text", help="Keys and values are UTF-8 text, in arguments and output, instead of hexadecimal."),
]
Storage: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--storage", metavar="KEY=VALUE", help="Option of the storage backend; may be repeated."),
]
WalPath: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Where the WAL is, if apart from the table.", show_default=False)
]
VersionAsOf: TypeAlias = Annotated[int | None, typer.Option(metavar="ID", help="Manifest id to read.")]
TimestampAsOf: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Read the table as it was at an instant, ISO-8601 or epoch ms.")
]
SeqAsOf: TypeAlias = Annotated[
    int | None, typer.Option(metavar="SEQ", help="Read the table as it was when this was its last sequence number.")
]
Checkpoint: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="Checkpoint to read, by id or name.")]
Now: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Instant at which expiry is judged, ISO-8601 or epoch ms.")
]
MergeOperator: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How merge operands fold: concat, sum, max, min, or module:function."),
]
IncludeExpired: TypeAlias = Annotated[bool, typer.Option("--include-expired", help="Show rows past their expiry.")]
IncludeDeleted: TypeAlias = Annotated[
    bool, typer.Option("--include-deleted", help="Show deleted keys; they have no value.")
]
CountRows: TypeAlias = Annotated[bool, typer.Option("--rows", help="Count row versions: one request per file.")]
Metadata: TypeAlias = Annotated[
    bool, typer.Option("--metadata", help="Show sequence number, operation and times of each row.")
]

Columns: TypeAlias = Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILTER", help="Only rows like this: \"tenant = 'a' AND id BETWEEN 1 AND 9\"."),
]
IgnoreUndecodable: TypeAlias = Annotated[
    bool, typer.Option("--ignore-undecodable", help="Pass over rows that do not decode, and count them.")
]
KeyArguments: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY...",
        help="A value for each key column; of a raw table the key in hexadecimal, or as text with --text.",
        show_default=False,
    ),
]

WriteOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="Any other write option, like ttl=7d; may be repeated."),
]
MergeSchema: TypeAlias = Annotated[
    bool, typer.Option("--merge-schema", help="Add columns that the table lacks; columns that rows lack become null.")
]


def storage_options(given: list[str] | None) -> dict[str, str]:
    """Return `--storage` arguments by name; raises `OptionError`, which shows no value: it may be a secret."""
    pairs = _pairs(given, "--storage", "endpoint_url=http://host:9000")
    return {name.removeprefix(STORAGE_PREFIX): value for name, value in pairs.items()}


def _pairs(given: list[str] | None, flag: str, example: str) -> dict[str, str]:
    """Return KEY=VALUE arguments by name.

    Raises
    ------
    OptionError
        When one has no name or no value. The message shows no value.
    """
    pairs: dict[str, str] = {}
    for entry in given or []:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip().removeprefix(STORAGE_PREFIX):
            raise OptionError(f"{flag} takes KEY=VALUE.", todo=f"Write it like {flag} {example}.")
        pairs[name.strip()] = value
    return pairs


def write_options(table: str, named: Mapping[str, Any], others: list[str] | None) -> dict[str, Any]:
    """Return the write options that arguments make, checked.

    Parameters
    ----------
    table : for the check
    named : options that have arguments of their own; None is not given
    others : `--option` arguments
    """
    given = {name: value for name, value in named.items() if value is not None}
    for name, value in _pairs(others, "--option", "ttl=7d").items():
        if name in given:
            raise OptionError(f"{name} is given twice.", todo="Give it once.")
        given[name] = value
    WriteOptions.parse({"path": table, **given})
    return given


def column_types(given: list[str] | None) -> dict[str, pa.DataType]:
    """Return `--type` arguments: the type of each column that they name; raises `OptionError`."""
    types = {}
    for name, text in _pairs(given, "--type", "amount=DECIMAL(10,2)").items():
        kind = flat_type(text)
        if kind is None:
            raise OptionError(
                f"--type {name}: there is no type {text!r}.", todo=f"Choose from {', '.join(TYPE_NAMES)}."
            )
        types[name] = kind
    return types


def open_store(table: str, *, storage: list[str] | None, wal_path: str | None) -> SlateStore:
    """Return the table to be changed; raises `TableNotFoundError`."""
    return SlateStore.open(table, **store_arguments(storage, wal_path))


def store_arguments(storage: list[str] | None, wal_path: str | None) -> dict[str, Any]:
    """Return what `SlateStore.open` and `create` need to find a table."""
    return {**storage_options(storage), **({} if wal_path is None else {"walPath": wal_path})}


def read_options(table: str, given: Mapping[str, Any], *, storage: list[str] | None) -> ReadOptions:
    """Return the read options that arguments make; what was not given keeps its default."""
    options = {name: value for name, value in given.items() if value is not None}
    stored = {f"{STORAGE_PREFIX}{name}": value for name, value in storage_options(storage).items()}
    return ReadOptions.parse({"path": table, **options, **stored})


def open_table(options: ReadOptions) -> TableStores:
    """Return where the table of these options is."""
    return open_stores(options.path, storage=options.storage, wal_path=options.wal_path)


def table_codec(stores: TableStores) -> RowCodec:
    """Return how the rows of a table are stored now; raises `TableNotFoundError`."""
    return resolve_codec(stores, fetch_latest_manifest(stores)[1])


def key_values(arguments: Sequence[str], codec: RowCodec, *, as_text: bool) -> list[Any]:
    """Return the values of the key columns that arguments spell; raises as `key_arrays`."""
    return [scalar_value(array[0]) for array in key_arrays(arguments, codec, as_text=as_text)]


def key_arrays(arguments: Sequence[str], codec: RowCodec, *, as_text: bool) -> list[pa.Array]:
    """Return the key that arguments spell, as an array of one value for each key column.

    Raises
    ------
    InvalidRequestError
        When they are not as many as the key columns, or one is not of its column's type.
    """
    fields = codec.key_fields
    if len(arguments) != len(fields):
        names = ", ".join(f"{item.name} {sql_type(item)}" for item in fields)
        raise InvalidRequestError(
            f"{plural(len(arguments), 'value')} given for a key of {plural(len(fields), 'column')}.",
            todo=f"Give one for each of {names}.",
        )
    if codec.is_raw:
        return [pa.array([key_bytes(arguments[0], "KEY", as_text=as_text)], pa.binary())]
    return [_key_array(text, item, as_text=as_text) for text, item in zip(arguments, fields, strict=True)]


def _key_array(text: str, field: pa.Field, *, as_text: bool) -> pa.Array:
    try:
        return array_of_text(pa.array([text]), field, as_text=as_text)
    except SchemaError as exc:
        raise InvalidRequestError(f"KEY: {text!r} is no {sql_type(field)}, as {field.name} is.", todo=exc.todo) from exc


def scalar_value(scalar: pa.Scalar) -> Any:
    """Return a scalar as a key takes it; an instant that no datetime holds as a number of microseconds."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar.value


def key_bytes(argument: str, name: str, *, as_text: bool) -> bytes:
    """Return the key that an argument spells: UTF-8 text, or hexadecimal.

    Raises
    ------
    OptionError
        When it is not hexadecimal.
    """
    if as_text:
        return argument.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(argument)
    except ValueError:
        raise OptionError(
            f"{name}: {argument!r} is not hexadecimal.", todo="Write the bytes like 00ff41, or use --text."
        ) from None
