"""A store behind a link: every request waits for the round trip, and all of them share the link's bytes per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from slatespark import SlateStore
from slatespark.ranges import ByteRange
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.table.clock import SystemClock
from slatespark.table.stores import TableStores

BYTES_PER_S: Final = 200_000_000  # of the link, in each direction


class DistantStore(LocalStore):
    """A folder, as a remote store whose answers take a while.

    Parameters
    ----------
    root : folder
    delay_s : of a round trip
    """

    def __init__(self, root: str, delay_s: float) -> None:
        super().__init__(root, is_scratch=True)
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._free_s = 0.0  # when the link has sent all that was asked of it

    @property
    def is_remote(self) -> bool:
        """True."""
        return True

    def get(self, path: str) -> Buffer:
        """Return a whole object, after a while."""
        data = bytes(super().get(path))
        self._wait(len(data))
        return data

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of an object, after a while."""
        found: list[Buffer] = [bytes(part) for part in super().get_ranges(path, spans)]  # copies, as from a network
        self._wait(sum(map(len, found)))
        return found

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time, after a while."""
        self._wait(0)
        return super().head(path)

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects of a folder, after a while."""
        self._wait(0)
        return super().list(prefix, start_after)

    def create(self, path: str, data: Buffer) -> None:
        """Create an object, after a while."""
        self._wait(len(data))
        super().create(path, data)

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store an object, after a while."""
        self._wait(sum(map(len, parts)))
        super().put(path, parts)

    def delete(self, path: str) -> None:
        """Delete an object, after a while."""
        self._wait(0)
        super().delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete objects, after a while."""
        self._wait(0)
        for path in paths:
            super().delete(path)

    def _wait(self, size: int) -> None:
        with self._lock:
            begins_s = max(time.monotonic() + self._delay_s, self._free_s)
            ends_s = self._free_s = begins_s + size / BYTES_PER_S
        time.sleep(max(0.0, ends_s - time.monotonic()))


def open_distant(path: str, delay_ms: int) -> SlateStore:
    """Return the table in a folder as one that is far away."""
    store = DistantStore(path, delay_ms / 1000)
    return SlateStore(TableStores(store, store), SystemClock(), {"path": path})
