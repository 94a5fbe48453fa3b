"""Dumps of the objects of a database that the real client writes to meanwhile: sound, and with all that it wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from slatespark import InvalidRequestError, SlateStore
from tests.support.client import Client, ClientOptions, Location, Put

DUMPS = 5


@pytest.fixture
def written(tmp_path: Path) -> Iterator[list[bytes]]:
    """Keys that are durable in the WAL of a client that goes on writing, flushing and compacting."""
    keys: list[bytes] = []
    options = ClientOptions(compactor=True, compact_by_itself=True)
    with Client.open(Location.local(tmp_path / "db"), options) as client:
        stopped = Event()

        def write() -> None:
            while not stopped.is_set():
                batch = [b"k%06d" % (len(keys) + number) for number in range(10)]
                client.write([Put(key, b"v") for key in batch])
                client.flush_wal()
                keys.extend(batch)
                if len(keys) % 50 == 0:
                    client.flush_memtable()
                time.sleep(0.02)

        thread = Thread(target=write)
        thread.start()
        try:
            yield keys
        finally:
            stopped.set()
            thread.join()


def test_every_dump_beside_a_writing_client_is_sound(tmp_path: Path, written: list[bytes]) -> None:
    store, place = SlateStore.open(str(tmp_path / "db")), tmp_path / "db"
    numbers = []
    for number in range(DUMPS):
        while len(written) < 100 * (number + 1):  # so that a later version is there
            time.sleep(0.01)
        durable, seen = set(written), set()
        manifest = store.dump().content
        numbers.append(manifest["number"])
        wal = sorted(path.name for path in (place / "wal").iterdir() if path.suffix == ".sst")
        for name in (*(f"wal/{each}" for each in wal), *(sst["id"] for sst in store.dump().content["ssts"])):
            with suppress(InvalidRequestError):  # collected, or replaced by what a later manifest shows
                seen |= {row["key"] for row in store.dump(name, rows=1 << 40).content.get("rows", ())}
        assert durable <= seen
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1]
