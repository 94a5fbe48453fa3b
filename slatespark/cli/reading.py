"""Commands that print rows: `scan`, `get`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    NEGATIVE_KEYS,
    AsJson,
    AsText,
    Checkpoint,
    Columns,
    IgnoreUndecodable,
    IncludeDeleted,
    IncludeExpired,
    KeyArguments,
    MergeOperator,
    Metadata,
    Now,
    SeqAsOf,
    Storage,
    TablePath,
    TimestampAsOf,
    VersionAsOf,
    WalPath,
    Where,
    key_bytes,
    key_values,
    open_table,
    read_options,
    table_codec,
)
from slatespark.cli.output import EXIT_FAILED, failing_with, print_lines
from slatespark.cli.rows import RAW_HEADINGS, json_lines, limit_batches, text_lines
from slatespark.table.clock import SystemClock
from slatespark.table.read.reader import (
    DESCENDING_SPLIT_BYTES,
    look_up,
    plan_read,
    run_read,
    run_read_descending,
)

SMALL_SPLIT_BYTES = 1 << 20  # of a scan that stops after a few rows


class Versions(StrEnum):
    """Which versions of a row a scan shows."""

    LATEST = "latest"
    ALL = "all"
    INTERVALS = "intervals"


@app.command()
@failing_with(EXIT_FAILED)
def scan(
    table: TablePath,
    columns: Columns = None,
    where: Where = None,
    prefix: Annotated[str | None, typer.Option(metavar="KEY", help="Raw tables: only keys that start with it.")] = None,
    start: Annotated[str | None, typer.Option(metavar="KEY", help="Raw tables: first key, inclusive.")] = None,
    end: Annotated[str | None, typer.Option(metavar="KEY", help="Raw tables: end of the keys, exclusive.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="ROWS", help="Stop after so many rows.")] = None,
    desc: Annotated[bool, typer.Option("--desc", help="Highest key first.")] = False,
    versions: Annotated[
        Versions, typer.Option(help="Show each row's latest version, all, or when each was valid.")
    ] = Versions.LATEST,
    metadata: Metadata = False,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    seq_as_of: SeqAsOf = None,
    checkpoint: Checkpoint = None,
    now: Now = None,
    include_expired: IncludeExpired = False,
    include_deleted: IncludeDeleted = False,
    ignore_undecodable: IgnoreUndecodable = False,
    merge_operator: MergeOperator = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print rows in key order; with --json, one JSON object a line."""
    given: dict[str, Any] = {
        "columns": _with_metadata(columns, is_wanted=metadata),
        "filter": where,
        "keyPrefix": prefix and key_bytes(prefix, "--prefix", as_text=as_text),
        "startKey": start and key_bytes(start, "--start", as_text=as_text),
        "endKey": end and key_bytes(end, "--end", as_text=as_text),
        "readVersions": versions.value,
        "metadataColumns": "seq,op,create_ts,expire_ts" if metadata or versions is Versions.ALL else None,
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "seqAsOf": seq_as_of,
        "checkpoint": checkpoint,
        "now": now,
        "includeExpired": include_expired,
        "includeDeleted": include_deleted,
        "ignoreUndecodable": ignore_undecodable,
        "mergeOperator": merge_operator,
        "walPath": wal_path,
        "splitSize": SMALL_SPLIT_BYTES if limit is not None else DESCENDING_SPLIT_BYTES if desc else None,
    }
    options = read_options(table, given, storage=storage)
    stores = open_table(options)
    plan = plan_read(stores, options, SystemClock())
    batches = limit_batches((run_read_descending if desc else run_read)(stores, plan), limit)
    _print_rows(batches, is_raw=plan.settings.projection.codec.is_raw, as_text=as_text, as_json=as_json)


def _with_metadata(columns: str | None, *, is_wanted: bool) -> str | None:
    """Return the columns to read: named ones are all there is, so metadata has to be named, too."""
    return f"{columns},_seq,_op,_create_ts,_expire_ts" if columns is not None and is_wanted else columns


def _print_rows(batches: Iterable[pa.RecordBatch], *, is_raw: bool, as_text: bool, as_json: bool) -> None:
    """Print rows; of raw tables metadata columns have plain names, in typed ones columns may be called so."""
    headings = RAW_HEADINGS if is_raw else {}
    print_lines((json_lines if as_json else text_lines)(batches, as_text=as_text, headings=headings))


@app.command(context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_FAILED)
def get(
    table: TablePath,
    key: KeyArguments,
    columns: Columns = None,
    metadata: Metadata = False,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    seq_as_of: SeqAsOf = None,
    checkpoint: Checkpoint = None,
    now: Now = None,
    include_expired: IncludeExpired = False,
    merge_operator: MergeOperator = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print the row of one key; exit code 1 if there is none."""
    given = {
        "columns": _with_metadata(columns, is_wanted=metadata),
        "metadataColumns": "seq,op,create_ts,expire_ts" if metadata else None,
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "seqAsOf": seq_as_of,
        "checkpoint": checkpoint,
        "now": now,
        "includeExpired": include_expired,
        "mergeOperator": merge_operator,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
    stores = open_table(options)
    codec = table_codec(stores)
    found = look_up(stores, key_values(key, codec, as_text=as_text), options, SystemClock())
    if found is None:
        if as_json:
            typer.echo("null")
        typer.echo(f"There is no row with the key {' '.join(key)}.", err=True)
        raise typer.Exit(EXIT_FAILED)
    _print_rows([found], is_raw=codec.is_raw, as_text=as_text, as_json=as_json)
