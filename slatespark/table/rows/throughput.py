"""Throughput: how fast a write may upload its files, for the option `throughputMBPerSec`.

The rate applies to a whole job. Spark does not tell a task how many others run, so each running task keeps a mark, and
the marked tasks share the rate. Rewrites during the commit are not limited: by then other writers are fenced.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from slatespark.errors import SlateError
from slatespark.options.values import AUTO_THROUGHPUT
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.leases import list_task_marks, task_mark_path

_RECORDS_SEARCHED = 100  # for the last reap: in most tables it is near


class UploadPace:
    """Lets one task upload no faster than its share of the rate: a token bucket that holds one file.

    Parameters
    ----------
    bytes_per_s : of all tasks together
    clock : to wait by
    count_tasks : how many divide the rate; asked before every file
    """

    def __init__(self, bytes_per_s: int, clock: Clock, count_tasks: Callable[[], int]) -> None:
        self._bytes_per_s, self._clock, self._count_tasks = bytes_per_s, clock, count_tasks
        self._full_from_ms = clock.now_ms()

    def wait_for(self, size: int) -> None:
        """Wait until a file of `size` bytes may go."""
        needed_ms = math.ceil(size * 1000 * max(1, self._count_tasks()) / self._bytes_per_s)
        now_ms = self._clock.now_ms()
        # A clock that was set back, or stopped, never makes the wait longer than the file needs.
        missing_ms = min(self._full_from_ms + needed_ms - now_ms, needed_ms)
        self._full_from_ms = now_ms + max(0, missing_ms)
        if missing_ms > 0:
            self._clock.sleep_ms(missing_ms)


def resolve_throughput(store: ObjectStore, given: int | None) -> int | None:
    """Return the bytes per second of a write, None for no limit.

    Parameters
    ----------
    given : the option; for `auto` the delete rate that the newest record of a reap gives, if there is one among the
        last hundred commits of ours
    """
    if given != AUTO_THROUGHPUT:
        return given
    for record in newest_commit_records(store, _RECORDS_SEARCHED):
        if isinstance(record.delete_rate, int) and record.delete_rate > 0:
            return record.delete_rate
    return None


@contextlib.contextmanager
def marked_pace(
    store: ObjectStore, clock: Clock, bytes_per_s: int | None, *, write_id: str, task: int
) -> Iterator[UploadPace | None]:
    """Keep a mark of a task while it uploads; the value is its pace, None where there is no limit."""
    if bytes_per_s is None:
        yield None
        return
    mark = task_mark_path(write_id, task)
    store.put(mark, [b""])
    try:
        yield UploadPace(bytes_per_s, clock, lambda: len(list_task_marks(store, write_id)))
    finally:
        with contextlib.suppress(SlateError):
            store.delete(mark)


def clear_marks(store: ObjectStore, write_id: str) -> None:
    """Remove the marks of tasks that were killed, after the others have ended."""
    with contextlib.suppress(SlateError):
        for mark in list_task_marks(store, write_id):
            store.delete(mark)
