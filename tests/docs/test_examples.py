"""Every code block of the documentation runs, and prints what the page shows; so do the scripts in `examples/`."""

from __future__ import annotations

import codeop
import contextlib
import doctest
import io
import logging
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PYTHON, REPOSITORY, SHELLS, Block, Command, Page, all_pages

SPARK = (pytest.mark.spark, pytest.mark.xdist_group("spark"))  # with all other tests that use the session

PAGES = [page for page in all_pages() if any(page.blocks())]
SCRIPTS = sorted((REPOSITORY / "examples").glob("*.py"))

COMMAND_S = 120


def spark_marks(needs_spark: bool) -> tuple[Any, ...]:
    return SPARK if needs_spark else ()


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=spark_marks(page.needs_spark)) for page in PAGES]
)
def test_blocks_run(
    page: Page, request: pytest.FixtureRequest, commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.needs_spark:
        request.getfixturevalue("spark")
    if "import pandas" in page.text:
        pytest.importorskip("pandas")  # slatespark does without
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    with same_log_level():
        for block in page.blocks():
            if block.language == PYTHON:
                check_output(page, block, block.shown, run_python(page, block, namespace))
            for command in block.commands:
                check_output(page, block, command.shown, run_command(page, block, command, tmp_path, commands))


@contextlib.contextmanager
def same_log_level() -> Iterator[None]:
    """Set the level of our loggers back: a page may set it, and later tests of this process count lines."""
    log = logging.getLogger("slatespark")
    level = log.level
    try:
        yield
    finally:
        log.setLevel(level)


def run_python(page: Page, block: Block, namespace: dict[str, Any]) -> str:
    """Run a block, numbered as in its page; what it prints."""
    code = compile("\n" * (block.line - 1) + block.text, str(page.path), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_command(page: Page, block: Block, command: Command, folder: Path, commands: Path) -> str:
    """Run lines in a shell that finds `slatespark` in `commands`; what they print. A line may say `  # exit code 1`."""
    script = re.sub(r"^(.+)  # exit code (\d+)$", r"(set +e; \1; [ $? -eq \2 ])", command.text, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(REPOSITORY),
        },
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, f"{page.name}:{block.line} ends with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_output(page: Page, block: Block, shown: str | None, printed: str) -> None:
    """Compare without trailing blanks; `...` stands for anything."""
    if shown is None:
        return
    wanted, found = tidy(shown), tidy(printed)
    same = doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS)
    assert same, f"{page.name}:{block.line} prints\n{found}\nbut shows\n{wanted}"


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.name)
def test_commands_are_in_blocks_that_run(page: Page) -> None:
    """A block of another language, or of none, is not run: commands are in a `shell` or `console` block."""
    assert page.languages() <= {"", "text", PYTHON, *SHELLS}


def test_blocks_can_be_pasted() -> None:
    """Into a Python before 3.13: its prompt ends a statement at a blank line, and wants one behind an indented part.

    Not those with a class of several methods: ruff puts blank lines between them.
    """
    refused = [f"{page.name}:{line}" for page in PAGES for line in refused_lines(page)]
    assert not refused


def refused_lines(page: Page) -> Iterator[int]:
    """The first line of each block that the prompt refuses."""
    for block in page.blocks():
        statement: list[str] = []
        if block.language != PYTHON or ("\nclass " in f"\n{block.text}" and block.text.count("\n    def ") > 1):
            continue
        for number, line in enumerate([*block.text.splitlines(), ""]):
            statement.append(line)
            try:
                is_complete = codeop.compile_command("\n".join(statement), symbol="single") is not None
            except SyntaxError:
                yield block.line + number
                break
            if is_complete:
                statement.clear()


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
