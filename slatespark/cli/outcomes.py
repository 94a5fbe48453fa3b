"""What commands that serve many tables print: an outcome at a time while they run, or all of them at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import typer

from slatespark.cli.output import EXIT_FAILED, json_document, json_line, one_line
from slatespark.errors import OptionError, SlateError
from slatespark.options.defaults import MAX_INTERVAL
from slatespark.options.values import parse_duration, parse_lasting_duration


class Outcome(Protocol):
    """What came of a step for one table."""

    @property
    def error(self) -> SlateError | None:
        """Why it failed; None if it did not."""


Kind = TypeVar("Kind", bound=Outcome)


@dataclass(frozen=True, slots=True)
class Outcomes(Generic[Kind]):
    """Prints outcomes of one kind: errors on stderr, and reports as text or JSON.

    Attributes
    ----------
    text : what is said of an outcome without an error; None for nothing
    fields : what JSON shows of an outcome, without `error`
    as_json : print JSON
    is_news : whether an outcome without an error is printed as JSON while the command runs
    gap : between two texts
    """

    text: Callable[[Kind], str | None]
    fields: Callable[[Kind], dict[str, Any]]
    as_json: bool
    is_news: Callable[[Kind], bool] = lambda _: True
    gap: str = "\n"

    def show(self, outcome: Kind) -> None:
        """Print one outcome, on a line if as JSON."""
        if self.as_json:
            if outcome.error is not None or self.is_news(outcome):
                typer.echo(json_line(self._document(outcome)))
        elif outcome.error is not None:
            typer.echo(one_line(outcome.error), err=True)
        elif (text := self.text(outcome)) is not None:
            typer.echo(f"{text}{self.gap}")

    def show_all(self, outcomes: Sequence[Kind]) -> None:
        """Print all outcomes, as one document if as JSON; exits with 1 if one failed."""
        if self.as_json:
            typer.echo(json_document([self._document(outcome) for outcome in outcomes]))
        else:
            texts = [text for outcome in outcomes if outcome.error is None and (text := self.text(outcome)) is not None]
            typer.echo(f"\n{self.gap}".join(texts), nl=bool(texts))
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        for error in errors:
            typer.echo(one_line(error), err=True)
        if errors:
            raise typer.Exit(EXIT_FAILED)

    def _document(self, outcome: Kind) -> dict[str, Any]:
        return {**self.fields(outcome), "error": None if outcome.error is None else one_line(outcome.error)}


def intervals_of(every: str) -> dict[str, int]:
    """Return the intervals of a loop with this `--every`, in ms, as arguments of `Reaper` and `Upkeep`.

    Raises
    ------
    OptionError
        When it is not positive, or a number below a minute.
    """
    every_ms = parse_lasting_duration(every, "--every")
    if not every_ms:
        raise OptionError(f"--every: {every!r} is not a positive duration.", todo="Give a duration like 10m.")
    return {"minInterval": every_ms, "maxInterval": max(parse_duration(MAX_INTERVAL, "maxInterval"), every_ms)}


def refuse_shared_wal(tables: Sequence[str], location: Mapping[str, Any]) -> None:
    """Raise `OptionError` if one `walPath` is given for several tables."""
    if "walPath" in location and len(tables) > 1:
        raise OptionError("walPath applies to one table, but several are given.", todo="Serve them one by one.")
