"""`update`: set columns of the rows that match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, AsText, Storage, TablePath, Where, WriteOption
from slatespark.cli.files.input_values import array_of_json
from slatespark.cli.files.json_rows import parse_object
from slatespark.cli.output import EXIT_FAILED, asked_progress, failing_with, show_commit
from slatespark.cli.table_arguments import call_with, committed_rows, write_arguments
from slatespark.encoding.schema import find_name
from slatespark.errors import OptionError
from slatespark.table.definition.versions import fetch_codec


@app.command()
@failing_with(EXIT_FAILED)
def update(
    table: TablePath,
    values: Annotated[
        str, typer.Argument(metavar="OBJECT", help="The new values by column, as a JSON object.", show_default=False)
    ],
    where: Where = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Instead of --where: all rows.")] = False,
    option: WriteOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Set columns of the rows that match, in one commit."""
    if (where is None) != all_rows:
        raise OptionError("update takes --where, or --all for all rows.", todo="Give one of them.")
    arguments = write_arguments(table, {}, option=option, storage=storage)
    schema = fetch_codec(arguments.open_stores()).schema
    assigned = _assigned(parse_object(values, "OBJECT"), schema, as_text=as_text)
    store = arguments.open_store()
    progress = asked_progress(as_json=as_json)
    version = call_with([arguments.options], store.update, where, assigned, progress=progress)
    show_commit(version, committed_rows(store, "put"), as_json=as_json)


def _assigned(values: Mapping[str, Any], schema: pa.Schema, *, as_text: bool) -> dict[str, object]:
    """Return the values as those of their columns; names that the table does not have are left for the update."""
    found: dict[str, object] = {}
    for given, value in values.items():
        name = find_name(schema, given)
        found[given] = value if name is None else array_of_json([value], schema.field(name), as_text=as_text)[0]
    return found
