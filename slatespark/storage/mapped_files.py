"""A small cache of memory-mapped local files."""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from pathlib import Path
from typing import Final
from weakref import WeakSet

from slatespark.fork_lock import fork_lock

MAX_KEPT_MAPS: Final = 256  # maps; each holds a file descriptor, and the limit may be as low as 1024 per process

_living: Final[WeakSet[MappedFiles]] = WeakSet()
_living_lock: Final = fork_lock()


class MappedFiles:
    """Read-only maps of the most recently used files.

    All instances of a process share `MAX_KEPT_MAPS`: where there are many, each keeps fewer, or none.

    Maps are keyed by device and inode, so a replaced file never returns old bytes. While a map exists, its inode cannot
    be reused. Maps are not closed explicitly: the last view in use frees an evicted map. A deleted file takes up disk
    space as long as it is mapped, so its map is dropped when another file is mapped.
    """

    def __init__(self, capacity: int = 16) -> None:
        self._capacity = capacity
        self._maps: OrderedDict[tuple[int, int], tuple[mmap.mmap, Path]] = OrderedDict()
        self._lock = fork_lock()
        with _living_lock:
            _living.add(self)
            others = list(_living)
        if len(others) * capacity > MAX_KEPT_MAPS:
            for each in others:
                each._shrink()

    def view(self, path: Path, descriptor: int, status: os.stat_result) -> memoryview:
        """Return a view of a file that is open, and not empty; `status` is its `fstat`."""
        identity = _identity(status)
        with self._lock:
            mapped, _ = self._maps.get(identity, (None, path))
            if mapped is None or len(mapped) != status.st_size:
                self._drop_deleted()
                mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
                self._maps[identity] = mapped, path
            self._maps.move_to_end(identity)
            self._drop_surplus()
        return memoryview(mapped)

    def _shrink(self) -> None:
        with self._lock:
            self._drop_surplus()

    def _drop_deleted(self) -> None:
        for identity, (_, path) in list(self._maps.items()):
            try:
                is_there = _identity(path.stat()) == identity
            except OSError:
                is_there = False
            if not is_there:
                del self._maps[identity]

    def _drop_surplus(self) -> None:
        share = min(self._capacity, MAX_KEPT_MAPS // max(1, len(_living)))
        while len(self._maps) > share:
            self._maps.popitem(last=False)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
