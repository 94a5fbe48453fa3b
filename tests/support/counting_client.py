"""A real client that writes all the time, so that what others read of it can be judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.client_admin import collect_garbage

KEYS = [b"key%03d" % number for number in range(200)]


class CountingClient:
    """Sets every key to the same number, one batch after the other, in a thread of its own."""

    def __init__(self, folder: Path, *, collects: bool) -> None:
        self.location = Location.local(folder)
        # Compactions start by themselves, so that files come and go.
        options = ClientOptions(
            compactor=True,
            compact_by_itself=True,
            block_bytes=1024,
            settings={"compactor_options.scheduler_options.min_compaction_sources": "2"},
        )
        self.client = Client.open(self.location, options)
        self.durable = 0
        self.written = 0
        self.collects = collects
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="counting client")
        self.step()

    def step(self) -> None:
        self.written += 1
        value = b"%d " % self.written * 4
        self.client.write([Put(key, value) for key in KEYS])
        match self.written % 5:
            case 0:
                self.client.flush_memtable()
            case 1 | 3:
                self.client.flush_wal()
            case _:
                return
        self.durable = self.written
        if self.collects and self.written % 10 == 0:
            collect_garbage(self.location)

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.002):  # leave room for the reader
                self.step()
        except BaseException as error:
            self._failure = error

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(60)
            self.client.close(flush=False)
        if self._failure is not None:
            raise self._failure

    def check(self, read: Callable[[], list[tuple[bytes, bytes]]]) -> int:
        """What one read shows: each key once, and one number, no older than what was durable before."""
        durable = self.durable
        rows = read()
        written = self.written
        assert [row[0] for row in rows] == KEYS
        [value] = {row[1] for row in rows}
        number = int(value.split()[0])
        assert durable <= number <= written + 1
        return number
