"""The next ranges of an object, on their way while the present one is used."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from slatespark.ranges import ByteRange
from slatespark.storage.object_store import Buffer, ObjectStore

T = TypeVar("T")

# Threads of one process that wait for answers, however many objects are read at a time.
MAX_THREADS = 32

# By process: the threads of a parent do not exist in its child.
_POOLS: dict[int, ThreadPoolExecutor] = {}


def read_ahead(
    store: ObjectStore, path: str, spans: Sequence[ByteRange], *, depth: int = 2, max_bytes: int = 16 << 20
) -> Generator[Buffer, None, None]:
    """Yield the ranges of an object in the order given, with the next ones being read meanwhile.

    Nothing is read before the first one is asked for. Where a read does not wait for a network, each range is read when
    it is asked for. A consumer that stops early should close the generator: what has not begun is then never read.

    Parameters
    ----------
    spans : ranges, each read by a request of its own
    depth : how many ranges are on their way, or read and waiting, besides the one in use
    max_bytes : bound of their size; one range is always under way, whatever its size

    Raises
    ------
    What `get_range` raises, when the range it concerns is reached.
    """
    if depth < 1 or len(spans) < 2 or not store.is_remote:
        for span in spans:
            yield store.get_range(path, span)
        return
    pool = _pool()
    rest = deque(spans)
    pending: deque[tuple[ByteRange, Future[Buffer]]] = deque()
    pending_bytes = 0
    try:
        while rest or pending:
            while rest and _has_room(rest[0], len(pending), pending_bytes, depth=depth, max_bytes=max_bytes):
                span = rest.popleft()
                pending.append((span, pool.submit(store.get_range, path, span)))
                pending_bytes += len(span)
            span, answer = pending.popleft()
            pending_bytes -= len(span)
            data = answer.result()
            del answer  # it holds the bytes
            yield data
    finally:
        for _, answer in pending:
            answer.cancel()


def run_together(tasks: Sequence[Callable[[], T]], *, is_remote: bool) -> list[T]:
    """Return what each task returns, in their order; tasks that wait for a network run at the same time.

    Raises
    ------
    What a task raises; of several, what the first of them raises.
    """
    if len(tasks) < 2 or not is_remote:
        return [task() for task in tasks]
    answers = [_pool().submit(task) for task in tasks]
    try:
        return [answer.result() for answer in answers]
    finally:
        for answer in answers:
            answer.cancel()


def _has_room(span: ByteRange, pending: int, pending_bytes: int, *, depth: int, max_bytes: int) -> bool:
    # One more than `depth`, since the first of them is the one that is waited for next.
    return pending == 0 or (pending <= depth and pending_bytes + len(span) <= max_bytes)


def _pool() -> ThreadPoolExecutor:
    pid = os.getpid()
    if pid not in _POOLS:
        _POOLS.setdefault(pid, ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="slatespark-read-ahead"))
    return _POOLS[pid]
