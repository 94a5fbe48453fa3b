from __future__ import annotations

import signal
import threading
import time

import pytest

from slatespark.table.upkeep.stop import StopRequest


def test_it_is_taken_once() -> None:
    stop = StopRequest()
    assert not stop.consume()
    stop.request()
    stop.request()
    assert stop.consume()
    assert not stop.consume()


def test_a_wait_ends_and_takes_nothing() -> None:
    stop = StopRequest()
    stop.wait(0.001)
    threading.Timer(0.01, stop.request).start()
    began_s = time.monotonic()
    stop.wait(60)
    assert time.monotonic() - began_s < 60
    assert stop.consume()


def test_signals_come_at_any_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, seen = StopRequest(), 0
    before = signal.signal(signal.SIGALRM, lambda *_: stop.request())
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        while seen < 200:
            stop.wait(60)
            seen += stop.consume()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
