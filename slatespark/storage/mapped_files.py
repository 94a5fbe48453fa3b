"""A small cache of memory-mapped local files."""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict

from slatespark.fork_lock import fork_lock


class MappedFiles:
    """Read-only maps of the most recently used files.

    Maps are keyed by device and inode, so a replaced file never returns old bytes. While a map exists, its inode cannot
    be reused. Maps are not closed explicitly: the last view in use frees an evicted map.
    """

    def __init__(self, capacity: int = 16) -> None:
        # Each map holds a file descriptor; the limit may be as low as 1024 per process.
        self._capacity = capacity
        self._maps: OrderedDict[tuple[int, int], mmap.mmap] = OrderedDict()
        self._lock = fork_lock()

    def view(self, descriptor: int, status: os.stat_result) -> memoryview:
        """Return a view of an open file, which must not be empty; `status` is its `fstat`."""
        identity = (status.st_dev, status.st_ino)
        with self._lock:
            mapped = self._maps.get(identity)
            if mapped is None or len(mapped) != status.st_size:
                mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
                self._maps[identity] = mapped
            self._maps.move_to_end(identity)
            while len(self._maps) > self._capacity:
                self._maps.popitem(last=False)
        return memoryview(mapped)
