"""FairThreads: threads that several jobs share, each of which consists of many tasks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Batch(Generic[T]):
    """The tasks of one job.

    Attributes
    ----------
    is_urgent : goes before others
    waiting : not begun yet, with their numbers
    running : how many run
    turn : when one was last begun, counted over all jobs
    """

    is_urgent: bool
    waiting: deque[tuple[int, Callable[[], T]]]
    running: int = 0
    turn: int = 0
    results: dict[int, T] = field(default_factory=dict)
    error: BaseException | None = None


class FairThreads:
    """Runs the tasks of several jobs on a fixed number of threads, which start with the first job.

    A free thread takes a task of an urgent job first, then of the job for which the fewest run, and of several such
    jobs in turn. So a job of a thousand tasks does not keep a small one waiting for longer than a task takes.
    """

    def __init__(self, count: int) -> None:
        self._batches: list[_Batch[object]] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._turn = 0
        self._count = count
        self._threads: list[threading.Thread] = []

    def run(
        self,
        tasks: Sequence[Callable[[], T]],
        *,
        is_urgent: bool = False,
        discard: Callable[[T], object] = lambda _: None,
    ) -> Iterator[T]:
        """Yield the results in order; raises the first error after the tasks that run have ended.

        Parameters
        ----------
        discard : called with results that were not yielded by then
        """
        batch: _Batch[T] = _Batch(is_urgent, deque(enumerate(tasks)))
        with self._changed:
            self._start()
            self._batches.append(batch)  # type: ignore[arg-type]  # each batch is its own caller's
            self._changed.notify_all()
        try:
            for number in range(len(tasks)):
                yield self._await(batch, number)
        finally:
            with self._changed:
                batch.waiting.clear()
                self._changed.wait_for(lambda: not batch.running)
                self._batches.remove(batch)  # type: ignore[arg-type]
            for result in batch.results.values():
                discard(result)

    def close(self) -> None:
        """End the threads, once their tasks have ended."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        """Start the threads, at the first job. Requires: the lock."""
        while len(self._threads) < self._count:
            name = f"slatespark-merge-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _await(self, batch: _Batch[T], number: int) -> T:
        with self._changed:
            self._changed.wait_for(lambda: number in batch.results or batch.error is not None)
            if batch.error is not None:
                raise batch.error
            return batch.results.pop(number)

    def _work(self) -> None:
        while (found := self._take()) is not None:
            batch, number, task = found
            try:
                result = task()
            except BaseException as exc:
                with self._changed:
                    batch.error = batch.error or exc
                    batch.waiting.clear()
            else:
                with self._changed:
                    batch.results[number] = result
            with self._changed:
                batch.running -= 1
                self._changed.notify_all()

    def _take(self) -> tuple[_Batch[object], int, Callable[[], object]] | None:
        """Wait for a task, and return it; None when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or any(batch.waiting for batch in self._batches))
            ready = [batch for batch in self._batches if batch.waiting]
            if not ready:
                return None
            batch = min(ready, key=lambda each: (not each.is_urgent, each.running, each.turn))
            batch.running += 1
            self._turn += 1
            batch.turn = self._turn
            number, task = batch.waiting.popleft()
            return batch, number, task
