"""Conflicts that a transaction notices at the call that makes them certain, and what it costs to look for them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore, TransactionConflictError, UnavailableError
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.transaction.transaction import Transaction
from tests.faults.jobs import store_on, stores_of, table_of
from tests.support.client import Client, Delete, Location, Put
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.segments import FixedPrefix
from tests.support.wal_files import encode_wal, forget_own_commits

pd = pytest.importorskip("pandas")  # slatespark does without

_numbers = count()
A_TO_C = "key >= X'61' AND key < X'63'"


@pytest.fixture
def store() -> SlateStore:
    store = SlateStore.create(f"memory://dependencies-{next(_numbers)}", clock=FakeClock())
    store.write(table_of([(b"a", b"1"), (b"b", b"1"), (b"m", b"1")]))
    return store


CHANGES: dict[str, Callable[[SlateStore], object]] = {
    "upsert": lambda store: store.write(table_of([(b"a", b"2")])),
    "delete": lambda store: store.delete("key = X'61'"),
    "delete range": lambda store: store.deleteRange(startKey="61", endKey="62"),
    "overwrite": lambda store: store.write(table_of([(b"z", b"2")]), mode="overwrite"),
    "upsert and compact": lambda store: (store.write(table_of([(b"a", b"2")])), store.compact(full=True)),
}
CALLS: dict[str, Callable[[Transaction], object]] = {
    "keys": lambda txn: txn.getForUpdate([b"a", b"zz"]),
    "range": lambda txn: txn.getForUpdate(where=A_TO_C),
    "whole table": lambda txn: txn.getForUpdate(where="value = X'31'"),
    "delete": lambda txn: txn.delete(A_TO_C),
    "write": lambda txn: txn.write(table_of([(b"a", b"3")])),
    "delete keys": lambda txn: txn.delete(keys=[b"a"]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", CALLS)
def test_a_conflict_is_noticed_at_once(store: SlateStore, call: str, change: str) -> None:
    txn = store.begin()
    assert txn.read().read_all().num_rows == 3
    CHANGES[change](store)
    with pytest.raises(TransactionConflictError, match=r"61|range"):
        CALLS[call](txn)
    assert txn.state == "failed"
    txn.rollback()
    with store.begin() as again:
        CALLS[call](again)


@pytest.mark.parametrize("call", CALLS)
def test_changes_of_other_keys_are_not_conflicts(store: SlateStore, call: str) -> None:
    if call == "whole table":
        return
    with store.begin() as txn:
        txn.get(b"a")
        store.write(table_of([(b"m", b"2"), (b"c", b"2")]))
        store.deleteRange(startKey="64", endKey="7a")
        CALLS[call](txn)
        store.write(table_of([(b"n", b"2")]))
        CALLS[call](txn)
    assert txn.state == "committed"


@pytest.mark.parametrize("removes", [False, True])
def test_a_segment_that_goes(removes: bool) -> None:
    """A compaction that leaves no row of it has removed nothing that was visible; a deletion of its keys has."""
    store = SlateStore.create(f"memory://dependencies-{next(_numbers)}", autoCompact=False, **FixedPrefix(1).options)
    store.write(table_of([(b"a1", b"1"), (b"b1", b"1")]))
    if not removes:
        store.delete("key = X'6231'")
    txn = store.begin()
    assert (txn.get(b"b1") is None) != removes
    if removes:
        store.deleteRange(keyPrefix=b"b")
    else:
        store.compact(full=True)
    assert [tree.prefix for tree in fetch_latest_manifest(store._stores).value.segments] == [b"a"]
    if removes:
        with pytest.raises(TransactionConflictError):
            txn.write(table_of([(b"b1", b"2")]))
    else:
        txn.write(table_of([(b"b1", b"2")]))
        txn.commit()
        assert store.scan().read_all()["key"].to_pylist() == [b"a1", b"b1"]


def test_what_changes_after_the_call_is_found_by_the_commit(store: SlateStore) -> None:
    txn = store.begin()
    txn.getForUpdate([b"a"])
    CHANGES["upsert"](store)
    txn.getForUpdate([b"b"])
    with pytest.raises(TransactionConflictError, match="61"):
        txn.commit()


@pytest.mark.parametrize("flush", ["WAL", "memtable"])
@pytest.mark.parametrize("call", ["keys", "range", "write"])
def test_changes_of_a_client(call: str, flush: str, tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "db")
    store.write(table_of([(b"a", b"1"), (b"b", b"1")]))
    with Client.open(Location.local(tmp_path / "db")) as client:
        client.put(b"b", b"2")
        client.flush_wal()
        txn = store.begin(ifClientActive="fence")
        assert txn.get(b"a") is not None
        CALLS[call](txn)
        client.write([Delete(b"a"), Put(b"q", b"1")])
        client.flush_wal() if flush == "WAL" else client.flush_memtable()
        with pytest.raises(TransactionConflictError, match="61"):
            CALLS[call](txn)


# --- cost -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted() -> FailingStore:
    inner = MemoryStore(f"dependencies-{next(_numbers)}")
    SlateStore.create(inner.url)
    store_on(inner).write(table_of([(b"%02d" % number, b"1") for number in range(20)]))
    return FailingStore(inner)


def looks(store: FailingStore) -> int:
    return store.count("head", "manifest/*") + store.count("head", "wal/*")


def test_without_news_a_look_costs_two_requests(counted: FailingStore) -> None:
    txn = store_on(counted).begin()
    txn.read().read_all()  # what it fetches is cached
    counted.clear()
    txn.read().read_all()
    plain = counted.count()
    counted.clear()
    txn.getForUpdate(where="key >= X'00'").read_all()
    assert (counted.count(), looks(counted)) == (plain + 2, 2)


def test_a_blind_write_looks_at_nothing(counted: FailingStore) -> None:
    txn = store_on(counted).begin()
    counted.clear()
    txn.write(table_of([(b"01", b"2")]))
    assert (looks(counted), counted.count("get", "manifest/*"), counted.count("list", "manifest/*")) == (0, 0, 0)


def test_what_others_committed_is_fetched_once(counted: FailingStore) -> None:
    txn = store_on(counted).begin()
    for number in range(5):
        store_on(counted.inner).write(table_of([(b"x%d" % number, b"1")]))
    counted.clear()
    txn.getForUpdate([b"01"]).read_all()
    assert counted.count("get", "manifest/*") > 5
    counted.clear()
    txn.getForUpdate([b"02"]).read_all()
    txn.getForUpdate([b"03"]).read_all()
    assert counted.count("get", "manifest/*") == 0
    assert looks(counted) == 4
    with pytest.raises(TransactionConflictError, match="7832"):
        txn.getForUpdate([b"x2"])


@pytest.mark.parametrize("nth", [1, 2])
def test_rows_of_the_wal_that_could_not_be_read_are_looked_for_again(counted: FailingStore, nth: int) -> None:
    store = store_on(counted)
    txn = store.begin()
    latest = fetch_latest_manifest(stores_of(counted)).value
    row = Row(b"05", latest.last_l0_seq + 1, value=b"2")
    counted.inner.put(wal_path(latest.wal_id_last_seen + 1), [encode_wal([row])])
    forget_own_commits(store)
    counted.fail("get", "wal/*", nth=nth)
    with pytest.raises(UnavailableError):
        txn.getForUpdate([b"01"])
    with pytest.raises(TransactionConflictError, match="3035"):
        txn.getForUpdate([b"05"])


def test_keys_are_no_table(store: SlateStore) -> None:
    """To go through a DataFrame of pandas yields the names of its columns."""
    for keys in (pd.DataFrame({"key": [b"a"]}), pa.table({"key": [b"a"]}), {"key": b"a"}):
        with store.begin() as txn, pytest.raises(InvalidRequestError):
            txn.delete(keys=keys)
        with store.begin() as txn, pytest.raises(InvalidRequestError):
            txn.getForUpdate(keys)
