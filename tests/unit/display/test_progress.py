"""Bars of long calls, in a terminal and in a notebook."""

from __future__ import annotations

import io
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from slatespark import OptionError
from slatespark.display import progress as drawn
from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.table.progress import Step

PATIENCE_S = 60.0

CELL = """
import time
from slatespark.display import progress as drawn
from slatespark.table.progress import Step

drawn.DELAY_S = 0.0
with drawn.showing_progress("auto", Step.WRITING) as tell:
    tell(Step.WRITING, 2, 8)
    time.sleep(2)
"""


class Terminal:
    """A pseudo terminal in place of standard error."""

    def __init__(self, read_end: int) -> None:
        self._read_end, self.text = read_end, ""

    def wait_for(self, wanted: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while wanted not in self.plain():
            assert time.monotonic() < end, self.text
            self.read(0.1)

    def read(self, wait_s: float = 0.0) -> None:
        while select.select([self._read_end], [], [], wait_s)[0]:
            self.text += os.read(self._read_end, 1 << 16).decode()
            wait_s = 0.0

    def plain(self) -> str:
        return re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", self.text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    read_end, write_end = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with os.fdopen(write_end, "w") as stream:
        # Only for the module: pytest sets sys.stderr itself between a fixture and its test.
        monkeypatch.setattr(drawn, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))
        monkeypatch.setattr(drawn, "DELAY_S", 0.0)
        yield Terminal(read_end)
    os.close(read_end)


def test_a_bar_shows_the_step_and_how_much_is_done(terminal: Terminal) -> None:
    with showing_progress("auto", Step.MERGING) as tell:
        terminal.wait_for("Merging")
        assert tell is not None
        tell(Step.MERGING, 3 << 20, 12 << 20)
        terminal.wait_for("3.0 MiB of 12.0 MiB")
        tell(Step.DELETING, 1, 1)
        terminal.wait_for("1 of 1 object ")
    terminal.read()
    assert terminal.text.rstrip().endswith("\x1b[2K")  # it is gone


def test_a_short_call_has_no_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "DELAY_S", PATIENCE_S)
    with showing_progress("auto", Step.MERGING) as tell:
        assert tell is not None
        tell(Step.MERGING, 1, 2)
    terminal.read()
    assert not terminal.text


def test_a_call_within_a_call_has_none(terminal: Terminal) -> None:
    with showing_progress("auto", Step.ERASING), showing_progress("auto", Step.DELETING) as inner:
        assert inner is None
    with showing_progress("auto", Step.ERASING) as again:
        assert again is not None


def test_the_bar_ends_with_an_error(terminal: Terminal) -> None:
    def interrupted() -> None:
        with showing_progress("auto", Step.ERASING):
            terminal.wait_for("Erasing")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    terminal.read()
    assert terminal.text.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize("asked", [False, None])
def test_nobody_asked(terminal: Terminal, asked: AskedProgress) -> None:
    with showing_progress(asked, Step.ERASING) as tell:
        assert tell is None
    terminal.read()
    assert not terminal.text


def test_no_bar_where_nobody_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "DELAY_S", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with showing_progress("auto", Step.ERASING) as tell:
        assert tell is None


def test_a_function_hears_everything() -> None:
    heard: list[tuple[Step, int, int]] = []
    with showing_progress(lambda *told: heard.append(told), Step.COPYING) as tell:
        assert tell is not None
        tell(Step.COPYING, 1, 2)
    assert heard == [(Step.COPYING, 0, 0), (Step.COPYING, 1, 2)]


@pytest.mark.parametrize("asked", [True, "on", 1])
def test_anything_else_is_refused(asked: Any) -> None:
    with pytest.raises(OptionError, match="progress"), showing_progress(asked, Step.COPYING):
        pass


def test_a_notebook_has_the_bar_as_html() -> None:
    messages: list[Any] = []

    class Client(NotebookClient):
        def process_message(self, msg: dict[str, Any], *rest: Any) -> Any:
            messages.append(msg)
            return super().process_message(msg, *rest)

    cell = nbformat.v4.new_code_cell(CELL)  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    Client(notebook, timeout=int(PATIENCE_S)).execute()
    shown = [
        message["content"]["data"]["text/html"]
        for message in messages
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    assert any("<progress max='8' value='2'>" in html and "2 of 8 rows" in html for html in shown)
    assert shown[-1] == ""
