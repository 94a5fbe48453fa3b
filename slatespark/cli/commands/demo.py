"""The command `demo`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, print_lines

if TYPE_CHECKING:
    from slatespark.spark.demo.tables import DemoEvent


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


def demo_lines(events: Iterable[DemoEvent]) -> Iterator[str]:
    """Yield the demo as lines: numbered steps, code indented, results below."""
    step = 0
    for event in events:
        if event.kind == "step":
            step += 1
            yield f"\n{step}. {event.text}"
        elif event.kind == "code":
            yield indent(event.text, "     > ")
        else:
            yield indent(event.text, "   ")
