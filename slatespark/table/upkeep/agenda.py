"""Agenda: things that become due, earliest first."""

from __future__ import annotations

import heapq
import itertools
import threading
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(order=True, slots=True)
class _Entry(Generic[T]):
    """An item with its instant; `number` breaks ties by age."""

    at_ms: int
    number: int
    item: T = field(compare=False)


class Agenda(Generic[T]):
    """A heap of items with an instant each. Threads may share it; an item is compared by identity."""

    def __init__(self) -> None:
        self._heap: list[_Entry[T]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def put(self, item: T, at_ms: int) -> None:
        """Add an item; of those with one instant the first comes first."""
        with self._lock:
            heapq.heappush(self._heap, _Entry(at_ms, next(self._numbers), item))

    def pop_due(self, now_ms: int) -> T | None:
        """Remove and return the first item that is due; None if none is."""
        with self._lock:
            return heapq.heappop(self._heap).item if self._heap and self._heap[0].at_ms <= now_ms else None

    def shift(self, by_ms: int) -> None:
        """Move the instants of all items by so much."""
        with self._lock:
            for entry in self._heap:  # their order stays
                entry.at_ms += by_ms

    def remove(self, item: T) -> None:
        """Remove an item, if it is there."""
        with self._lock:
            self._heap = [entry for entry in self._heap if entry.item is not item]
            heapq.heapify(self._heap)

    def next_ms(self) -> int | None:
        """Return when the first item is due; None without any."""
        with self._lock:
            return self._heap[0].at_ms if self._heap else None

    def entries(self) -> list[tuple[T, int]]:
        """Return the items with their instants, earliest first."""
        with self._lock:
            return [(entry.item, entry.at_ms) for entry in sorted(self._heap)]
