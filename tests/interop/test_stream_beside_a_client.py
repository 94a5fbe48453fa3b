"""A stream into a database that a live client has open and commits the batches of."""

from __future__ import annotations

import pyarrow as pa

from slatespark.storage.local_store import LocalStore
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import read_manifest
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
