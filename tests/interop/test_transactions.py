"""Transactions beside the real client: it reads what they commit, and what it writes counts as a conflict."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore, TransactionConflictError
from tests.support.client import Client, ClientOptions, Location, Merge, Put, read_rows
from tests.support.our_reads import our_rows


def table_of(*rows: tuple[bytes, bytes]) -> pa.Table:
    return pa.table({"key": pa.array([key for key, _ in rows]), "value": pa.array([value for _, value in rows])})


def seen(store: SlateStore) -> list[tuple[bytes, bytes]]:
    return [(row.key, row.value) for row in our_rows(store, includeExpired=True)]


def test_own_writes_lie_above_the_wal_and_the_client_serves_what_was_committed(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, ClientOptions()) as client:
        client.write([Put(b"a", b"1"), Put(b"b", b"1"), Put(b"c", b"1")])
        client.flush_memtable()
        client.write([Put(b"b", b"2"), Merge(b"c", b"2")])
        client.flush_wal()
        client.close(flush=False)  # two rows are in the WAL alone
    store = SlateStore.open(str(tmp_path / "db"))
    with store.begin(mergeOperator="concat") as txn:
        txn.write(table_of((b"b", b"3"), (b"c", b"3")), operation="merge")
        txn.delete(keys=[b"a"])
        txn.write(table_of((b"d", b"4")), ttl="1h")
        found = [(row["key"], row["value"]) for row in txn.read().read_all().to_pylist()]
        assert found == [(b"b", b"23"), (b"c", b"123"), (b"d", b"4")]
    with Client.open(location, ClientOptions()) as client:
        assert [(row.key, row.value) for row in client.scan()] == found
        assert client.get(b"a") is None
        assert client.get(b"c") == b"123"
        row = client.get_row(b"d")
        assert row is not None
        assert row.expire_ts is not None
        assert row.create_ts is not None
        assert row.expire_ts - row.create_ts == 3_600_000


def test_a_key_beyond_the_buffer_is_read_layer_by_layer_the_wal_between_others(tmp_path: Path) -> None:
    large = [bytes([letter]) * 100_000 for letter in b"abcd"]
    with Client.open(Location.local(tmp_path / "db"), ClientOptions()) as client:
        client.merge(b"k", large[0])
        client.flush_memtable()
        client.merge(b"k", large[1])
        client.flush_wal()
        client.close(flush=False)
    txn = SlateStore.open(str(tmp_path / "db")).begin(mergeOperator="concat", blockSize="64k")
    for value in large[2:]:
        txn.write(table_of((b"k", value)), operation="merge")
    txn.prepare()  # now both are in one file, in a block each
    row = {"key": b"k", "value": b"".join(large)}
    assert txn.get(b"k", readBuffer="64k") == row
    assert txn.read(readBuffer="64k").read_all().to_pylist() == [row]
    txn.commit()
    with Client.open(Location.local(tmp_path / "db"), ClientOptions()) as client:
        assert client.get(b"k") == row["value"]


@pytest.mark.parametrize("flushes", [False, True])
def test_what_the_client_wrote_meanwhile_conflicts(flushes: bool, tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(table_of((b"a", b"1"), (b"b", b"1")))
    locked, other, careful = (store.begin(ifClientActive=choice) for choice in ("fence", "fence", "fail"))
    locked.getForUpdate([b"a"])
    for txn in (locked, other, careful):
        txn.write(table_of((b"c", b"1")))
    with Client.open(location, ClientOptions()) as client:
        client.put(b"a", b"2")
        client.flush_memtable() if flushes else client.flush_wal()
    with pytest.raises(TransactionConflictError, match=f"key {b'a'.hex()}"):
        locked.commit()
    with pytest.raises(CommitConflictError, match="SlateDB"):
        careful.commit()
    other.commit()
    assert seen(store) == [(row.key, row.value) for row in read_rows(location)]
    assert seen(store) == [(b"a", b"2"), (b"b", b"1"), (b"c", b"1")]
