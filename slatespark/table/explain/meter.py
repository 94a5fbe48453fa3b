"""Meter: the requests of an operation, counted while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.storage.counted_store import RequestTally
from slatespark.storage.requests import Requests
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class Meter:
    """The stores of a table, with a count of the requests to them.

    Attributes
    ----------
    stores : stores to run an operation on
    """

    stores: TableStores
    _tally: RequestTally

    @classmethod
    def on(cls, stores: TableStores) -> Meter:
        """Return a meter that shows no requests yet."""
        tally = RequestTally()
        return cls(stores.counted(tally), tally)

    @property
    def requests(self) -> Requests:
        """The requests so far."""
        return self._tally.total
