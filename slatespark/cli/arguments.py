"""Command line arguments that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import typer

NEGATIVE_KEYS: Final = {"ignore_unknown_options": True}  # so that -3 is a key, not an unknown option

TablePath: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="Location of the table: a local path, or any fsspec URL.", show_default=False),
]
_KEY_HELP: Final = "A value for each key column; for a raw table the key in hexadecimal, or as text with --text."
KeyArguments: TypeAlias = Annotated[list[str], typer.Argument(metavar="KEY", help=_KEY_HELP, show_default=False)]
OptionalKey: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="KEY", help=_KEY_HELP, show_default=False)]

# --- output ---------------------------------------------------------------------------------------------------------

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsText: TypeAlias = Annotated[
    bool,
    typer.Option("--text", help="Read and print binary keys and values as UTF-8 text instead of hexadecimal."),
]
CountRows: TypeAlias = Annotated[
    bool, typer.Option("--rows", help="Count row versions, which costs one request per file.")
]
Metadata: TypeAlias = Annotated[
    bool, typer.Option("--metadata", help="Show sequence number, operation, creation time and expiry of each row.")
]

# --- what to read ---------------------------------------------------------------------------------------------------

Columns: TypeAlias = Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILTER", help="Only rows that match: \"tenant = 'a' AND id BETWEEN 1 AND 9\"."),
]
VersionAsOf: TypeAlias = Annotated[int | None, typer.Option(metavar="ID", help="Manifest id to read.")]
TimestampAsOf: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Read the table as it was at an instant, ISO-8601 or epoch ms.")
]

# --- how much a reap does ---------------------------------------------------------------------------------------------

MaxBatchRows: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Maximum number of rows that one commit deletes by tombstones.")
]
MaxBatchBytes: TypeAlias = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Maximum size that one commit reads and rewrites, like 256m.")
]

# --- options by name ------------------------------------------------------------------------------------------------

_METAVAR: Final = "NAME=VALUE"


def _option(text: str) -> Any:
    """Return the parameter `--option`, with its help."""
    return typer.Option("--option", metavar=_METAVAR, help=text)


Storage: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--storage", metavar=_METAVAR, help="Option of the storage backend; may be repeated."),
]
ReadOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "Another read option; may be repeated: checkpoint, seqAsOf, now, includeExpired, includeDeleted, "
        "ignoreUndecodable, mergeOperator, walPath, ..."
    ),
]
IntervalsOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "Another read option; may be repeated: checkpoint, seqAsOf, now, includeExpired, ignoreUndecodable, "
        "mergeOperator, walPath, ..."
    ),
]
ChangesOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "Another option of the change feed; may be repeated: startingBoundInclusive, endingBoundInclusive, "
        "expired, metadataColumns, mergeOperator, walPath, ..."
    ),
]
VersionOption: TypeAlias = Annotated[
    list[str] | None,
    _option("Another read option that selects a version: checkpoint, seqAsOf; walPath. May be repeated."),
]
ExpiryOption: TypeAlias = Annotated[
    list[str] | None,
    _option("Another read option: checkpoint, which selects a version; now; walPath. May be repeated."),
]
WriteOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "Another write option; may be repeated: ttl, timestamp, compression, ifLastSeq, txnAppId, txnVersion, "
        "ifClientActive, walPath, ..."
    ),
]
DeleteOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "Another option of a deletion; may be repeated: timestamp, compression, ifLastSeq, txnAppId, txnVersion, "
        "ifClientActive, walPath, ..."
    ),
]
IngestOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "Another option of the ingest; may be repeated: timestamp, compression, ifLastSeq, txnAppId, txnVersion, "
        "ifClientActive, walPath, ..."
    ),
]
CommitOption: TypeAlias = Annotated[
    list[str] | None,
    _option("Another write option of the commit; may be repeated: ifClientActive, compression, walPath, ..."),
]
CreationOption: TypeAlias = Annotated[
    list[str] | None,
    _option("keyFormat, valueFormat, or a table property; may be repeated: history, defaultTtl, retention, ..."),
]
ErasureOption: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "startKey, endKey or keyPrefix instead of the key of a raw table; ifClientActive, compression, "
        "walPath, ... May be repeated."
    ),
]
AbsenceOption: TypeAlias = Annotated[
    list[str] | None,
    _option("startKey, endKey or keyPrefix instead of the key of a raw table; walPath. May be repeated."),
]
MergedFileOption: TypeAlias = Annotated[
    list[str] | None,
    _option("Option of new files; may be repeated: compression, blockSize, sstSize, bloomBitsPerKey, writeBuffer."),
]
LocationOption: TypeAlias = Annotated[
    list[str] | None,
    _option("walPath=PATH, if the WAL is kept apart from the table."),
]
MergeSchema: TypeAlias = Annotated[
    bool,
    typer.Option("--merge-schema", help="Add columns that the table lacks; store null for columns that rows lack."),
]
