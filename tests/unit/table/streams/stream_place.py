"""A table in memory whose changes are streamed."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from slatespark import (
    SlateStore,
)
from tests.support.change_streams import Consumer
from tests.support.fake_clock import FakeClock
from tests.support.feeds import state_of

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
NAMES = itertools.count(1)


def rows(ids: range, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


def numbers(state: Any) -> dict[Any, int]:
    return {key: row["n"] for key, row in state.items()}


class Place:
    """A table in memory that keeps no version of its own accord."""

    def __init__(self, **properties: Any) -> None:
        number = next(NAMES)
        self.clock = FakeClock(seed=number)
        url = f"memory://streams/{number}"
        given = {"versionRetention": "none", "autoCompact": False, **properties}
        self.store = SlateStore.create(url, SCHEMA, "id", clock=self.clock, **given)

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(self.store, self.clock, ["id"], **options)

    def now(self) -> Any:
        return state_of(self.store, ["id"], self.store.resolve().version)

    def vacuum(self, after_ms: int = 0) -> None:
        self.clock.advance(after_ms)
        self.store.vacuum(minAge="0s", force=True)

    def holds(self) -> list[tuple[str, int]]:
        return [
            (str(point.name), point.version)
            for point in self.store.checkpoints()
            if str(point.name).startswith("slatespark/stream/")
        ]
