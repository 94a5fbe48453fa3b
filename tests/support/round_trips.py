"""Counting requests and round trips: how long a call would take if each request took one unit of time and nothing else.

Tasks that would run on threads run at once instead, each by a clock of its own; who waits for one goes on when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from slatespark import SlateStore
from slatespark.ranges import ByteRange
from slatespark.storage import readahead
from slatespark.storage.counted_store import CountedStore, RequestTally
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.table.clock import Clock
from slatespark.table.stores import TableStores


@dataclass(slots=True)
class _Time:
    now: int = 0


class _Answer:
    """The result of a task that was begun at one time, and ends at another."""

    def __init__(self, time: _Time, task: Callable[[], Any]) -> None:
        self._time, self._error, self._value = time, None, None
        began = time.now
        try:
            self._value = task()
        except BaseException as exc:
            self._error = exc
        self._ended, time.now = time.now, began

    def result(self) -> Any:
        """Wait until the task has ended."""
        self._time.now = max(self._time.now, self._ended)
        if self._error is not None:
            raise self._error
        return self._value

    def cancel(self) -> None:
        """Do nothing: it has ended."""


class _Pool:
    def __init__(self, time: _Time) -> None:
        self._time = time

    def submit(self, task: Callable[..., Any], *args: Any) -> _Answer:
        return _Answer(self._time, lambda: task(*args))


class _DistantStore(MemoryStore):
    """Each request takes a unit of time."""

    def __init__(self, name: str, time: _Time) -> None:
        super().__init__(name)
        self._time = time

    @property
    def is_remote(self) -> bool:
        """True."""
        return True

    def get(self, path: str) -> Buffer:
        self._time.now += 1
        return super().get(path)

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        self._time.now += 1
        return [MemoryStore.get_range(self, path, span) for span in spans]

    def head(self, path: str) -> ObjectMeta:
        self._time.now += 1
        return super().head(path)

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        self._time.now += 1
        return super().list(prefix, start_after)

    def create(self, path: str, data: Buffer) -> None:
        self._time.now += 1
        super().create(path, data)

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        self._time.now += 1
        super().put(path, parts)

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        self._time.now += 1
        super().replace(path, data, expected)

    def delete(self, path: str) -> None:
        self._time.now += 1
        super().delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        self._time.now += 1
        for path in paths:
            super().delete(path)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a call took.

    Attributes
    ----------
    requests : of any kind
    round_trips : one after the other
    """

    requests: int
    round_trips: int


class DistantTable:
    """A table in a store where each request takes a while, opened by a process that knows nothing of it yet.

    Parameters
    ----------
    name : of the store in memory
    """

    def __init__(self, name: str, clock: Clock, refresh_ms: int | None = None) -> None:
        self._time, self._tally = _Time(), RequestTally()
        inner = CountedStore(_DistantStore(name, self._time), self._tally)
        self.store = SlateStore(TableStores(inner, inner), clock, {"path": inner.url}, refresh_ms)

    def spent(self, call: Callable[[SlateStore], object]) -> Spent:
        """Return what a call takes."""
        before, began = self._tally.total, self._time.now
        with _at_once(self._time):
            call(self.store)
        found = self._tally.total - before
        return Spent(found.get + found.list + found.put + found.delete, self._time.now - began)


@contextmanager
def _at_once(time: _Time) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readahead, "_pool", lambda: _Pool(time))
        yield
