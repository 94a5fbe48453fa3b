"""Caches of decoded parts of files that never change: the least recently used are dropped first."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, TypeVar

from slatespark.fork_lock import fork_lock
from slatespark.options.values import parse_size
from slatespark.storage.object_store import ObjectStore

VARIABLE: Final = "SLATESPARK_METADATA_CACHE"
METADATA_BYTES: Final = 64 << 20  # default

T = TypeVar("T")


@cache
def metadata_limit() -> int:
    """Return how many bytes of indexes and filters a process holds: SLATESPARK_METADATA_CACHE, a size such as 512m."""
    return parse_size(os.environ.get(VARIABLE) or METADATA_BYTES, VARIABLE)


class CacheBudget:
    """The bound of some caches together, and what they hold, the most recently used last.

    Parameters
    ----------
    limit_bytes : returns the largest size of all entries together; one entry is always held
    """

    def __init__(self, limit_bytes: Callable[[], int]) -> None:
        self.limit_bytes = limit_bytes
        self.entries: OrderedDict[tuple[SectionCache[Any], str, str], Any] = OrderedDict()
        self.held_bytes = 0
        self.lock = fork_lock()


class SectionCache(Generic[T]):
    """An LRU cache of decoded sections of objects. The objects never change, so entries stay valid.

    Parameters
    ----------
    budget : bound of the entries, in bytes, or a bound that other caches share
    size : how many bytes an entry takes
    """

    def __init__(self, budget: CacheBudget | int, size: Callable[[T], int]) -> None:
        self.budget = CacheBudget(lambda: budget) if isinstance(budget, int) else budget
        self._size = size

    def get(self, store: ObjectStore, path: str, fetch: Callable[[], T]) -> T:
        """Return the cached section of an object; fetch and cache it if there is none."""
        budget, limit_bytes, key = self.budget, self.budget.limit_bytes(), (self, store.url, path)
        with budget.lock:
            if key in budget.entries:
                budget.entries.move_to_end(key)
                cached: T = budget.entries[key]
                return cached
        fetched = fetch()
        with budget.lock:
            if key not in budget.entries:
                # In this order: after a fork in between the cache only holds less than it may.
                budget.held_bytes += self._size(fetched)
                budget.entries[key] = fetched
            while budget.held_bytes > limit_bytes and len(budget.entries) > 1:
                (owner, *_), dropped = budget.entries.popitem(last=False)
                budget.held_bytes -= owner._size(dropped)
        return fetched

    def peek(self, store: ObjectStore, path: str) -> T | None:
        """Return the cached section of an object; None if there is none. Changes nothing."""
        with self.budget.lock:
            return self.budget.entries.get((self, store.url, path))

    def clear(self) -> None:
        """Drop all entries."""
        with self.budget.lock:
            for key in [key for key in self.budget.entries if key[0] is self]:
                self.budget.held_bytes -= self._size(self.budget.entries.pop(key))
