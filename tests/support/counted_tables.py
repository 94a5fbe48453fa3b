"""A table whose requests are counted, as another process opens it."""

from __future__ import annotations

from collections.abc import Callable

from slatespark import SlateStore
from slatespark.storage.counted_store import RequestTally
from slatespark.storage.requests import Requests
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.stores import open_stores


class CountedTable:
    """A table at a URL.

    Attributes
    ----------
    store : knows nothing of the table yet
    """

    def __init__(self, url: str, clock: Clock | None = None, refresh_ms: int | None = None) -> None:
        self._tally = RequestTally()
        stores = open_stores(url, storage={}).counted(self._tally)
        self.store = SlateStore(stores, clock or SystemClock(), {"path": url}, refresh_ms)

    def spent(self, call: Callable[[SlateStore], object]) -> Requests:
        """Return the requests of a call."""
        before = self._tally.total
        call(self.store)
        return self._tally.total - before
