"""Streams into a database that a live client has open and commits the batches of, and out of one."""

from __future__ import annotations

import pyarrow as pa

from slatespark import SlateStore
from slatespark.storage.local_store import LocalStore
from tests.support.change_streams import Consumer
from tests.support.client import ClientOptions, Delete, Location, Put
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
