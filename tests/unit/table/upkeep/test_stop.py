from __future__ import annotations

import signal
import threading
import time

import pytest

from slatespark.table.upkeep.stop import Stop


def test_it_is_taken_once() -> None:
    stop = Stop()
    assert not stop.take()
    stop.ask()
    stop.ask()
    assert stop.take()
    assert not stop.take()


def test_a_wait_ends_and_takes_nothing() -> None:
    stop = Stop()
    stop.wait(0.001)
    threading.Timer(0.01, stop.ask).start()
    began_s = time.monotonic()
    stop.wait(60)
    assert time.monotonic() - began_s < 60
    assert stop.take()


def test_signals_come_at_any_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, seen = Stop(), 0
    before = signal.signal(signal.SIGALRM, lambda *_: stop.ask())
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        while seen < 200:
            stop.wait(60)
            seen += stop.take()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
