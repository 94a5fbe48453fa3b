"""The output and exit codes of commands: JSON documents, error lines, progress."""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ParamSpec

import typer

from slatespark.cli.signals import cleaning_up_at_sigterm
from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.display.values import json_bytes
from slatespark.errors import SlateError, as_slate_error
from slatespark.table.progress import Progress, Step
from slatespark.texts import plural, printable, printable_lines

Arguments = ParamSpec("Arguments")

EXIT_FAILED = 1
EXIT_UNCHECKED = 2
EXIT_CLOSED = 141  # as of a process that SIGPIPE ends


def one_line(error: SlateError) -> str:
    """Return an error as one line that starts with its class."""
    return printable(f"{type(error).__name__}: {' '.join(str(error).split())}")


def failing_with(exit_code: int) -> Callable[[Callable[Arguments, None]], Callable[Arguments, None]]:
    """Return a decorator for commands: an error becomes one line on stderr, and this exit code."""

    def decorate(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
        @functools.wraps(command)
        def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            try:
                # Else a lease or a checkpoint would stay, which keeps vacuums from files for a day.
                with cleaning_up_at_sigterm(), warnings.catch_warnings():
                    warnings.simplefilter("always", UserWarning)
                    warnings.showwarning = _show_warning
                    command(*args, **kwargs)
            except BrokenPipeError:  # whoever read the output has seen enough
                _discarded_output()
                raise typer.Exit(EXIT_CLOSED) from None
            except (SlateError, MemoryError, UnicodeError, OSError) as exc:
                show_error(exc)
                raise typer.Exit(exit_code) from None

        return run

    return decorate


def show_error(exc: Exception) -> None:
    """Print an error as one line on stderr."""
    typer.echo(one_line(as_slate_error(exc, _discarded_output())), err=True)


def _discarded_output() -> str:
    """Drop what standard output cannot take, else Python tries again at the end; return its name, or `` if it can."""
    try:
        sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return "Standard output"
    return ""


def print_lines(lines: Iterable[str]) -> None:
    """Print each line as soon as it is available; what would command a terminal is escaped, as JSON does."""
    for line in lines:
        typer.echo(printable_lines(line))


def show_result(facts: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print what a command did: its facts as one line of JSON, or a text."""
    typer.echo(json.dumps(facts) if as_json else text)


def show_commit(version: int, rows: int | None, *, as_json: bool) -> None:
    """Print the result of a write; `rows` is None if their number is unknown."""
    show_result({"version": version, "rows": rows}, rows_text("Wrote", rows, version), as_json=as_json)


def rows_text(verb: str, rows: int | None, version: int) -> str:
    """Return how many rows were written or deleted, if their number is known, and the version that this made."""
    return f"Version {version}." if rows is None else f"{verb} {plural(rows, 'row')}; version {version}."


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """Show a warning as one line, without the source location that Python adds."""
    del where, more
    typer.echo(printable(f"Warning: {' '.join(str(message).split())}"), err=True)


# --- JSON -----------------------------------------------------------------------------------------------------------


def json_document(value: Any, *, as_text: bool = False) -> str:
    """Return nested dataclasses, mappings and sequences as one indented JSON document."""
    return printable_lines(json.dumps(_plain(value, as_text=as_text), indent=2, ensure_ascii=False))


def json_line(value: Any) -> str:
    """Return the same as one line."""
    return printable(json.dumps(_plain(value, as_text=False), ensure_ascii=False))


def _plain(value: Any, *, as_text: bool) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: _plain(item, as_text=as_text) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, as_text=as_text) for item in value]
    return json_bytes(value, as_text=as_text) if isinstance(value, bytes) else value


# --- progress -------------------------------------------------------------------------------------------------------


def asked_progress(*, as_json: bool) -> AskedProgress:
    """Return the progress that a command asks a call for: a bar on a terminal, unless a program reads the output."""
    return False if as_json else "auto"


def progress_bar(step: Step, *, as_json: bool) -> AbstractContextManager[Progress | None]:
    """Show such a bar while a block runs, and give it what to tell its progress to; None without a bar."""
    return showing_progress(asked_progress(as_json=as_json), step)
