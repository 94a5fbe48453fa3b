"""A reader whose table changes under it, at any of its calls: one consistent state, or a snapshot that expired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slatespark import SlateStore, SnapshotExpiredError
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.effort import THOROUGH
from tests.support.failing_store import FailingStore

KEYS = [b"key%02d" % number for number in range(30)]


class Writer:
    """A client that sets all keys to one number at a time."""

    def __init__(self, folder: Path, *, wal: bool = True) -> None:
        self.location = Location.local(folder)
        self.client = Client.open(self.location, ClientOptions(compactor=True, wal=wal))
        self.number = 0

    def write(self) -> None:
        self.number += 1
        self.client.write([Put(key, b"%d" % self.number) for key in KEYS])

    def flush_wal(self) -> None:
        self.write()
        self.client.flush_wal()

    def flush_memtable(self) -> None:
        self.write()
        self.client.flush_memtable()

    def flush_and_collect(self) -> None:
        self.flush_memtable()
        self.collect()

    def compact_and_collect(self) -> None:
        self.write()
        compact_full(self.client)
        self.collect()

    def collect(self) -> None:
        collect_garbage(self.location)

    def overtake(self) -> None:
        """A write of ours, which takes everything over."""
        self.number += 1
        Job(self.location.folder, ifClientActive="fence").upload(
            table_of([(key, b"%d" % self.number) for key in KEYS])
        ).commit()
        self.collect()
        self.client.close(flush=False)
        self.client = Client.open(self.location, self.client.options)


ACTIONS: dict[str, Callable[[Writer], None]] = {
    "flush_wal": Writer.flush_wal,
    "flush_memtable": Writer.flush_memtable,
    "flush_and_collect": Writer.flush_and_collect,
    "compact_and_collect": Writer.compact_and_collect,
    "overtake": Writer.overtake,
}


def scan(store: SlateStore) -> list[tuple[bytes, bytes]]:
    rows = store.scan(splitSize=300).read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]


def get_all(store: SlateStore) -> list[tuple[bytes, bytes]]:
    row = store.get(KEYS[3])
    assert row is not None
    return [(key, row["value"]) for key in KEYS]


@pytest.mark.slow
@pytest.mark.parametrize("read", [scan, get_all])
@pytest.mark.parametrize("action", list(ACTIONS))
def test_a_change_at_any_call_of_a_read(
    action: str, read: Callable[[SlateStore], list[tuple[bytes, bytes]]], tmp_path: Path
) -> None:
    writer = Writer(tmp_path / "db")
    outcomes = {"read": 0, "expired": 0}
    try:
        writer.flush_memtable()
        nth = 0
        while True:
            nth += 1 if THOROUGH else 2
            compact_full(writer.client)  # lest reads need more calls each time
            writer.flush_memtable()
            writer.flush_wal()
            writer.flush_wal()
            before = writer.number
            store = FailingStore(LocalStore(tmp_path / "db"))
            store.run(lambda: ACTIONS[action](writer), "*", nth=nth)
            try:
                found = read(store_on(store))
            except SnapshotExpiredError:
                outcomes["expired"] += 1
                continue
            if store.count() < nth:
                break
            outcomes["read"] += 1
            # What was durable before the read began is seen; of what came during it all or nothing.
            assert found in ([(key, b"%d" % number) for key in KEYS] for number in (before, writer.number)), nth
    finally:
        writer.client.close(flush=False)
    assert outcomes["read"] > 1
    assert outcomes["expired"] == 0 or "collect" in action or action == "overtake"


def test_a_collected_version_is_expired(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "db")
    writer.flush_memtable()
    store = SlateStore.open(str(tmp_path / "db"))
    number = _newest_id(tmp_path / "db")
    writer.flush_and_collect()
    writer.client.close()
    with pytest.raises(SnapshotExpiredError, match=f"{number:020d}.manifest"):
        store.scan(versionAsOf=number).read_all()


def _newest_id(folder: Path) -> int:
    return fetch_latest_manifest(stores_of(LocalStore(folder)))[0]
