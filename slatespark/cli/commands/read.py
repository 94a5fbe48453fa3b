"""Commands that print rows: `scan`, `versions`, `changes`, `get`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import NEGATIVE_KEYS, AsJson, AsText, KeyArguments, Metadata, Where
from slatespark.cli.files.rows import RAW_HEADINGS, json_lines, limit_batches, text_lines
from slatespark.cli.key_arguments import key_bytes, key_row, key_values
from slatespark.cli.output import EXIT_FAILED, failing_with, print_lines
from slatespark.cli.parameter_groups import row_versions, table_changes, table_rows, taking
from slatespark.cli.signals import stopped_by_signals
from slatespark.cli.table_arguments import ReadArguments
from slatespark.options import ReadOptions
from slatespark.table.changes.feed import FeedPlan, fetch_feed_plan, run_feed
from slatespark.table.changes.follow import FeedFollower
from slatespark.table.clock import Clock, resolve_clock
from slatespark.table.definition.versions import fetch_codec
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.descending import DESCENDING_SPLIT_BYTES
from slatespark.table.read.reader import fetch_read_plan, look_up, run_read, run_read_descending
from slatespark.table.stores import TableStores, stores_of

SMALL_SPLIT_BYTES: Final = 1 << 20  # for a scan that stops after a few rows

_POLL_S: Final = 1.0  # between two looks of --follow

_METADATA: Final = "_seq,_op,_create_ts,_expire_ts"

Prefix: TypeAlias = Annotated[
    str | None, typer.Option(metavar="KEY", help="Raw tables: only keys that start with these bytes.")
]
Limit: TypeAlias = Annotated[int | None, typer.Option(min=0, metavar="ROWS", help="Stop after this many rows.")]


class VersionsChoice(StrEnum):
    """The versions of a row that a scan shows."""

    LATEST = "latest"
    ALL = "all"
    INTERVALS = "intervals"


@app.command()
@failing_with(EXIT_FAILED)
@taking(table_rows)
def scan(
    table: ReadArguments,
    where: Where = None,
    prefix: Prefix = None,
    limit: Limit = None,
    desc: Annotated[bool, typer.Option("--desc", help="Print the highest key first.")] = False,
    versions: Annotated[
        VersionsChoice, typer.Option(help="Show the latest version of each row, all versions, or when each was valid.")
    ] = VersionsChoice.LATEST,
    metadata: Metadata = False,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print rows in key order; with --json, one JSON object per line.

    A range of raw keys is given by --option startKey=HEX (inclusive) and --option endKey=HEX (exclusive).
    """
    named = _named(table, where, prefix, versions, metadata=metadata, as_text=as_text)
    _scan(table, named, limit=limit, desc=desc, as_text=as_text, as_json=as_json)


