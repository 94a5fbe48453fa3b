"""Threads that several jobs share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from slatespark.table.compaction.fair_threads import FairThreads


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    """One thread, so that the order of tasks is certain."""
    made = FairThreads(1)
    yield made
    made.close()


def test_results_come_in_order() -> None:
    threads = FairThreads(3)
    waits = [threading.Event() for _ in range(3)]
    waits[2].set()

    def task(number: int) -> int:
        assert waits[number].wait(30)
        if number:
            waits[number - 1].set()
        return number

    assert list(threads.run([partial(task, number) for number in range(3)])) == [0, 1, 2]
    assert list(threads.run([])) == []
    threads.close()


def test_the_first_error_ends_a_job_and_no_other(threads: FairThreads) -> None:
    ran: list[int] = []

    def task(number: int) -> int:
        ran.append(number)
        return 1 // (number - 1)

    with pytest.raises(ZeroDivisionError):
        list(threads.run([partial(task, number) for number in range(5)]))
    assert ran == [0, 1]
    assert list(threads.run([partial(task, 3)])) == [0]


def test_results_that_nobody_takes_are_discarded() -> None:
    """The second task ends before the first one fails, so its result cannot be yielded in order."""
    threads, second, left = FairThreads(2), threading.Event(), list[str]()

    def first() -> str:
        assert second.wait(30)
        raise ZeroDivisionError

    def last() -> str:
        second.set()
        return "second"

    with pytest.raises(ZeroDivisionError):
        list(threads.run([first, last], discard=left.append))
    threads.close()
    assert left == ["second"]


def test_who_stops_reading_stops_the_job(threads: FairThreads) -> None:
    ran: list[int] = []
    go = threading.Event()

    def task(number: int) -> None:
        assert number == 0 or go.wait(30)
        ran.append(number)

    results = threads.run([partial(task, number) for number in range(100)])
    next(iter(results))
    threading.Timer(0.05, go.set).start()
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(ran) <= 2
    assert list(threads.run([lambda: "next"])) == ["next"]


@pytest.mark.parametrize("is_urgent", [False, True])
def test_a_small_job_does_not_wait_for_a_large_one(threads: FairThreads, is_urgent: bool) -> None:
    """The thread takes turns; an urgent job goes first."""
    ran: list[str] = []
    began, go = threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        assert go.wait(30)

    large: list[Callable[[], None]] = [first, *[partial(ran.append, "large")] * 50]
    small: list[Callable[[], None]] = [partial(ran.append, "small")] * 2
    with ThreadPoolExecutor(2) as callers:
        done = [callers.submit(lambda: list(threads.run(large)))]
        assert began.wait(30)
        done.append(callers.submit(lambda: list(threads.run(small, is_urgent=is_urgent))))
        while len(threads._batches) < 2:
            pass
        go.set()
        for each in done:
            each.result(30)
    assert ran.count("large") == 50
    assert ran.index("small") <= 1
    if is_urgent:
        assert ran[:2] == ["small", "small"]
