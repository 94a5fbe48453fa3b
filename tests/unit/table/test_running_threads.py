"""Threads that run while a context is open: none of them stays behind, whatever ends it."""

from __future__ import annotations

import os
import threading

import pytest

from slatespark.table.tasks import running


class InterruptedStart(threading.Thread):
    """A thread whose start is interrupted, before or after it begins."""

    def __init__(self, ended: threading.Event, *, begins: bool) -> None:
        super().__init__(target=ended.wait, name="interrupted", daemon=True)
        self._begins = begins

    def start(self) -> None:
        if self._begins:
            super().start()
        raise KeyboardInterrupt


@pytest.mark.parametrize("begins", [False, True])
def test_an_interrupt_of_a_start_ends_all_threads(begins: bool) -> None:
    ended = threading.Event()
    before = threading.Thread(target=ended.wait, daemon=True)
    interrupted = InterruptedStart(ended, begins=begins)
    with pytest.raises(KeyboardInterrupt), running([before, interrupted], ended.set):
        raise AssertionError
    assert not before.is_alive()
    assert not interrupted.is_alive()


def test_an_error_of_the_block_ends_the_threads() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, daemon=True)
    with pytest.raises(KeyError, match="True"), running([thread], ended.set):
        raise KeyError(thread.is_alive())
    assert not thread.is_alive()


def test_a_forked_process_ends_nothing_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    pid, calls = os.getpid(), list[str]()
    with running([], lambda: calls.append("ended")):
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert calls == []
