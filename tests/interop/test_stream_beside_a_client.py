"""Streams into a database that a live client has open and commits the batches of, and out of one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.stores import open_stores
from slatespark.table.streams.position import decode_position
from tests.support.change_streams import Consumer
from tests.support.client import Client, ClientOptions, Delete, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.fake_clock import FakeClock
from tests.support.live_client import LiveClient
from tests.support.observers import awaited
from tests.support.streams import Stream

OPTIONS = ClientOptions(
    compactor=True, settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}
)


def operand(text: bytes) -> pa.Table:
    return pa.table({"key": pa.array([b"k"], pa.binary()), "value": pa.array([text], pa.binary())})


def test_the_client_commits_each_batch_once(database: Location) -> None:
    given = {"operation": "merge", "mergeOperator": "concat", "ifClientActive": "cooperate"}
    query = Stream(LocalStore(database.folder), options=given)
    with LiveClient(database, OPTIONS) as live:
        live.write([Put(b"k", b"client"), Put(b"z", b"client")])
        live.flush_memtable()
        epochs = read_manifest(database).writer_epoch, read_manifest(database).compactor_epoch
        query.write(0, operand(b"a"))
        query.write(1, operand(b"b"))
        query.write(1, operand(b"b"))
        query.write(2, operand(b"c")[:0])
        query.write(3, operand(b"d"))
        expected = {b"k": b"clientabd", b"z": b"client"}
        assert awaited(lambda: {row.key: row.value for row in live.scan()}, expected) == expected
        assert live.is_open()
        assert (read_manifest(database).writer_epoch, read_manifest(database).compactor_epoch) == epochs


def test_what_the_client_flushed_to_its_trees_is_shown_one_poll_later(database: Location) -> None:
    with LiveClient(database, OPTIONS) as live:
        live.write([Put(b"a", b"1"), Put(b"b", b"1")])
        live.flush_memtable()
        consumer = Consumer(SlateStore.open(str(database.folder)), FakeClock(), ["key"])
        assert consumer.step()
        for number in range(3):
            live.write([Delete(b"a"), Put(b"b", b"new %d" % number)])
            live.flush_memtable()
            assert consumer.step(), "a pollInterval after the last look"
            assert {row["key"]: row["value"] for row in consumer.state.values()} == {b"b": b"new %d" % number}
            consumer.restart()
        assert live.is_open()


@pytest.mark.parametrize("kind", ["net", "log"])
def test_an_older_copy_that_a_client_has_gone_on_with(database: Location, tmp_path: Path, kind: str) -> None:
    """A version of a client has no nonce. Each time it is opened and flushes, it makes as many versions as before."""
    copy = tmp_path / "copy"

    def flush(*values: bytes) -> None:
        for value in values:
            with Client.open(database) as client:
                client.put(value, value)
                client.flush_memtable()

    flush(b"a")
    consumer = Consumer(SlateStore.open(str(database.folder)), FakeClock(), ["key"], changes=kind)
    consumer.catch_up()
    shutil.copytree(database.folder, copy)
    flush(b"b")
    consumer.catch_up()
    mark = decode_position(json.loads(consumer.offsets[-1])).mark
    assert mark is not None
    stores = open_stores(str(database.folder), storage={})
    assert fetch_manifest(stores, mark.version).nonce == 0
    consumer.restart()
    assert not consumer.step()

    shutil.rmtree(database.folder)
    shutil.copytree(copy, database.folder)
    flush(b"c", b"d")
    assert fetch_manifest(stores, mark.version).nonce == 0
    consumer.restart()
    with pytest.raises(InvalidRequestError):
        consumer.step()
