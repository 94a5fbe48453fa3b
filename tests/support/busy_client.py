"""A real client that writes without pause, so that every read happens in the middle of something."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.client_admin import compact_full

KEYS = [b"key%03d" % number for number in range(40)]


@contextmanager
def busy_client(location: Location) -> Iterator[list[int]]:
    """Set all keys to the same growing number, a batch each, with flushes and compactions in between."""
    written = [0]
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            options = ClientOptions(compactor=True, flush_interval="5ms")
            with Client.open(location, options) as client:
                while not stop.is_set():
                    number = written[0] + 1
                    client.write([Put(key, b"%d" % number) for key in KEYS])
                    if number % 3 == 0:
                        client.flush_wal()
                    if number % 17 == 0:
                        client.flush_memtable()
                    if number % 50 == 0:
                        compact_full(client)
                    written[0] = number
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while written[0] < 5 and thread.is_alive():
            stop.wait(0.01)
        yield written
    finally:
        stop.set()
        thread.join(60)
    assert not failures
