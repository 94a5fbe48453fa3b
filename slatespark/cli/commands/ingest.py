"""The command `ingest`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, IngestOption, MergeSchema, Storage, TablePath
from slatespark.cli.files.file_formats import format_by_suffix
from slatespark.cli.output import EXIT_FAILED, asked_progress, failing_with, show_result
from slatespark.cli.table_arguments import call_with, write_arguments
from slatespark.errors import InvalidRequestError
from slatespark.slate_store.base import last_commit
from slatespark.texts import plural


@app.command()
@failing_with(EXIT_FAILED)
def ingest(
    table: TablePath,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files that SstWriter wrote: local paths or URLs.", show_default=False),
    ],
    merge_schema: MergeSchema = False,
    option: IngestOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Publish sorted files made by SstWriter in one commit; their rows become the newest of their keys."""
    for file in files:
        if (found := format_by_suffix(file)) is not None:
            raise InvalidRequestError(
                f"{file} is a {found} file; ingest takes files that SstWriter wrote.",
                todo=f"Load it with slatespark import {table} {file}.",
            )
    arguments = write_arguments(table, {"mergeSchema": merge_schema or None}, option=option, storage=storage)
    store = arguments.open_store()
    version = call_with([arguments.options], store.ingest, files, progress=asked_progress(as_json=as_json))
    ingested = 0 if last_commit(store) is None else len(files)
    text = f"Ingested {plural(ingested, 'file')}; version {version}."
    if not ingested:
        text = f"Nothing was ingested: the files have no rows, or were ingested before. Version {version}."
    show_result({"version": version, "files": ingested}, text, as_json=as_json)
