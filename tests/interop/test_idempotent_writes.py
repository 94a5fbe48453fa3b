"""Idempotent writes and the real client: what it writes, compacts and collects in between does not make a pair unknown.

Rows are merge operands, of which a second effect would show.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from slatespark import SlateStore
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import SystemClock
from slatespark.table.records.idempotent_writes import TXN_DIR
from slatespark.table.write.load_run import load_batches
from tests.conftest import ClientFactory
from tests.faults.jobs import store_on, stores_of, table_of
from tests.support.client import ClientOptions, Location, read_rows
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.failing_store import FailingStore

COMPACTING = ClientOptions(compactor=True)
PAIR = {"txnAppId": "Nightly load/ä", "txnVersion": "7"}


def values(location: Location) -> dict[bytes, bytes]:
    """Rows as the client folds them, which are also ours."""
    theirs = {row.key: row.value for row in read_rows(location)}
    ours = SlateStore.open(str(location.folder)).scan(mergeOperator="concat").read_all().to_pylist()
    assert {row["key"]: row["value"] for row in ours} == theirs
    return theirs


def add(store: ObjectStore) -> None:
    """Run the job, which creates the table where there is none."""
    rows = table_of([(b"k", b"x")])
    options = WriteOptions.parse({"path": store.url, "operation": "merge", "versionRetention": "none", **PAIR})
    load_batches(stores_of(store), SystemClock(), rows.schema, rows.to_batches(), options)


def work(client_factory: ClientFactory, location: Location) -> None:
    """What a client does with a table: it writes, compacts everything, and collects unreferenced files."""
    client = client_factory(COMPACTING)
    for number in range(3):
        client.put(b"theirs", b"%d" % number)
        client.flush_memtable()
    compact_full(client)
    client.close()
    time.sleep(0.01)
    collect_garbage(location)
    collect_garbage(location)


def forget_nothing(_: FailingStore) -> None:
    """The record was noted."""


def lose_record(store: FailingStore) -> None:
    """The job ends right after its commit: the checkpoint alone tells of it."""
    store.fail("create", f"{TXN_DIR}*", times=10**9)


@pytest.mark.parametrize("prepare", [forget_nothing, lose_record])
@pytest.mark.parametrize("creates", [False, True])
def test_a_pair_is_known_after_compaction_and_collection(
    *, creates: bool, prepare: Callable[[FailingStore], None], client_factory: ClientFactory, database: Location
) -> None:
    if not creates:
        SlateStore.create(str(database.folder), versionRetention="none")
    store = FailingStore(LocalStore(database.folder))
    prepare(store)
    add(store)
    version = SlateStore.open(str(database.folder)).resolve().version
    for _ in range(2):
        work(client_factory, database)
        add(store)
        assert values(database) == {b"k": b"x", b"theirs": b"2"}
    store.clear()
    again = store_on(store)
    again.write(table_of([(b"ours", b"y")]))
    assert [point.name for point in again.checkpoints() if point.name] == [], "only what the client gave itself"
    work(client_factory, database)
    assert version not in [commit.version for commit in again.history()], "nothing keeps the version any more"
    add(store)
    assert values(database) == {b"k": b"x", b"ours": b"y", b"theirs": b"2"}
