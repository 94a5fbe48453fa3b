"""The command `compact`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, Storage, TablePath
from slatespark.cli.output import EXIT_FAILED, asked_progress, failing_with, json_document
from slatespark.cli.parameter_groups import taking
from slatespark.cli.table_arguments import TableArguments, call_with, command_arguments
from slatespark.display.compaction_text import compaction_text
from slatespark.errors import OptionError
from slatespark.options.values import normalize_name
from slatespark.table.compaction.options import parse_compaction

_TIERS: Final = ("minCompactionSources", "maxCompactionSources", "includeSizeThreshold")
_FLAGS: Final = {
    "full": "--full",
    "where": "--where",
    "l0Only": "--l0-only",
    "due": "--due",
    "columnar": "--columnar",
    "now": "--now",
    "force": "--force",
}


@dataclass(frozen=True, slots=True)
class CompactionArguments:
    """A table, and the arguments of `SlateStore.compact`."""

    table: TableArguments
    given: Mapping[str, Any]


def compaction(
    table: TablePath,
    full: Annotated[bool, typer.Option("--full", help="Merge everything into one run.")] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Merge everything in a key range: \"tenant = 'a' AND day < '2026-01-01'\".",
            show_default=False,
        ),
    ] = None,
    l0_only: Annotated[bool, typer.Option("--l0-only", help="Merge the L0 views only.")] = False,
    due: Annotated[
        bool,
        typer.Option("--due", help="Rewrite files with expiring rows that are older than periodicCompactionInterval."),
    ] = False,
    columnar: Annotated[
        bool, typer.Option("--columnar", help="Write a Parquet copy beside each SST of the lowest runs that has none.")
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Instant at which expiry is evaluated, ISO-8601 or epoch ms.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --full, rewrite a compacted run too.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Another option; may be repeated: mergeOperator, startKey, endKey, keyPrefix, compression, sstSize, "
            "minCompactionSources, maxCompactionSources, includeSizeThreshold, ifClientActive, walPath, ...",
        ),
    ] = None,
    storage: Storage = None,
) -> CompactionArguments:
    """Return a table and how to compact it: the parameters of `compact` and `explain compact`."""
    arguments = command_arguments(table, option=option, storage=storage)
    tiers, options = _split_tiers(arguments.options)
    parse_compaction(arguments.common, options)
    flags = {
        "full": full,
        "where": where,
        "now": now,
        "l0Only": l0_only,
        "due": due,
        "force": force,
        "columnar": columnar,
    }
    return CompactionArguments(arguments, {**flags, **tiers, **options})


@app.command()
@failing_with(EXIT_FAILED)
@taking(compaction)
def compact(
    chosen: CompactionArguments,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge layers into sorted runs, as the size-tiered scheduler of a SlateDB client would.

    Exit code 0: done, or nothing to do; 1: failed, and the table is as it was after the last completed job.
    """
    store = chosen.table.open_store()
    report = call_with([chosen.given], store.compact, dryRun=dry_run, progress=asked_progress(as_json=as_json))
    typer.echo(json_document(report) if as_json else compaction_text(report))


def _split_tiers(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of the scheduler, and the other options; raises `OptionError` for those with a flag."""
    tiers: dict[str, Any] = {}
    options: dict[str, Any] = {}
    known = {normalize_name(name): name for name in _TIERS}
    flags = {normalize_name(name): flag for name, flag in _FLAGS.items()}
    for name, value in given.items():
        if normalize_name(name) in flags:
            raise OptionError(f"compact: {name} has a flag of its own.", todo=f"Use {flags[normalize_name(name)]}.")
        if normalize_name(name) not in known:
            options[name] = value
            continue
        tiers[known[normalize_name(name)]] = value
    if "includeSizeThreshold" in tiers:
        with contextlib.suppress(ValueError):  # the table layer says which numbers it accepts
            tiers["includeSizeThreshold"] = float(tiers["includeSizeThreshold"])
    return tiers, options
