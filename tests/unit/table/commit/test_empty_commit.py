"""Jobs with nothing to commit: what they were asked to check is checked all the same, and no version is published."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore
from slatespark.options import WriteOptions
from slatespark.storage import open_store
from slatespark.table.clock import SystemClock
from slatespark.table.commit.requirements import LastSeq
from slatespark.table.records.leases import LEASES_DIR
from slatespark.table.stores import TableStores
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load

SCHEMA = pa.schema([("id", pa.int64()), ("state", pa.string())])
BEFORE_MS = 5  # of a history table: before its first row

_names = itertools.count()


def new_store(**properties: Any) -> SlateStore:
    store = SlateStore.create(f"memory://empty-commits-{next(_names)}", SCHEMA, "id", **properties)
    store.write(row("open"))
    return store


def row(state: str) -> pa.Table:
    return pa.table({"id": [1], "state": [state]}, SCHEMA)


def manifests(store: SlateStore) -> list[str]:
    return [meta.path for meta in open_store(store.url, {}).list("manifest/")]


CALLS: dict[str, Callable[..., int]] = {
    "append": lambda store, **options: store.write(SCHEMA.empty_table(), **options),
    "update": lambda store, **options: store.update("id = 1 AND state = 'open'", {"state": "mine"}, **options),
    "delete": lambda store, **options: store.delete("state = 'open'", **options),
    "deleteRange": lambda store, **options: store.deleteRange("id > 1", **options),
    "deleteRange, too early": lambda store, **options: store.deleteRange("id = 1", BEFORE_MS, **options),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_follows_from_an_outdated_read_is_refused(name: str) -> None:
    store = new_store(history=True)
    seq = store.resolve().seq
    store.write(row("closed"))
    listed = manifests(store)
    with pytest.raises(CommitConflictError, match="sequence number"):
        CALLS[name](store, ifLastSeq=seq, txnAppId="job", txnVersion=1)
    assert CALLS[name](store, ifLastSeq=seq + 1) == store.resolve().version
    assert manifests(store) == listed
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_an_outcome_of_the_same_pair_comes_first() -> None:
    store, pair = new_store(), dict[str, Any](txnAppId="job", txnVersion=1)
    options = WriteOptions.parse({"path": store.url, "ifLastSeq": store.resolve().seq, **pair})
    load = begin_load(store._stores, SystemClock(), SCHEMA, options)
    assert load is not None
    store.write(row("closed"), **pair)
    assert commit_load(store._stores, SystemClock(), load, ()) is None


def test_a_range_without_rows_is_deleted_without_a_version() -> None:
    store = new_store()
    listed, seq = manifests(store), store.resolve().seq
    assert store.deleteRange("id > 1", ifLastSeq=seq) == store.resolve().version
    assert manifests(store) == listed
    with pytest.raises(CommitConflictError, match="sequence number"):
        store.deleteRange("id > 1", ifLastSeq=seq - 1)
    assert manifests(store) == listed


def upsert(store: SlateStore, **options: Any) -> int:
    return store.write(row("mine"), **options)


@contextlib.contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Do something after the look for an earlier run, and before `ifLastSeq` is checked."""
    check, waiting = LastSeq.check_newest, [work]

    def later(requirement: LastSeq, stores: TableStores) -> None:
        if waiting:
            waiting.pop()()
        check(requirement, stores)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LastSeq, "check_newest", later)
        yield


@pytest.mark.parametrize("name", ["append", "update", "upsert"])
def test_an_earlier_run_of_the_same_write_is_no_conflict(name: str) -> None:
    store = new_store()
    options: dict[str, Any] = {"ifLastSeq": store.resolve().seq, "txnAppId": "job", "txnVersion": 1}
    again = {**CALLS, "upsert": upsert}[name]
    with meanwhile(lambda: store.write(row("first run"), **options)):
        again(store, **options)
    assert store.get(1) == {"id": 1, "state": "first run"}
    assert open_store(store.url, {}).list(LEASES_DIR) == []
    with pytest.raises(CommitConflictError, match="sequence number"), meanwhile(lambda: store.write(row("other"))):
        again(store, **{**options, "txnVersion": 2, "ifLastSeq": store.resolve().seq})


def test_a_deletion_before_the_first_row_is_not_repeated_under_its_pair() -> None:
    store, pair = new_store(history=True), dict[str, Any](txnAppId="job", txnVersion=1)
    version = store.resolve().version
    assert store.deleteRange("id < 9", BEFORE_MS, **pair) == version
    assert store.begin(**pair).wasCommitted
    late = store.write(pa.table({"id": [2], "state": ["late"]}, SCHEMA), timestamp=BEFORE_MS - 1)
    assert store.deleteRange("id < 9", BEFORE_MS, **pair) == late
    assert store.get(2) == {"id": 2, "state": "late"}
