"""After a commit of ours the WAL is not looked at until a client has claimed an epoch, and nothing of it is missed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore
from slatespark.format.manifest import Manifest
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Location
from tests.support.counted_tables import CountedTable


def put(store: SlateStore, key: bytes, value: bytes, **options: Any) -> int:
    return store.write(pa.table({"key": [key], "value": [value]}), **options)


def rows(store: SlateStore) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in store.scan().read_all().to_pylist()}


def newest(store: SlateStore) -> Manifest:
    return fetch_latest_manifest(open_stores(store.url, storage={})).value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(SlateStore.create(tmp_path / "db"), b"a", b"1")
    return tmp_path / "db"


@pytest.mark.parametrize("is_writer", [True, False])
def test_rows_that_a_client_has_only_in_the_wal_are_seen_at_once(folder: Path, is_writer: bool) -> None:
    table = CountedTable(str(folder))
    if is_writer:
        put(table.store, b"a", b"2")
    for _ in range(3):
        table.store.get(b"a")
    assert table.spent(lambda store: store.get(b"a")).list == 1, "of manifests: the WAL is at rest"
    with Client.open(Location.local(folder), ClientOptions()) as client:
        for number in range(3):
            client.put(b"b", b"%d" % number)
            client.flush_wal()
            assert table.store.get(b"b") == {"key": b"b", "value": b"%d" % number}
            assert rows(table.store)[b"b"] == b"%d" % number
    assert rows(table.store)[b"b"] == b"2"


def test_a_client_that_wrote_since_is_noticed_by_a_commit(folder: Path) -> None:
    store, other = SlateStore.open(folder), SlateStore.open(folder)
    put(store, b"a", b"2")
    load = pa.table({"key": [b"c"], "value": [b"1"]})

    def batches() -> object:
        with Client.open(Location.local(folder), ClientOptions()) as client:
            client.put(b"b", b"1")
            client.flush_wal()
        yield from load.to_batches()

    with pytest.raises(CommitConflictError):
        store.write(pa.RecordBatchReader.from_batches(load.schema, batches()))
    put(store, b"c", b"2", ifClientActive="fence")
    assert rows(store) == rows(other) == {b"a": b"2", b"b": b"1", b"c": b"2"}


def test_another_database_in_the_same_place(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    store = SlateStore.create(folder)
    put(store, b"a", b"1")
    store.get(b"a")
    ours = newest(store)
    shutil.rmtree(folder)
    with Client.open(Location.local(folder), ClientOptions(compactor=True)) as client:
        client.put(b"z", b"1")
        client.flush_wal()
        theirs = newest(store)
        assert (ours.writer_epoch, ours.compactor_epoch) == (theirs.writer_epoch, theirs.compactor_epoch)
        assert rows(store) == {b"z": b"1"}


def test_checkpoints_of_others_change_nothing(folder: Path) -> None:
    table = CountedTable(str(folder))
    put(table.store, b"a", b"2")
    SlateStore.open(folder).createCheckpoint("x")
    assert rows(table.store) == {b"a": b"2"}
    assert table.spent(lambda store: store.get(b"a")).list == 1
    put(table.store, b"b", b"1")
    assert rows(SlateStore.open(folder)) == {b"a": b"2", b"b": b"1"}
