"""Tasks: one function for many items, on threads of this process or as the tasks of a Spark job.

An operation plans on the driver, hands the work on single files or key ranges to a runner, and commits on the driver.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from slatespark.options.values import parse_count
from slatespark.thread_pool import ThreadPool, has_main_thread_ended

if TYPE_CHECKING:
    from slatespark.format.sst import Spread

MAX_PARALLELISM: Final = 4  # threads: each takes `writeBuffer` and a file
BACKGROUND_NICE: Final = 10  # about a tenth of the processor time of a process that competes

_COUNT: Final = parse_count(1, 1024)
_MOST_WAITING: Final = 16  # threads of a scan of a remote store, where there are fewer processors

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def thread_count(parallelism: int | str | None) -> int:
    """Return how many threads an argument `parallelism` asks for; None is one per processor. Raises `OptionError`."""
    count: int = _COUNT(os.cpu_count() or 1 if parallelism is None else parallelism, "parallelism")
    return count


def scan_threads(parallelism: int | str | None, *, is_remote: bool) -> int:
    """Return how many threads read a scan; as `thread_count`, but by default up to twice as many on a remote store.

    Each split begins with requests that have nothing to decode meanwhile: another thread does.
    """
    count = thread_count(parallelism)
    return max(count, min(2 * count, _MOST_WAITING)) if parallelism is None and is_remote else count


@contextlib.contextmanager
def running(threads: Sequence[threading.Thread], end: Callable[[], object]) -> Iterator[None]:
    """Run threads while the context is open, and wait for them when it is left, also by an interrupt of their start.

    Parameters
    ----------
    threads : not started yet; the block must get on without them where Python, about to end, starts none
    end : call that makes them return, also one that has only just started; not called in a process that was forked
        meanwhile, which has none of these threads
    """
    pid = os.getpid()
    try:
        _start(threads)
        yield
    finally:
        if pid == os.getpid():
            try:
                end()
            finally:
                _join(threads)


def _start(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        try:
            thread.start()
        except RuntimeError:
            if not has_main_thread_ended():  # there is no room for a thread
                raise


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        # Raised for one that was not started. Where its start was interrupted it may yet run, and return.
        with contextlib.suppress(RuntimeError):
            thread.join()


class TaskRunner(Protocol):
    """Runs a function on items, each in a task of its own.

    Function, items and results may travel to other processes, so all of them can be pickled. A task may run twice.
    """

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterable[Outcome]:
        """Return the results in the order of the items; raises the error of a task."""


class ThreadRunner:
    """Runs tasks on a few threads of this process.

    Parameters
    ----------
    threads : how many; by default one per processor, up to `MAX_PARALLELISM`
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        return self._threads or min(MAX_PARALLELISM, os.cpu_count() or 1)

    def __call__(
        self, function: Callable[[Item], Outcome], items: Sequence[Item], *, end: Callable[[], object] | None = None
    ) -> Iterator[Outcome]:
        """Yield the results in the order of the items.

        Parameters
        ----------
        end : call that tells running tasks to end early; called where the caller takes no more results, as at an
            interrupt
        """
        threads = min(len(items), self.parallelism)
        if threads < 2:
            yield from map(function, items)
            return
        with ThreadPool(threads) as pool:
            try:
                yield from pool.map(function, items)
            except BaseException:
                if end is not None:
                    end()
                raise

    def ahead(self, function: Callable[[Item], Outcome], items: Iterator[Item]) -> Generator[Outcome, None, None]:
        """Yield the results in the order of the items, of which at most `parallelism` exist at a time, with results.

        The caller's thread reads the items, as it takes results. A single item takes no thread. A caller that stops
        early should close the generator, which ends the threads.
        """
        first = list(itertools.islice(items, min(2, self.parallelism)))
        if len(first) < 2:
            yield from map(function, itertools.chain(first, items))
            return
        items = itertools.chain(first, items)
        with ThreadPool(self.parallelism) as pool:
            running: deque[Future[Outcome]] = deque()
            while True:
                fresh = itertools.islice(items, self.parallelism - len(running))
                running.extend(pool.submit(function, item) for item in fresh)
                if not running:
                    return
                yield running.popleft().result()

    @contextlib.contextmanager
    def spread(self) -> Iterator[Spread]:
        """Give a function like `map`, whose tasks begin at once; a single task takes no thread."""
        if self.parallelism < 2:
            yield map
            return
        with ThreadPool(self.parallelism) as pool:
            yield lambda function, items: (pool.map if len(items) > 1 else map)(function, items)


THREADS: Final = ThreadRunner()
ONE_THREAD: Final = ThreadRunner(1)
TWO_THREADS: Final = ThreadRunner(min(2, os.cpu_count() or 1))  # one where there is one processor


def threads_beside_client(wanted: int, *, is_remote: bool) -> int:
    """Return how many threads may work at a time so that a core is left to a client on this machine; one at least.

    Parameters
    ----------
    wanted : where there is no client, or where it is on another machine
    is_remote : as for `pool_beside_client`
    """
    return wanted if is_remote else min(wanted, max(1, (os.cpu_count() or 1) - 1))


def pool_beside_client(threads: int, *, is_remote: bool) -> ThreadPool:
    """Return threads that leave the processor to a client on this machine.

    Only Linux has priorities of threads.

    Parameters
    ----------
    is_remote : whether the store is; then the client is elsewhere, and these threads have the usual priority
    """
    return ThreadPool(threads, initializer=None if is_remote else _step_back)


def _step_back() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICE)
