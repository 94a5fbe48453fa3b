"""Pools of threads, while the main thread lives and after its end."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from slatespark import thread_pool
from slatespark.table.read.ordered_threads import ordered_batches
from slatespark.table.tasks import running
from slatespark.thread_pool import ThreadPool

BATCH = pa.record_batch({"n": [1]})


class Refused(threading.Thread):
    """A thread that Python does not start."""

    def start(self) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread as a thread that was never started: it is not alive."""
    monkeypatch.setattr(threading, "main_thread", threading.Thread)
    assert thread_pool.has_main_thread_ended()


def test_a_pool_runs_its_tasks_on_its_threads() -> None:
    with ThreadPool(2, "mine") as pool:
        assert pool.submit(lambda: threading.current_thread().name).result().startswith("mine")
    with pytest.raises(RuntimeError):
        pool.submit(threading.get_ident)


def test_after_the_main_thread_the_caller_runs_them(ended: None) -> None:
    with ThreadPool(2) as pool:
        here = threading.get_ident()
        assert pool.submit(threading.get_ident).result() == here
        assert list(pool.map(divmod, [7, 8], [2, 2])) == [(3, 1), (4, 0)]
        failed = pool.submit(divmod, 1, 0)
        with pytest.raises(ZeroDivisionError):
            failed.result()


def test_an_end_during_the_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPool(1) as pool:
        pass
    answers = iter([False, True])
    monkeypatch.setattr(thread_pool, "has_main_thread_ended", lambda: next(answers))
    assert pool.submit(threading.get_ident).result() == threading.get_ident()


def test_an_interrupt_ends_the_caller(ended: None) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ThreadPool(1) as pool:
        pool.submit(interrupted)


def test_threads_that_are_not_started_are_done_without(ended: None) -> None:
    stopped = threading.Event()
    with running([Refused()], stopped.set):
        pass
    assert stopped.is_set()
    found = ordered_batches([1, 2], lambda part: iter([BATCH] * part), threads=2, ahead_bytes=1)
    assert [number for number, _ in found] == [0, 1, 1]


def test_no_room_for_a_thread_is_an_error() -> None:
    with pytest.raises(RuntimeError), running([Refused()], threading.Event().set):
        raise AssertionError