@app.command("versions")
@failing_with(EXIT_FAILED)
@taking(row_versions)
def show_versions(
    table: ReadArguments,
    where: Where = None,
    prefix: Prefix = None,
    limit: Limit = None,
    metadata: Metadata = False,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print every version of each row of a history table, and when it was valid; the newest one of a key first.

    With --json, one JSON object per line.
    """
    named = _named(table, where, prefix, VersionsChoice.INTERVALS, metadata=metadata, as_text=as_text)
    _scan(table, named, limit=limit, as_text=as_text, as_json=as_json)


class ChangesKind(StrEnum):
    """The kinds of a change feed."""

    NET = "net"
    LOG = "log"


LastVersion: TypeAlias = Annotated[
    str | None, typer.Option("--to", metavar="VERSION|TIME", help="The last one; by default the newest version.")
]
Kind: TypeAlias = Annotated[
    ChangesKind,
    typer.Option(help="How the last version differs from the first, or every write, with those in the WAL."),
]
PreImages: TypeAlias = Annotated[
    bool | None, typer.Option("--pre-images/--no-pre-images", help="Tell inserts from updates, and show old rows.")
]


@app.command("changes")
@failing_with(EXIT_FAILED)
@taking(table_changes)
def show_changes(
    table: ReadArguments,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="VERSION|TIME",
            help="The first version, or ISO-8601 time, to show changes of; with --follow by default the next version.",
        ),
    ] = None,
    end: LastVersion = None,
    kind: Kind = ChangesKind.NET,
    pre_images: PreImages = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue with new changes until it is interrupted.")
    ] = False,
    where: Where = None,
    prefix: Prefix = None,
    limit: Limit = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print what changed between two versions, in key order; with --json, one JSON object per line.

    With --kind log, print every write in order.
    """
    if start is None and not follow:
        raise typer.BadParameter("--from is needed, unless --follow is given.", param_hint="--from")
    if end is not None and follow:
        raise typer.BadParameter("--to and --follow exclude each other.", param_hint="--to")
    named: dict[str, Any] = {
        **feed_options(start, end, kind, pre_images),
        "filter": where,
        "keyPrefix": prefix and key_bytes(prefix, "--prefix", as_text=as_text),
    }
    if start is None:
        stores = stores_of(table.options({**named, "startingVersion": 1}))
        named["startingVersion"] = fetch_latest_manifest(stores).number + 1
    options = table.options(named)
    stores = stores_of(options)
    clock = resolve_clock(options.clock)
    plans = _followed(stores, options, clock) if follow else [fetch_feed_plan(stores, options, clock)]
    left = limit
    for plan in plans:
        batches: Iterable[pa.RecordBatch] = limit_batches(run_feed(stores, plan), left)
        if follow and left is not None:
            batches = list(batches)
            left -= sum(map(len, batches))
        _print_rows(batches, is_raw=plan.settings.projection.codec.is_raw, as_text=as_text, as_json=as_json)
        if left == 0:
            return


def _followed(stores: TableStores, options: ReadOptions, clock: Clock) -> Iterator[FeedPlan]:
    """Yield a plan each time that there may be changes, until the process is asked to stop."""
    stop = threading.Event()
    follower = FeedFollower(stores, options, clock)
    with stopped_by_signals(stop.set):
        while not stop.is_set():
            if (plan := follower.poll()) is not None:
                yield plan
            stop.wait(_POLL_S)


def feed_options(start: str | None, end: str | None, kind: ChangesKind, pre_images: bool | None) -> dict[str, Any]:
    """Return the read options of a change feed: what `--from`, `--to`, `--kind` and `--pre-images` stand for."""
    return {
        **({} if start is None else _bound("starting", start)),
        **({} if end is None else _bound("ending", end)),
        **({} if kind is ChangesKind.NET else {"changes": kind.value}),
        "preImages": pre_images,
    }


def _bound(side: str, text: str) -> dict[str, str]:
    """Return the option for one end of a change feed: of a version if it is a number, else of an instant."""
    return {f"{side}{'Version' if text.isdecimal() else 'Timestamp'}": text}


def _named(
    table: ReadArguments,
    where: str | None,
    prefix: str | None,
    versions: VersionsChoice,
    *,
    metadata: bool,
    as_text: bool,
) -> dict[str, Any]:
    return {
        "columns": _with_metadata(table, is_wanted=metadata),
        "filter": where,
        "keyPrefix": prefix and key_bytes(prefix, "--prefix", as_text=as_text),
        "readVersions": None if versions is VersionsChoice.LATEST else versions.value,
        "metadataColumns": _METADATA if metadata or versions is VersionsChoice.ALL else None,
    }


def _scan(
    table: ReadArguments,
    named: dict[str, Any],
    *,
    limit: int | None,
    desc: bool = False,
    as_text: bool,
    as_json: bool,
) -> None:
    splits = {"splitSize": SMALL_SPLIT_BYTES if limit is not None else DESCENDING_SPLIT_BYTES if desc else None}
    options = table.options(named, defaults=splits)
    stores = stores_of(options)
    plan = fetch_read_plan(stores, options, resolve_clock(options.clock))
    batches = limit_batches((run_read_descending if desc else run_read)(stores, plan), limit)
    _print_rows(batches, is_raw=plan.settings.projection.codec.is_raw, as_text=as_text, as_json=as_json)


def _with_metadata(table: ReadArguments, *, is_wanted: bool) -> str | None:
    """Return the columns to read: a list of columns has to name the metadata columns too."""
    columns: str | None = table.named["columns"]
    return f"{columns},{_METADATA}" if columns is not None and is_wanted else columns


def _print_rows(batches: Iterable[pa.RecordBatch], *, is_raw: bool, as_text: bool, as_json: bool) -> None:
    """Print rows; metadata columns of raw tables get short names, which in typed tables may be those of columns."""
    headings = RAW_HEADINGS if is_raw else {}
    print_lines((json_lines if as_json else text_lines)(batches, as_text=as_text, headings=headings))


@app.command(context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_FAILED)
@taking(table_rows)
def get(
    table: ReadArguments,
    key: KeyArguments,
    metadata: Metadata = False,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print the row of one key; the exit code is 1 if there is none."""
    named = {
        "columns": _with_metadata(table, is_wanted=metadata),
        "metadataColumns": _METADATA if metadata else None,
    }
    options = table.options(named)
    stores = stores_of(options)
    codec = fetch_codec(stores)
    found = look_up(stores, key_values(key_row(key, codec, as_text=as_text)), options, resolve_clock(options.clock))
    if found is None:
        if as_json:
            typer.echo("null")
        typer.echo(f"There is no row with the key {' '.join(key)}.", err=True)
        raise typer.Exit(EXIT_FAILED)
    _print_rows([found], is_raw=codec.is_raw, as_text=as_text, as_json=as_json)
