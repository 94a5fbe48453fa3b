"""Signals end commands, and only while these run."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from slatespark.cli.signals import TERMINATED, cleaning_up_at_sigterm, ending_at_sigterm, stopped_by_signals


def handlers() -> list[Any]:
    return [signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)]


def test_the_first_signal_cleans_up_and_the_second_one_ends() -> None:
    before = handlers()
    with cleaning_up_at_sigterm():
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == TERMINATED == 143
        assert handlers() == [signal.SIG_DFL, before[1]]
    assert handlers() == before


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_work_is_asked_to_stop_by_another_thread(kind: signal.Signals) -> None:
    before, lock, stopped = handlers(), threading.Lock(), threading.Event()

    def stop() -> None:
        with lock:
            stopped.set()

    with stopped_by_signals(stop):
        with lock:
            signal.raise_signal(kind)
        assert stopped.wait(60)
    assert handlers() == before


def test_handlers_of_an_outer_block_come_back_after_an_error() -> None:
    before = handlers()
    with cleaning_up_at_sigterm():
        outer = handlers()
        with ending_at_sigterm():
            assert handlers() == [signal.SIG_DFL, before[1]]
        assert handlers() == outer
        with pytest.raises(KeyError), stopped_by_signals(lambda: None):
            raise KeyError
        assert handlers() == outer
    assert handlers() == before


def test_other_threads_handle_no_signals() -> None:
    def run() -> list[Any]:
        with cleaning_up_at_sigterm(), ending_at_sigterm(), stopped_by_signals(lambda: None):
            return handlers()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run).result() == handlers()
