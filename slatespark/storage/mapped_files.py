"""Memory maps of local files, a few of them kept."""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict


class MappedFiles:
    """Read-only maps of the files used last.

    A map is known by device and inode, so a path whose file was replaced never yields the old bytes; while it is kept
    the inode cannot be given to another file. A map is never closed: dropping it here leaves it to the views that are
    still in use, and the last of them frees it.
    """

    def __init__(self, capacity: int = 16) -> None:
        # Each map holds a file descriptor, of which a process may have as few as 1024.
        self._capacity = capacity
        self._maps: OrderedDict[tuple[int, int], mmap.mmap] = OrderedDict()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def view(self, descriptor: int, status: os.stat_result) -> memoryview:
        """Return the whole of an open file; `status` is its `fstat`, and its size is not zero."""
        self._after_fork()
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

    def clear(self) -> None:
        """Forget all maps."""
        self._after_fork()
        with self._lock:
            self._maps.clear()

    def _after_fork(self) -> None:
        if self._pid != os.getpid():  # another thread of the parent may have held the lock
            self._lock = threading.Lock()
            self._maps = OrderedDict()
            self._pid = os.getpid()
