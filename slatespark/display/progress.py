"""A bar that shows the progress of a long call, in a terminal or a notebook.

A thread draws it, so a call that is busy in Spark or in a compiled kernel has a bar that moves, and telling progress
costs the call nothing. A short call never shows one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from slatespark.errors import OptionError
from slatespark.table.progress import Progress, Step
from slatespark.table.tasks import running
from slatespark.texts import plural
from slatespark.units import bytes_to_text

AskedProgress: TypeAlias = str | Literal[False] | Progress | None  # as text `auto` alone

DELAY_S: Final = 1.0  # a shorter call shows no bar
_REDRAW_S: Final = 0.2
_SHOWN: Final = threading.Lock()  # held by the call that has a bar: one at a time


@contextmanager
def showing_progress(asked: AskedProgress, step: Step) -> Iterator[Progress | None]:
    """Yield what a call tells its progress to; it first hears of `step`. None if nobody wants to know.

    Parameters
    ----------
    asked : `auto`, a bar on a terminal or in a notebook once the call has taken a second; False or None, no bar; or a
        function to call with step, done and total

    Raises
    ------
    OptionError
        When it is anything else.
    """
    if callable(asked):
        asked(step, 0, 0)
        yield asked
        return
    if asked != "auto" and asked is not False and asked is not None:
        raise OptionError(f"progress: {asked!r} is not valid.", todo='Give "auto", False or a function.')
    canvas = find_canvas() if asked == "auto" else None
    if canvas is None or not _SHOWN.acquire(blocking=False):
        yield None
        return
    try:
        bar = _Bar(canvas, _State(step, 0, 0))
        with running([bar.thread], bar.end):
            yield bar.tell
    finally:
        _SHOWN.release()


@dataclass(frozen=True, slots=True)
class _State:
    step: Step
    done: int
    total: int

    def counted(self) -> str:
        """Return how much is done as text; empty while nothing is known."""
        if not self.step.unit or not (self.done or self.total):
            return ""
        if self.step.unit == "bytes":
            done, total = bytes_to_text(self.done), bytes_to_text(self.total)
            return f"{done} of {total}" if self.total else done
        counted = plural(self.total or self.done, self.step.unit.removesuffix("s"))
        return f"{self.done:,} of {counted}" if self.total else counted


class Canvas(Protocol):
    """A place to draw a bar on."""

    def draw(self, state: _State) -> None:
        """Draw the bar, in place of the one before."""

    def clear(self) -> None:
        """Remove the bar."""


def find_canvas() -> Canvas | None:
    """Return where a bar can be shown: the notebook, or standard error if it is a terminal; else None."""
    if is_notebook():
        return _NotebookCanvas()
    return _TerminalCanvas() if sys.stderr is not None and sys.stderr.isatty() else None


def is_notebook() -> bool:
    """Tell whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _Bar:
    """A bar that is drawn by a thread of its own."""

    def __init__(self, canvas: Canvas, state: _State) -> None:
        self._canvas, self._state = canvas, state
        self._ended = threading.Event()
        self.thread = threading.Thread(target=self._draw, name="slatespark-progress", daemon=True)

    def tell(self, step: Step, done: int, total: int) -> None:
        self._state = _State(step, done, total)

    def end(self) -> None:
        self._ended.set()

    def _draw(self) -> None:
        if self._ended.wait(DELAY_S):
            return None
        while True:
            self._canvas.draw(self._state)
            if self._ended.wait(_REDRAW_S):
                return self._canvas.clear()


class _TerminalCanvas:
    """A line of the terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._step: Step | None = None

    def draw(self, state: _State) -> None:
        if self._bar is None:
            self._bar = self._begin()
        if state.step is not self._step:  # each step has its own total and pace
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._step = self._bar.add_task(state.step.value, total=None, counted=""), state.step
        self._bar.update(self._task, completed=state.done, total=state.total or None, counted=state.counted())
        self._bar.refresh()

    def clear(self) -> None:
        self._bar.stop()

    @staticmethod
    def _begin() -> Any:
        # Imported here: few calls take so long that they show a bar.
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Line

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counted]}", markup=False),
            TimeRemainingColumn(),
        )
        bar = Line(
            *columns,
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # what the caller's threads print is theirs
            redirect_stderr=False,
        )
        bar.start()
        return bar


class _NotebookCanvas:
    """An output of the cell that runs."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, state: _State) -> None:
        self._show(_bar_html(state))

    def clear(self) -> None:
        self._show("")

    def _show(self, html: str) -> None:
        from IPython.display import HTML, display  # there is a notebook, so there is IPython

        output = cast(Any, HTML)(html)
        if self._handle is None:
            self._handle = cast(Any, display)(output, display_id=True)
        else:
            self._handle.update(output)


def _bar_html(state: _State) -> str:
    known = f" max='{state.total}' value='{min(state.done, state.total)}'" if state.total else ""
    label = f"<span style='display:inline-block;min-width:11em'>{escape(state.step.value)}</span>"
    return f"<div class='slatespark'>{label} <progress{known}></progress> {escape(state.counted())}</div>"
