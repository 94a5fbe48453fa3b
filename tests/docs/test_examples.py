"""Every code block of the documentation runs, and prints what the page shows; so do the scripts in `examples/`."""

from __future__ import annotations

import contextlib
import doctest
import io
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slatespark.cli.commands import app
from tests.docs.pages import REPOSITORY, Block, Page, all_pages

SPARK = (pytest.mark.spark, pytest.mark.xdist_group("spark"))  # with all other tests that use the session

NOT_RUN = {"docs/how-to/verify-a-table.md"}  # its tables are on S3

PAGES = [
    page
    for page in all_pages()
    if page.name not in NOT_RUN and any(block.language == "python" or block.commands for block in page.blocks())
]
SCRIPTS = sorted((REPOSITORY / "examples").glob("*.py"))


def spark_marks(needs_spark: bool) -> tuple[Any, ...]:
    return SPARK if needs_spark else ()


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=spark_marks(page.needs_spark)) for page in PAGES]
)
def test_blocks_run(
    page: Page, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.needs_spark:
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in page.blocks():
        if block.language == "python":
            printed = run_python(page, block, namespace)
        elif block.commands:
            printed = "".join(map(run_command, block.commands))
        else:
            continue
        if block.shown is not None:
            check_output(page, block, printed)


def run_python(page: Page, block: Block, namespace: dict[str, Any]) -> str:
    """Run a block, numbered as in its page; what it prints."""
    code = compile("\n" * (block.line - 1) + block.text, str(page.path), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_command(line: str) -> str:
    """Run `slatespark ...` in this process; what it prints."""
    command, _, comment = line.partition("  # exit code ")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == int(comment or 0), result.output
    return result.output


def check_output(page: Page, block: Block, printed: str) -> None:
    """Compare without trailing blanks; `...` stands for anything."""
    shown, found = tidy(block.shown or ""), tidy(printed)
    same = doctest.OutputChecker().check_output(shown, found, doctest.ELLIPSIS)
    assert same, f"{page.name}:{block.line} prints\n{found}\nbut shows\n{shown}"


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=script.name, marks=spark_marks("SparkSession" in script.read_text()))
        for script in SCRIPTS
    ],
)
def test_scripts_run(script: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    main = runpy.run_path(str(script), run_name="example")["main"]
    if "SparkSession" in script.read_text():
        main(request.getfixturevalue("spark"), tmp_path / "table")
    else:
        main(tmp_path / "table")
