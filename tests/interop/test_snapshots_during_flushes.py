"""A snapshot of the client that is younger than what it flushes: its manifest then names a number above all rows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores, open_stores
from tests.interop.test_compaction_filters import Tidy
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import compact_full


def stores_of(database: Location) -> TableStores:
    return open_stores(str(database.folder), storage={})


@pytest.fixture
def store(database: Location) -> SlateStore:
    """As a client leaves it that was killed then.

    A client of 0.17 or 0.18 that takes snapshots while it flushes writes such a manifest sooner or later; here its next
    one is written for it.
    """
    with Client.open(database) as client:
        client.put(b"a", b"bad")
        client.put(b"b", b"good")
        client.flush_memtable()
    number, manifest = fetch_latest_manifest(stores_of(database))
    noted = replace(manifest, recent_snapshot_min_seq=manifest.last_l0_seq + 2)
    (database.folder / manifest_path(number + 1)).write_bytes(encode_manifest(noted))
    return SlateStore.open(str(database.folder))


def test_we_and_the_client_go_on(store: SlateStore, database: Location) -> None:
    assert store.verify().findings == ()
    store.createCheckpoint("kept")
    store.clone(f"{database.folder}-clone")
    store.write(pa.table({"key": [b"b", b"c"], "value": [b"ours", b"ours"]}))
    shown = {b"a": b"bad", b"b": b"ours", b"c": b"ours"}
    assert {row.key: row.value for row in read_rows(database)} == shown
    assert store.compact(full=True).rows_out == 3
    assert store.scan(checkpoint="kept").read_all()["value"].to_pylist() == [b"bad", b"good"]
    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.put(b"d", b"theirs")
        compact_full(client)
        assert {row.key: row.value for row in client.scan()} == shown | {b"d": b"theirs"}
    assert store.verify().findings == ()


def test_the_client_opens_it(store: SlateStore, database: Location) -> None:
    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.put(b"c", b"theirs")
        compact_full(client)
        assert [row.key for row in client.scan()] == [b"a", b"b", b"c"]
    assert store.scan().read_all()["key"].to_pylist() == [b"a", b"b", b"c"]


def test_filters_wait_for_the_snapshot(store: SlateStore) -> None:
    report = store.compact(full=True, force=True, filters=[Tidy()])
    assert (report.filters_waited, report.filtered) == (True, 0)
    assert store.compact(full=True, filters=[Tidy()]).filtered == 2  # the commit before has settled it
    assert store.scan().read_all()["value"].to_pylist() == [b"good!"]
