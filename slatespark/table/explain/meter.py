"""Meter: the requests of an operation, counted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, replace

from slatespark.storage.counted_store import RequestTally
from slatespark.storage.requests import Requests
from slatespark.table.clock import Clock
from slatespark.table.explain.explanation import ExplanationFacts
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

    def measured(
        self, explanation: ExplanationFacts, read: Callable[[], Iterable[Sized]], clock: Clock
    ) -> ExplanationFacts:
        """Return an explanation with the rows of the batches that a read yields, and all requests up to its end."""
        began_ms = clock.now_ms()
        rows = sum(map(len, read()))
        return replace(explanation, measured=self.requests, rows=rows, elapsed_ms=clock.now_ms() - began_ms)
