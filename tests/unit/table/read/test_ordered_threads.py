"""Threads that scan parts: the order of one thread, memory that is bounded, and no thread that stays behind."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.table.read.ordered_threads import ordered_batches
from tests.unit.table.layers import new_stores

PARTS = 9
BATCHES = 4


def batch(part: int, number: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array([part * 100 + number] * 10, pa.int64())})


SIZE = batch(0, 0).nbytes


def scan(part: int) -> Iterator[pa.RecordBatch]:
    for number in range(BATCHES):
        yield batch(part, number)


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("slatespark-scan")]


@pytest.mark.parametrize("ahead_bytes", [0, SIZE, 7 * SIZE, 1 << 30])
@pytest.mark.parametrize("threads", [1, 2, 5, 20])
def test_batches_come_in_the_order_of_one_thread(threads: int, ahead_bytes: int) -> None:
    found = [
        (part, each.column(0)[0].as_py())
        for part, each in ordered_batches(range(PARTS), scan, threads=threads, ahead_bytes=ahead_bytes)
    ]
    assert found == [(part, part * 100 + number) for part in range(PARTS) for number in range(BATCHES)]
    assert not running()


def test_an_error_comes_after_the_batches_before_it() -> None:
    def failing(part: int) -> Iterator[pa.RecordBatch]:
        yield batch(part, 0)
        if part in (3, 5):
            raise ValueError(part)

    batches = ordered_batches(range(PARTS), failing, threads=3, ahead_bytes=1 << 20)
    assert [next(batches)[0] for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="3"):
        next(batches)
    assert not running()


@pytest.mark.parametrize("ahead_bytes", [0, 1 << 20])
def test_a_consumer_that_stops_ends_the_threads_and_the_scans(ahead_bytes: int) -> None:
    begun, ended = [], []

    def closing(part: int) -> Iterator[pa.RecordBatch]:
        begun.append(part)
        try:
            yield from scan(part)
        finally:
            ended.append(part)

    batches = ordered_batches(range(PARTS), closing, threads=3, ahead_bytes=ahead_bytes)
    assert next(batches)[0] == 0
    batches.close()
    assert not running()
    assert sorted(begun) == sorted(ended)


def test_what_waits_is_bounded_as_a_whole() -> None:
    """Threads stop at the bound, and go on when the consumer has taken a batch."""
    made: list[int] = []

    def counting(part: int) -> Iterator[pa.RecordBatch]:
        for number in range(BATCHES):
            made.append(part)
            yield batch(part, number)

    threads, room = 3, 5
    taken = 0
    for _ in ordered_batches(range(PARTS), counting, threads=threads, ahead_bytes=room * SIZE):
        taken += 1
        assert len(made) - taken <= room + threads + 1  # each thread has one in hand, the current part one more
    assert taken == len(made) == PARTS * BATCHES


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_scan_by_threads_shows_the_rows_of_a_scan_by_one(order: str) -> None:
    store = SlateStore.create(f"{new_stores().url}-scan")
    for part in range(3):
        keys = [b"%06d" % number for number in range(part, 9000, 3 - part)]
        store.write(pa.table({"key": keys, "value": [b"%d" % part * 20 for _ in keys]}))
    one = store.scan(order=order, parallelism=1, splitSize="16k").read_all()
    assert store.scan(order=order, parallelism=3, splitSize="16k").read_all() == one
    assert store.scan(order=order, parallelism=3, splitSize="16k", readBuffer="1").read_all() == one
    assert store.snapshot().scan(order=order, parallelism=2, splitSize="16k").read_all() == one
    assert one.column("key").to_pylist() == sorted(one.column("key").to_pylist(), reverse=order == "desc")


def test_a_reader_that_is_dropped_ends_its_threads() -> None:
    store = SlateStore.create(f"{new_stores().url}-dropped")
    store.write(pa.table({"key": [b"%06d" % number for number in range(9000)], "value": [b"x" * 20] * 9000}))
    reader = store.scan(parallelism=3, splitSize="16k", readBuffer="1")
    reader.read_next_batch()
    assert running()
    del reader
    assert not running()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("how", ["goes on", "stops"])
def test_a_forked_child_never_waits_for_the_threads_of_its_parent(how: str) -> None:
    batches = ordered_batches(range(PARTS), scan, threads=3, ahead_bytes=0)
    next(batches)

    def use() -> None:
        if how == "goes on":
            with pytest.raises(InvalidRequestError):
                list(batches)
        batches.close()

    child = multiprocessing.get_context("fork").Process(target=use, daemon=True)
    child.start()
    child.join(60)
    exit_code = child.exitcode
    child.kill()
    child.join()
    assert exit_code == 0
    assert len(list(batches)) == PARTS * BATCHES - 1, "the parent goes on"
