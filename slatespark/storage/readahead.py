"""Readahead: fetch the next ranges of an object, or the next objects, while the current one is processed."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias, TypeVar

from slatespark.ranges import ByteRange
from slatespark.storage.object_store import Buffer, ObjectStore
from slatespark.thread_pool import ThreadPool

T = TypeVar("T")
Item = TypeVar("Item")

Begun: TypeAlias = tuple[Future[T], int]  # a task that was started, and the size of its result

# Threads per process that wait for responses, for all objects together.
MAX_THREADS = 32

# By process: a child does not have its parent's threads.
_POOLS: dict[int, ThreadPool] = {}
_THREAD = threading.local()


def read_ahead(
    store: ObjectStore, path: str, spans: Sequence[ByteRange], *, depth: int = 2, max_bytes: int = 16 << 20
) -> Generator[Buffer, None, None]:
    """Yield the ranges of an object in the given order, while the next ones are being read.

    The first read starts with the first `next`. Stores without network latency read each range on demand. A consumer
    that stops early should close the generator, which cancels pending reads.

    Parameters
    ----------
    spans : ranges, one request each
    depth : number of ranges in flight or buffered, besides the one in use
    max_bytes : largest total size in flight; one range is always in flight, regardless of its size

    Raises
    ------
    The errors of `get_range`, when the affected range is reached.
    """
    fetches = ((partial(store.get_range, path, span), len(span)) for span in spans)
    yield from run_in_order(fetches, depth=depth, max_bytes=max_bytes, is_remote=store.is_remote)


def run_in_order(
    tasks: Iterable[tuple[Callable[[], T], int]],
    *,
    depth: int,
    max_bytes: int,
    is_remote: bool,
    begun: deque[Begun[T]] | None = None,
) -> Generator[T, None, None]:
    """Yield the results of tasks in their order, while the next tasks run, if they have network latency.

    The first task starts with the first `next`. A consumer that stops early should close the generator, which cancels
    tasks that have not begun.

    Parameters
    ----------
    tasks : tasks, each with the size of its result; they are asked for as there is room
    depth : number of tasks that run or whose results wait, besides the one in use
    max_bytes : largest total size in flight; one task always runs, regardless of its size
    begun : what `begin_in_order` returned of the tasks before them; results are taken out, which releases them

    Raises
    ------
    The error of a task, when it is reached.
    """
    pending = deque[Begun[T]]() if begun is None else begun
    if not pending and (depth < 1 or not may_read_ahead(is_remote=is_remote)):
        for task, _ in tasks:
            yield task()
        return
    pool, rest = _pool(), iter(tasks)
    pending_bytes = sum(size for _, size in pending)
    upcoming = None if pending else next(rest, None)
    try:
        while True:
            while upcoming is not None and _has_room(upcoming[1], len(pending), pending_bytes, depth, max_bytes):
                pending.append((pool.submit(upcoming[0]), upcoming[1]))
                pending_bytes += upcoming[1]
                upcoming = next(rest, None)
            if not pending:
                return
            answer, size = pending.popleft()
            pending_bytes -= size
            result = answer.result()
            del answer  # releases the bytes
            yield result
            if upcoming is None:
                upcoming = next(rest, None)
    finally:
        for answer, _ in pending:
            answer.cancel()


def begin_in_order(tasks: Iterable[tuple[Callable[[], T], int]], *, depth: int, max_bytes: int) -> deque[Begun[T]]:
    """Start the first of some tasks with network latency, for `run_in_order`; other parameters as there.

    Nothing waits here. So threads that read ahead may begin tasks for others.
    """
    begun = deque[Begun[T]]()
    begun_bytes = 0
    for task, size in tasks:
        if not _has_room(size, len(begun), begun_bytes, depth, max_bytes):
            break
        begun.append((_pool().submit(task), size))
        begun_bytes += size
    return begun


def run_concurrently(tasks: Sequence[Callable[[], T]], *, is_remote: bool) -> list[T]:
    """Run tasks and return their results in order; concurrently if they have network latency.

    Raises
    ------
    The error of a task; of several, that of the first one.
    """
    if len(tasks) < 2 or not may_read_ahead(is_remote=is_remote):
        return [task() for task in tasks]
    answers = [_pool().submit(task) for task in tasks]
    try:
        return [answer.result() for answer in answers]
    finally:
        for answer in answers:
            answer.cancel()


def run_in_groups(
    call: Callable[[Item], T], items: Sequence[Item], *, is_remote: bool, size: int = MAX_THREADS
) -> Iterator[tuple[Item, T]]:
    """Yield items with the result of a call for each, in their order; the calls of a group as by `run_concurrently`.

    So a caller of thousands holds the results of one group, and may end before the next one is begun.
    """
    for at in range(0, len(items), size):
        some = items[at : at + size]
        yield from zip(some, run_concurrently([partial(call, item) for item in some], is_remote=is_remote), strict=True)


def run_ahead(task: Callable[[], T], *, is_remote: bool) -> Callable[[], T]:
    """Start a task that has network latency, and return the function that waits for its result.

    Without latency that function runs the task.
    """
    return _pool().submit(task).result if may_read_ahead(is_remote=is_remote) else task


def may_read_ahead(*, is_remote: bool) -> bool:
    """Tell whether threads may fetch for the caller: if there is latency, and it is not itself one of them.

    All of them could wait for each other.
    """
    return is_remote and not getattr(_THREAD, "is_ours", False)


def _mark_thread() -> None:
    _THREAD.is_ours = True


def _has_room(size: int, pending: int, pending_bytes: int, depth: int, max_bytes: int) -> bool:
    # One more than `depth`, because the first of them is the next one to be used.
    return pending == 0 or (pending <= depth and pending_bytes + size <= max_bytes)


def _pool() -> ThreadPool:
    pid = os.getpid()
    if pid not in _POOLS:
        _POOLS.setdefault(pid, ThreadPool(MAX_THREADS, "slatespark-read-ahead", _mark_thread))
    return _POOLS[pid]
