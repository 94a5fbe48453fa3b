"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, demo_lines, failing_with, json_document, print_lines


@app.command()
@failing_with(EXIT_FAILED)
def demo(
    path: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the demo's tables.")] = Path(
        "slatespark-demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Load a year of flights into SlateDB databases with Spark, step by step, and keep them to explore."""
    from slatespark.spark.demo.run import run_demo  # here, since it alone starts Spark

    events = run_demo(path)
    if as_json:
        typer.echo(json_document(list(events)))
    else:
        print_lines(demo_lines(events))
