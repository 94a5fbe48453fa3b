"""The life of a table on a real server of each cloud's kind, with the real client on the same bucket."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import CommitConflictError, TransactionConflictError
from tests.interop.test_cooperative_writes import IDLE
from tests.support.client import Client, read_rows
from tests.support.effort import THOROUGH
from tests.support.live_client import LiveClient
from tests.support.observers import awaited
from tests.support.servers import Server
from tests.support.servers import azurite as azurite
from tests.support.servers import google_server as google_server
from tests.support.servers import minio as minio
from tests.support.servers import server as server
from tests.support.servers import versitygw as versitygw

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("servers")]  # each server starts once

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
WRITERS_S = 600 if THOROUGH else 1
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])  # imported once for the writers on all servers


def rows(values: dict[bytes, bytes]) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


class Database:
    """A database on a server, and what it must hold."""

    def __init__(self, server: Server) -> None:
        self.url = f"{server.create_bucket()}/some/db"
        self.location = server.location(self.url)
        self.store = SlateStore.create(self.url, **server.options)
        self.model: dict[bytes, bytes] = {}

    def write(self, values: dict[bytes, bytes]) -> None:
        self.store.write(rows(values))
        self.model |= values

    def check(self) -> None:
        """Both see the rows of the model."""
        found = self.store.scan().read_all()
        expected = sorted(self.model.items())
        assert list(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)) == expected
        assert [(row.key, row.value) for row in read_rows(self.location)] == expected


@pytest.fixture
def database(server: Server) -> Database:
    return Database(server)


def test_the_life_of_a_table(database: Database) -> None:
    store, model = database.store, database.model
    for start in range(0, 400, 100):
        database.write({b"%05d" % number: b"%d" % start for number in range(start, start + 150)})
    database.check()
    store.createCheckpoint("early")
    before, early = store.snapshot().version, dict(model)

    store.delete("key < X'3030303230'")  # 00020
    store.deleteRange("key BETWEEN X'3030313030' AND X'3030313939'")  # 00100 to 00199
    for key in [key for key in model if key < b"00020" or b"00100" <= key <= b"00199"]:
        del model[key]
    store.write(rows({b"00300": b"+"}), operation="merge", mergeOperator="concat")
    model[b"00300"] += b"+"
    store.write(
        rows({b"00401": b"new"}),
        mode="overwrite",
        replaceWhere="key BETWEEN X'3030343030' AND X'3030343939'",  # 00400 to 00499
    )
    for key in [key for key in model if b"00400" <= key <= b"00499"]:
        del model[key]
    model[b"00401"] = b"new"
    found = store.get(b"00300", mergeOperator="concat")
    assert found is not None
    assert found["value"] == model[b"00300"]
    assert store.get(b"00100") is None

    store.compact(full=True, mergeOperator="concat")
    store.vacuum("0s", force=True)
    database.check()
    kept = store.scan(checkpoint="early").read_all()
    assert dict(zip(kept["key"].to_pylist(), kept["value"].to_pylist(), strict=True)) == early

    late = dict(model)
    store.restoreToVersion(before)
    model.clear()
    model.update(early)
    database.check()
    store.deleteCheckpoint("early")
    assert late != early
    assert not store.verify(allVersions=True).findings


def test_transactions(database: Database) -> None:
    database.write({b"a": b"1", b"b": b"2"})
    with database.store.begin() as txn:
        txn.getForUpdate([b"a"]).read_all()
        txn.write(rows({b"a": b"3"}))
    database.model[b"a"] = b"3"
    late = database.store.begin()
    late.getForUpdate([b"b"]).read_all()
    database.write({b"b": b"4"})
    with pytest.raises(TransactionConflictError), late:
        late.write(rows({b"b": b"5"}))
    database.check()


def test_the_client_writes_too(database: Database) -> None:
    database.write({b"%05d" % number: b"ours" for number in range(100)})
    with Client.open(database.location) as client:
        client.put(b"00001", b"theirs")
        client.flush_memtable()
        client.put(b"00002", b"in the WAL")
        client.flush_wal()
    database.model |= {b"00001": b"theirs", b"00002": b"in the WAL"}
    database.check()
    database.write({b"00003": b"ours again"})
    database.check()


def test_loads_beside_an_open_client(database: Database) -> None:
    with LiveClient(database.location, IDLE) as live:
        live.put(b"k", b"client")
        live.flush_memtable()
        for number in range(3):
            load = rows({b"k": b"+%d" % number, b"k%d" % number: b"x"})
            database.store.write(load, operation="merge", mergeOperator="concat", ifClientActive="cooperate")
        assert awaited(lambda: live.get(b"k"), b"client+0+1+2") == b"client+0+1+2"
        live.put(b"z", b"still open")
        assert live.is_open()


def write_for_a_while(url: str, options: dict[str, str], name: bytes, seconds: float) -> dict[bytes, bytes]:
    """Write rows of one's own until the time is over; return those that were acknowledged."""
    store, end, acknowledged = SlateStore.open(url, **options), time.monotonic() + seconds, dict[bytes, bytes]()
    number = 0
    while time.monotonic() < end or number < 3:
        written = {b"%s%03d" % (name, at % 200): b"%d" % number for at in range(number, number + 20)}
        store.write(rows(written))
        acknowledged |= written
        number += 1
        if number % 50 == 0:
            with suppress(CommitConflictError):  # the other one compacts the same files
                store.compact()
            store.vacuum("1h")
    return acknowledged


@pytest.mark.slow
def test_two_writers_lose_no_row(database: Database, server: Server) -> None:
    with ProcessPoolExecutor(2, mp_context=PROCESSES) as processes:
        jobs = [
            processes.submit(write_for_a_while, database.url, server.options, name, WRITERS_S) for name in (b"a", b"b")
        ]
        for job in jobs:
            database.model |= job.result()
    database.check()
