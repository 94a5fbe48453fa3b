"""A consumer of a stream of changes that runs without Spark, but asks what Spark asks, in its order."""

from __future__ import annotations

import json
from typing import Any

from slatespark import SlateStore
from slatespark.options import ReadOptions
from slatespark.table.changes.feed import run_feed
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import project
from slatespark.table.stores import open_stores
from slatespark.table.streams.change_stream import ChangeStream
from slatespark.table.streams.position import decode_position, encode_position
from tests.support.fake_clock import FakeClock
from tests.support.feeds import Row, State, applied, changes_of

POLL_MS = 1000


class Consumer:
    """A copy of a table that follows its stream.

    Parameters
    ----------
    store, clock : of the table
    keys : names of the key columns
    options : of the stream

    Attributes
    ----------
    state : the copy, rows by key
    offsets : the end of each batch, as Spark stores it
    sizes : how many changes each batch had
    """

    def __init__(self, store: SlateStore, clock: FakeClock, keys: list[str], **options: Any) -> None:
        self._store, self._clock, self._keys, self._options = store, clock, keys, options
        self.state: State = {}
        self.offsets: list[str] = []
        self.sizes: list[int] = []
        self.last: list[tuple[str, Row]] = []
        self.restart()

    def restart(self, **options: Any) -> None:
        """Go on in another process, which knows the offsets alone."""
        self._options |= options
        path = {"path": self._store.url, "readChangeFeed": True}
        parsed = ReadOptions.parse({**path, **self._options})
        stores = open_stores(self._store.url, storage={})
        codec = resolve_definition(stores, fetch_latest_manifest(stores).value).codec()
        self.stream = ChangeStream(stores, parsed, project(parsed, codec=codec), self._clock, self._clock)

    def step(self, *, is_limited: bool = True) -> bool:
        """Run the next batch; False if nothing is new."""
        if not self.offsets:
            self.offsets.append(self._text(self.stream.initial()))
        start = decode_position(json.loads(self.offsets[-1]))
        self._clock.advance(POLL_MS)
        end = self._text(self.stream.next(start, is_limited=is_limited))
        if end == self.offsets[-1]:
            return False
        self.offsets.append(end)
        self.replay()
        return True

    def replay(self) -> None:
        """Run the last batch, maybe once more."""
        start, end = (decode_position(json.loads(text)) for text in self.offsets[-2:])
        plan = self.stream.plan(start, end)
        rows: list[Row] = []
        if plan is not None:
            rows = [row for batch in run_feed(self.stream_stores, plan) for row in batch.to_pylist()]
        self.last = changes_of(rows)
        self.sizes.append(len(self.last))
        self.state = applied(self.state, self.last, self._keys)

    def begin_again(self) -> None:
        """Go on in another process before the first batch was done: Spark has stored its end, and not its start."""
        self.restart()
        self.state = {}
        del self.offsets[2:]
        self.offsets[0] = self._text(self.stream.initial())
        self.replay()

    def catch_up(self) -> int:
        """Run batches until nothing is new, and return how many there were."""
        count = 0
        while self.step():
            count += 1
        return count

    @property
    def stream_stores(self) -> Any:
        """The stores of a task, which has seen nothing yet."""
        return open_stores(self._store.url, storage={})

    @staticmethod
    def _text(position: Any) -> str:
        return json.dumps(encode_position(position))
