"""What the real client does between a read and the commit that depends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, TransactionConflictError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.ranges import KeyRange
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.stores import TableStores
from slatespark.table.write.load_run import load_batches
from tests.conftest import ClientFactory
from tests.support.client import Client, ClientOptions, Location, Put, Ttl, read_rows
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.failing_store import FailingStore

CLIENT = ClientOptions(compactor=True)
ROWS = pa.table({"key": [b"own"], "value": [b"2"]})
DEPENDS: dict[str, dict[str, Any]] = {
    "key": {"keys": [b"b"]},
    "range": {"ranges": [KeyRange(b"b", b"c")]},
    "written": {},
}


class Job:
    """A commit of ours that depends on key b, as it was when this was made."""

    def __init__(self, database: Location, depends: str) -> None:
        self.failing = FailingStore(LocalStore(database.folder))
        self.stores = TableStores(self.failing, self.failing)
        self.url = str(database.folder)
        snapshot = resolve_snapshot(self.stores, ReadOptions.parse({"path": self.url}), SystemClock())
        self.reads = ReadSet.of(snapshot, **DEPENDS[depends])
        self.rows = ROWS if depends != "written" else pa.table({"key": [b"b", b"own"], "value": [b"2", b"2"]})

    def commit(self) -> None:
        options = WriteOptions.parse({"path": self.url, "ifClientActive": "fence"})
        batches = self.rows.to_batches()
        load_batches(self.stores, SystemClock(), self.rows.schema, batches, options, depends_on=self.reads)


def values(database: Location) -> dict[bytes, bytes]:
    return {row.key: row.value for row in read_rows(database)}


def flushed(client: Client) -> None:
    client.flush_memtable()


def compacted(client: Client) -> None:
    client.flush_memtable()
    compact_full(client)


STORED: dict[str, Callable[[Client], None]] = {"wal": Client.flush_wal, "flush": flushed, "compaction": compacted}


@pytest.fixture
def client(client_factory: ClientFactory) -> Client:
    client = client_factory(CLIENT)
    client.write([Put(key, b"0") for key in (b"a", b"b", b"c")])
    client.flush_memtable()
    client.write([Put(b"b", b"1"), Put(b"x", b"1")])
    client.flush_wal()
    return client


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("depends", DEPENDS)
def test_a_write_of_the_client_is_a_conflict(database: Location, client: Client, depends: str, stored: str) -> None:
    job = Job(database, depends)
    client.put(b"c", b"3")
    client.delete(b"b")
    STORED[stored](client)
    with pytest.raises(TransactionConflictError, match="key 62"):
        job.commit()
    client.put(b"d", b"4")  # it was refused before the claim
    client.flush_wal()
    client.close(flush=False)
    assert values(database) == {b"a": b"0", b"c": b"3", b"d": b"4", b"x": b"1"}


@pytest.mark.parametrize("depends", DEPENDS)
def test_what_was_deleted_compacted_and_collected_is_a_conflict(
    database: Location, client: Client, depends: str
) -> None:
    """Of the deletion nothing is left, nor of the versions and files that would tell of it."""
    job = Job(database, depends)
    client.delete(b"b")
    compacted(client)
    client.put(b"c", b"3")
    flushed(client)
    client.close(flush=False)
    collect_garbage(database)
    with pytest.raises(TransactionConflictError, match="committed"):
        job.commit()
    assert values(database) == {b"a": b"0", b"c": b"3", b"x": b"1"}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("depends", DEPENDS)
def test_what_the_wal_held_at_the_read_may_move(database: Location, client: Client, depends: str, stored: str) -> None:
    """The row of b, which the read saw in the WAL, is flushed, compacted, or drained by the commit of a sibling."""
    job = Job(database, depends)
    client.put(b"c", b"3")
    STORED[stored](client)
    SlateStore.open(str(database.folder)).write(pa.table({"key": [b"d"], "value": [b"4"]}), ifClientActive="fence")
    client.close(flush=False)
    job.commit()
    expected = {b"a": b"0", b"b": b"1", b"c": b"3", b"d": b"4", b"x": b"1", b"own": b"2"}
    assert values(database) == expected | ({b"b": b"2"} if depends == "written" else {})


@pytest.mark.parametrize("depends", DEPENDS)
def test_rows_that_only_the_drain_finds(database: Location, client: Client, depends: str) -> None:
    """The client writes after the last look before the claim."""
    job = Job(database, depends)

    def write() -> None:
        client.put(b"b", b"late")
        client.flush_wal()

    job.failing.run(write, "create", "manifest/*")
    with pytest.raises(TransactionConflictError, match="key 62"):
        job.commit()
    client.close(flush=False)
    assert values(database) == {b"a": b"0", b"b": b"late", b"c": b"0", b"x": b"1"}
    Job(database, depends).commit()
    assert values(database)[b"own"] == b"2"


def test_rows_of_other_keys_that_only_the_drain_finds(database: Location, client: Client) -> None:
    job = Job(database, "range")

    def write() -> None:
        client.put(b"a", b"late")
        client.flush_wal()

    job.failing.run(write, "create", "manifest/*")
    job.commit()
    client.close(flush=False)
    assert values(database) == {b"a": b"late", b"b": b"1", b"c": b"0", b"x": b"1", b"own": b"2"}


@pytest.mark.parametrize("depends", DEPENDS)
def test_a_key_that_expired_and_was_purged_is_no_change(
    database: Location, client_factory: ClientFactory, depends: str
) -> None:
    """Nobody committed anything to it: time has passed."""
    client = client_factory(CLIENT)
    written = client.put(b"b", b"0", Ttl(after_ms=1))
    client.put(b"c", b"0")
    client.flush_memtable()
    job = Job(database, depends)
    while client.put(b"c", b"0").create_ts <= written.create_ts + 1:
        pass
    compacted(client)
    client.close(flush=False)
    assert b"b" not in {row["key"] for row in SlateStore.open(job.url).scan(readVersions="all").read_all().to_pylist()}
    job.commit()
    assert values(database)[b"own"] == b"2"


def test_files_that_the_client_rewrote_are_not_read(database: Location, client: Client) -> None:
    """Of a compaction all of whose sources were there at the read, nothing can be newer."""
    client.flush_memtable()
    job = Job(database, "range")
    compacted(client)
    client.close(flush=False)
    job.commit()
    assert not any(call.operation.startswith("get") for call in job.failing.matching("*", "compacted/*"))
