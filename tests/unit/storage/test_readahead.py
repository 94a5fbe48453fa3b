from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import pytest

from slatespark.errors import CorruptDataError
from slatespark.ranges import ByteRange
from slatespark.storage import (
    begin_in_order,
    read_ahead,
    run_ahead,
    run_concurrently,
    run_in_groups,
    run_in_order,
)
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer
from slatespark.storage.readahead import MAX_THREADS

DATA = bytes(range(250)) * 10
SPANS = [ByteRange(start, start + 100) for start in range(0, 2500, 100)]


class FarStore(MemoryStore):
    """Simulates network latency: records requests and can delay responses."""

    def __init__(self) -> None:
        super().__init__("far")
        self.put("x", [DATA])
        self.asked: list[ByteRange] = []
        self.open = threading.Event()
        self.open.set()

    @property
    def is_remote(self) -> bool:
        return True

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        self.asked.append(span)
        assert self.open.wait(60)
        return super().get_range(path, span)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("depth", [0, 1, 3, 100])
@pytest.mark.parametrize("max_bytes", [1, 250, 1 << 20])
def test_ranges_arrive_in_order(depth: int, max_bytes: int) -> None:
    parts = list(read_ahead(FarStore(), "x", SPANS, depth=depth, max_bytes=max_bytes))
    assert b"".join(parts) == DATA


def test_reads_start_on_demand() -> None:
    store = FarStore()
    buffers = read_ahead(store, "x", SPANS)
    assert store.asked == []
    next(buffers)
    wait_until(lambda: len(store.asked) == 3)
    time.sleep(0.02)
    assert sorted(store.asked, key=lambda span: span.start) == SPANS[:3]  # each by a thread, so in any order


def test_ranges_are_read_concurrently() -> None:
    store = FarStore()
    store.open.clear()
    buffers = read_ahead(store, "x", SPANS, depth=3)
    taker = threading.Thread(target=next, args=(buffers,))
    taker.start()
    wait_until(lambda: len(store.asked) == 4)
    store.open.set()
    taker.join()


def test_buffered_bytes_are_bounded() -> None:
    store = FarStore()
    buffers = read_ahead(store, "x", SPANS, depth=10, max_bytes=350)
    for taken in range(1, 6):
        next(buffers)
        time.sleep(0.005)
        assert len(store.asked) <= taken + 3


def test_what_was_begun_comes_first_and_is_let_go() -> None:
    store = FarStore()
    tasks = [(partial(store.get_range, "x", span), len(span)) for span in SPANS]
    begun = begin_in_order(tasks, depth=10, max_bytes=350)
    assert [size for _, size in begun] == [100, 100, 100]
    results = run_in_order(tasks[3:], depth=10, max_bytes=350, is_remote=True, begun=begun)
    assert bytes(next(results)) == DATA[:100]
    assert len(begun) == 2
    wait_until(lambda: len(store.asked) == 3)  # there is no room for more
    assert DATA[:100] + b"".join(results) == DATA
    assert not begun


def test_tasks_are_asked_for_as_there_is_room() -> None:
    """The first result does not wait for what the next tasks are made of."""

    def tasks() -> Iterator[tuple[Callable[[], int], int]]:
        yield partial(abs, -1), 1
        yield partial(abs, -2), 1
        raise ValueError

    begun = begin_in_order(islice(tasks(), 1), depth=3, max_bytes=100)
    results = run_in_order(islice(tasks(), 1, None), depth=3, max_bytes=100, is_remote=True, begun=begun)
    assert next(results) == 1
    with pytest.raises(ValueError, match=r"^$"):
        next(results)


def test_closing_the_generator_cancels_reads() -> None:
    store = FarStore()
    buffers = read_ahead(store, "x", SPANS, depth=2)
    assert [bytes(part) for part in islice(buffers, 2)] == [DATA[:100], DATA[100:200]]
    buffers.close()
    asked = len(store.asked)
    time.sleep(0.02)
    assert len(store.asked) == asked <= 4


def test_an_error_is_raised_at_its_range() -> None:
    store = FarStore()
    buffers = read_ahead(store, "x", [*SPANS[:2], ByteRange(2400, 2600), SPANS[3]])
    assert [bytes(next(buffers)), bytes(next(buffers))] == [DATA[:100], DATA[100:200]]
    with pytest.raises(CorruptDataError, match="2600"):
        next(buffers)


def test_local_stores_read_on_demand() -> None:
    store = MemoryStore("near")
    store.put("x", [DATA])
    before = threading.active_count()
    assert b"".join(read_ahead(store, "x", SPANS)) == DATA
    assert threading.active_count() <= before
    assert list(read_ahead(store, "x", [])) == []


def test_remote_tasks_run_concurrently() -> None:
    barrier = threading.Barrier(3, timeout=60)
    assert run_concurrently([barrier.wait] * 3, is_remote=True) != [0, 0, 0]
    assert run_concurrently([partial(abs, number) for number in range(-4, 0)], is_remote=True) == [4, 3, 2, 1]
    threads = run_concurrently([threading.get_ident] * 3, is_remote=False)
    assert threads == [threading.get_ident()] * 3
    assert run_concurrently([], is_remote=True) == []


@pytest.mark.parametrize("is_remote", [False, True])
def test_groups_are_run_one_after_the_other(*, is_remote: bool) -> None:
    begun: list[int] = []
    ended: list[int] = []
    ended_before: dict[int, int] = {}

    def call(number: int) -> int:
        begun.append(number)
        ended_before[number] = len(ended)
        time.sleep(0.002 * (3 - number % 3))  # the last of a group ends first
        ended.append(number)
        return -number

    answers = run_in_groups(call, range(8), is_remote=is_remote, size=3)
    assert not begun
    assert next(answers) == (0, 0)
    assert sorted(ended) == [0, 1, 2]
    assert [*islice(answers, 3)] == [(1, -1), (2, -2), (3, -3)]
    assert sorted(begun) == [0, 1, 2, 3, 4, 5]
    del answers  # as a caller does that ends early
    assert sorted(begun) == [0, 1, 2, 3, 4, 5]
    assert [*run_in_groups(call, range(8), is_remote=is_remote, size=3)] == [(number, -number) for number in range(8)]
    assert all(ended_before[number] >= 6 + number // 3 * 3 for number in range(8))
    assert [*run_in_groups(call, [], is_remote=is_remote)] == []


def test_the_error_of_the_first_failed_task_is_raised() -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    tasks = [lambda: None, lambda: fail("first"), lambda: fail("second")]
    for is_remote in (False, True):
        with pytest.raises(ValueError, match="first"):
            run_concurrently(tasks, is_remote=is_remote)


def test_tasks_that_run_tasks_of_their_own_need_no_second_thread() -> None:
    """With more of them than threads, each would wait for one that is never free."""
    full = threading.Barrier(MAX_THREADS, timeout=60)

    def outer() -> tuple[bytes, list[int], int]:
        full.wait()
        data = b"".join(read_ahead(FarStore(), "x", SPANS))
        return (
            data,
            run_concurrently([partial(abs, -1)] * 2, is_remote=True),
            run_ahead(partial(abs, -2), is_remote=True)(),
        )

    assert run_concurrently([outer] * MAX_THREADS, is_remote=True) == [(DATA, [1, 1], 2)] * MAX_THREADS
