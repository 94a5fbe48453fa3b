"""Commands that define a table: `create`, `set-properties`, `drop-columns`, `set-history-floor`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, CreationOption, Storage, TablePath
from slatespark.cli.output import EXIT_FAILED, failing_with, show_result
from slatespark.cli.parameter_groups import located_table, taking
from slatespark.cli.table_arguments import TableArguments, command_arguments, parse_named
from slatespark.encoding.column_list import parse_columns
from slatespark.errors import OptionError
from slatespark.texts import align_facts, printable
from slatespark.units import ms_to_text, parse_time_ms


@app.command()
@failing_with(EXIT_FAILED)
def create(
    table: TablePath,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help='Columns of a typed table: "tenant STRING, id BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>".',
            show_default=False,
        ),
    ] = None,
    key_columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="The columns of the key, in order.", show_default=False)
    ] = None,
    option: CreationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Create an empty table; without --columns and --key-columns a raw one of keys and values."""
    if (columns is None) != (key_columns is None):
        raise OptionError("create takes --columns together with --key-columns.", todo="Give both, or neither.")
    arguments = command_arguments(table, option=option, storage=storage)
    schema = None if columns is None else parse_columns(columns)
    store = arguments.create_store(arguments.options, schema=schema, keyColumns=key_columns)
    version = store.detail().version
    facts = {"url": store.url, "version": version}
    show_result(facts, f"Created {store.url}; version {version}.", as_json=as_json)


@app.command("set-properties")
@failing_with(EXIT_FAILED)
@taking(located_table)
def set_properties(
    table: TableArguments,
    properties: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE", help="Table properties, like defaultTtl=30d.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Set table properties; others stay as they are. Prints all of them."""
    given = parse_named(properties, "set-properties", "defaultTtl=30d")
    store = table.open_store()
    store.setProperties(**given)
    present = dict(sorted(store.definition.properties.items()))
    text = align_facts((printable(name), printable(value)) for name, value in present.items())
    show_result({"properties": present}, text, as_json=as_json)


@app.command("set-history-floor")
@failing_with(EXIT_FAILED)
@taking(located_table)
def set_history_floor(
    table: TableArguments,
    time: Annotated[
        str,
        typer.Argument(
            metavar="TIME", help="The earliest instant that stays readable, ISO-8601 or epoch ms.", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Give up the past of a history table below an instant, so that compactions may drop it. It cannot be lowered."""
    floor_ms = parse_time_ms(time, name="TIME")
    table.open_store().setHistoryFloor(floor_ms)
    show_result({"floor_ms": floor_ms}, f"The history floor is {ms_to_text(floor_ms)}.", as_json=as_json)


@app.command("drop-columns")
@failing_with(EXIT_FAILED)
@taking(located_table)
def drop_columns(
    table: TableArguments,
    columns: Annotated[
        list[str], typer.Argument(metavar="COLUMN", help="Columns that are not part of the key.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Drop columns of a typed table for good: their names cannot be used again, since stored rows keep the values."""
    store = table.open_store()
    store.dropColumns(*columns)
    schema = store.definition.schema
    left = [] if schema is None else schema.names
    dropped = ", ".join(dict.fromkeys(columns))
    text = f"Dropped {dropped}; the columns are {', '.join(printable(name) for name in left)}."
    show_result({"columns": left}, text, as_json=as_json)
