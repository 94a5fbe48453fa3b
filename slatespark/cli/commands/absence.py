"""The commands `erase` and `prove-absent`."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    NEGATIVE_KEYS,
    AbsenceOption,
    AsJson,
    AsText,
    ErasureOption,
    OptionalKey,
    Storage,
    TablePath,
)
from slatespark.cli.files.file_formats import format_of
from slatespark.cli.files.read_files import read_files
from slatespark.cli.files.target_columns import TargetColumns
from slatespark.cli.key_arguments import key_row
from slatespark.cli.output import EXIT_FAILED, EXIT_UNCHECKED, asked_progress, failing_with, json_document
from slatespark.cli.table_arguments import TableArguments, call_with, write_arguments
from slatespark.display.absence_text import absence_text
from slatespark.display.key_names import KeyNames
from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError, SchemaError
from slatespark.table.definition.versions import fetch_codec
from slatespark.table.gc.absence_report import AbsenceReport

KeyRange: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="FILTER", help="Instead of a key: conditions on leading key columns.", show_default=False
    ),
]
KeyFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Instead of a key: a Parquet, CSV or JSON lines file of keys, with only the key columns.",
        show_default=False,
    ),
]


ReleaseVersions: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--release-versions", help="Give up replaced versions that hold copies; they cannot be read any more."
    ),
]


@app.command(context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_UNCHECKED)
def erase(
    table: TablePath,
    key: OptionalKey = None,
    where: KeyRange = None,
    file: KeyFile = None,
    release_versions: ReleaseVersions = False,
    option: ErasureOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Erase a key, or a key range, at every version of a table, and list what still holds a copy, and until when.

    Exit code 0: nothing does; 1: some copies are stored; 2: it failed, or something could not be searched.
    """
    arguments = write_arguments(table, {}, option=option, storage=storage)
    chosen, codec = choose_keys(arguments, key, where, file, as_text=as_text)
    progress = asked_progress(as_json=as_json)
    erase_from = arguments.open_store().erase
    report = call_with([arguments.options], erase_from, **chosen, releaseVersions=release_versions, progress=progress)
    _show(report, codec, as_text=as_text, as_json=as_json)


@app.command("prove-absent", context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_UNCHECKED)
def prove_absent(
    table: TablePath,
    key: OptionalKey = None,
    where: KeyRange = None,
    file: KeyFile = None,
    option: AbsenceOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Search every object of a table for a key, or a key range, and list where copies are still stored.

    Exit code 0: they are gone; 1: some are stored; 2: something could not be searched.
    """
    arguments = write_arguments(table, {}, option=option, storage=storage)
    chosen, codec = choose_keys(arguments, key, where, file, as_text=as_text)
    prove = arguments.open_store().proveAbsent
    report = call_with([arguments.options], prove, **chosen, progress=asked_progress(as_json=as_json))
    _show(report, codec, as_text=as_text, as_json=as_json)


def choose_keys(
    arguments: TableArguments, key: list[str] | None, where: str | None, file: str | None, *, as_text: bool
) -> tuple[dict[str, Any], RowCodec]:
    """Return the arguments of `erase` and `proveAbsent` that name keys, and how the table encodes keys.

    Raises
    ------
    OptionError
        When a key and a file are given: both are `keys`.
    InvalidRequestError, SchemaError
        When something is not a key of the table.
    """
    if key and file is not None:
        raise OptionError("A key and a file of keys are given together.", todo="Give one of them.")
    codec = fetch_codec(arguments.open_stores())
    keys = key_row(key, codec, as_text=as_text) if key else _keys(file, codec, as_text=as_text)
    return {"where": where, "keys": keys}, codec


def _keys(file: str | None, codec: RowCodec, *, as_text: bool) -> pa.Table | None:
    """Return the rows of a file that names several keys; raises `SchemaError` unless it has exactly the key columns."""
    if file is None:
        return None
    try:
        target = TargetColumns(pa.schema(codec.key_fields), as_text=as_text)
        with read_files([file], format_of(file, None), target, None) as rows:
            return rows.read_all()
    except SchemaError as exc:
        names = ", ".join(codec.key_columns)
        raise SchemaError(str(exc.args[0]), why=f"A file of keys has the key columns: {names}.") from exc


def _show(report: AbsenceReport, codec: RowCodec, *, as_text: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json_document(report, as_text=as_text))
    else:
        names = KeyNames(codec, [location.first_key for location in report.found], as_text=as_text)
        typer.echo(absence_text(report, names))
    if not report.gone:
        raise typer.Exit(EXIT_FAILED if report.found else EXIT_UNCHECKED)
