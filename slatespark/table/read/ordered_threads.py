"""Batches of several parts, made on threads, in the order of the parts; memory is bounded as a whole."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Generic, TypeVar

import pyarrow as pa

from slatespark.errors import InvalidRequestError
from slatespark.table.tasks import running
from slatespark.thread_pool import has_main_thread_ended

Part = TypeVar("Part")


def ordered_batches(
    parts: Sequence[Part],
    scan: Callable[[Part], Iterator[pa.RecordBatch]],
    *,
    threads: int,
    ahead_bytes: int,
) -> Generator[tuple[int, pa.RecordBatch], None, None]:
    """Yield the batches of all parts in order, each with the number of its part; several parts are scanned at a time.

    A consumer that stops early should close the generator, which ends the threads.

    Parameters
    ----------
    scan : part -> its batches; runs on any thread
    threads : parts that are scanned at a time; with one, the consumer's own thread does it
    ahead_bytes : size of the batches that wait for the consumer; a batch of the part that it is at may exceed them

    Raises
    ------
    The error of a part, after the batches before it.
    InvalidRequestError
        When threads make the batches, and the consumer goes on in a forked process.
    """
    if threads < 2 or len(parts) < 2 or has_main_thread_ended():
        for number, part in enumerate(parts):
            for batch in scan(part):
                yield number, batch
        return
    line = _Line(parts, scan, ahead_bytes)
    workers = [
        threading.Thread(target=line.work, name=f"slatespark-scan-{number}", daemon=True)
        for number in range(min(threads, len(parts)))
    ]
    with running(workers, line.close):
        yield from line.batches()


class _Line(Generic[Part]):
    """The parts, and the batches of each that wait for the consumer."""

    def __init__(
        self, parts: Sequence[Part], scan: Callable[[Part], Iterator[pa.RecordBatch]], ahead_bytes: int
    ) -> None:
        self._parts, self._scan, self._ahead_bytes = parts, scan, ahead_bytes
        self._changed = threading.Condition()
        self._waiting: list[deque[pa.RecordBatch]] = [deque() for _ in parts]
        self._ended = [False] * len(parts)
        self._errors: dict[int, BaseException] = {}
        self._taken = 0  # parts that a thread has begun
        self._current = 0  # the part that the consumer is at
        self._held_bytes = 0
        self._is_closed = False
        self._pid = os.getpid()

    def batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield what the threads make, in order."""
        for number in range(len(self._parts)):
            self._refuse_forked()
            with self._changed:
                self._current = number
                self._changed.notify_all()
            while (batch := self._next(number)) is not None:
                yield number, batch
            if number in self._errors:
                raise self._errors[number]

    def work(self) -> None:
        """Scan one part after the other."""
        while (number := self._take()) is not None:
            try:
                if not self._scan_part(number):
                    return
            except BaseException as exc:
                self._errors[number] = exc
            with self._changed:
                self._ended[number] = True
                self._changed.notify_all()

    def _scan_part(self, number: int) -> bool:
        """Hand over the batches of a part; False if the consumer has stopped."""
        with closing(self._scan(self._parts[number])) as batches:  # type: ignore[type-var]  # a generator
            return all(self._put(number, batch) for batch in batches)

    def close(self) -> None:
        """Let the threads end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _refuse_forked(self) -> None:
        if self._pid != os.getpid():
            raise InvalidRequestError(
                "This read was begun in another process, from which this one was forked.",
                why="The threads that read ahead are in the other one.",
                todo="Begin the read again in this process.",
            )

    def _take(self) -> int | None:
        with self._changed:
            if self._is_closed or self._errors or self._taken == len(self._parts):
                return None
            self._taken += 1
            return self._taken - 1

    def _put(self, number: int, batch: pa.RecordBatch) -> bool:
        """Hand a batch over, once there is room; False if the consumer has stopped."""
        size = batch.nbytes
        with self._changed:
            # The part that the consumer waits for always has room for one, so that nobody waits forever.
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or self._held_bytes + size <= self._ahead_bytes
                    or (number == self._current and not self._waiting[number])
                )
            )
            if self._is_closed:
                return False
            self._waiting[number].append(batch)
            self._held_bytes += size
            self._changed.notify_all()
            return True

    def _next(self, number: int) -> pa.RecordBatch | None:
        self._refuse_forked()
        waiting = self._waiting[number]
        with self._changed:
            self._changed.wait_for(lambda: waiting or self._ended[number])
            if not waiting:
                return None
            batch = waiting.popleft()
            self._held_bytes -= batch.nbytes
            self._changed.notify_all()
            return batch
