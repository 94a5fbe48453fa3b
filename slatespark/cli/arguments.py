"""Arguments that several commands share, and what becomes of them: read options, keys, storage options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import typer

from slatespark.errors import OptionError
from slatespark.options import STORAGE_PREFIX, ReadOptions

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


def storage_options(given: list[str] | None) -> dict[str, str]:
    """Return `--storage` arguments by name.

    Raises
    ------
    OptionError
        When one has no name or no value. The message shows no value, which may be a secret.
    """
    options: dict[str, str] = {}
    for entry in given or []:
        name, equals, value = entry.partition("=")
        name = name.strip().removeprefix(STORAGE_PREFIX)
        if not equals or not name:
            raise OptionError(
                "--storage takes KEY=VALUE.", todo="Write it like --storage endpoint_url=http://host:9000."
            )
        options[name] = value
    return options


def read_options(table: str, given: Mapping[str, Any], *, storage: list[str] | None) -> ReadOptions:
    """Return the read options that arguments make; what was not given keeps its default."""
    options = {name: value for name, value in given.items() if value is not None}
    stored = {f"{STORAGE_PREFIX}{name}": value for name, value in storage_options(storage).items()}
    return ReadOptions.parse({"path": table, **options, **stored})


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
