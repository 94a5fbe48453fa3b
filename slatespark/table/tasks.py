"""Tasks: one function for many items, on threads of this process or as the tasks of a Spark job.

An operation plans on the driver, hands the work on single files or key ranges to a runner, and commits on the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeAlias, TypeVar

MAX_TOGETHER: Final = 4  # threads: each takes `writeBuffer` and a file

Progress: TypeAlias = Callable[[str, int, int], None]  # takes step, bytes done, bytes in all

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class TaskRunner(Protocol):
    """Runs a function on items, each in a task of its own.

    Function, items and results may travel to other processes, so all of them can be pickled. A task may run twice.
    """

    @property
    def together(self) -> int:
        """How many tasks run at a time."""

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterable[Outcome]:
        """Return the results in the order of the items; raises the error of a task."""


class ThreadRunner:
    """Runs tasks on a few threads of this process."""

    @property
    def together(self) -> int:
        """How many tasks run at a time."""
        return min(MAX_TOGETHER, os.cpu_count() or 1)

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterator[Outcome]:
        """Yield the results in the order of the items."""
        if len(items) < 2:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(min(len(items), self.together)) as pool:
            yield from pool.map(function, items)


THREADS: Final = ThreadRunner()
