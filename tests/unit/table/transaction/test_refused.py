"""Calls and options that a transaction refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    TransactionConflictError,
)
from tests.unit.table.transaction.tables import NOW_MS, amounts, new_store, pairs, shown, typed_store


def test_an_ended_transaction_accepts_no_more_calls() -> None:
    store = typed_store()
    row = amounts(("a", 1, 1))
    committed, given_up = store.begin(), store.begin()
    committed.commit()
    given_up.rollback()
    for txn, said in ((committed, "committed"), (given_up, "rolled back")):
        calls: tuple[Callable[[], object], ...] = (
            txn.read,
            partial(txn.get, "a", 1),
            partial(txn.getForUpdate, [("a", 1)]),
            partial(txn.write, row),
            partial(txn.delete, "tenant = 'a'"),
            txn.prepare,
            txn.commit,
            txn.rollback,
        )
        for call in calls:
            with pytest.raises(InvalidRequestError, match=said):
                call()


def test_a_prepared_transaction_can_be_read_committed_or_rolled_back() -> None:
    store = typed_store()
    txn = store.begin()
    txn.write(amounts(("a", 1, 1)))
    txn.prepare()
    assert (txn.state, shown(txn)) == ("prepared", [("a", 1, 1)])
    for call in (
        lambda: txn.write(amounts(("a", 2, 1))),
        lambda: txn.getForUpdate([("a", 2)]),
        lambda: txn.delete(keys=[("a", 2)]),
        lambda: txn.prepare(),
    ):
        with pytest.raises(InvalidRequestError, match="prepared"):
            call()
    txn.commit()
    assert shown(store) == [("a", 1, 1)]


def test_prepare_validates_and_the_commit_refuses_later_changes() -> None:
    store = typed_store()
    early, late = store.begin(), store.begin()
    for txn in (early, late):
        assert txn.get("a", 1) is None
        txn.write(amounts(("a", 1, 1)))
    late.prepare()
    store.write(amounts(("a", 1, 2)))
    with pytest.raises(TransactionConflictError):
        early.prepare()
    with pytest.raises(TransactionConflictError):
        late.commit()
    assert shown(store) == [("a", 1, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readTimestamp": NOW_MS + 1}, "future"),
        ({"readTimestamp": "soon"}, "readTimestamp"),
        ({"readTimestam": 1}, "readTimestam"),
        ({"ttl": 1}, "ttl"),
        ({"txnAppId": "x"}, "txnAppId"),
        ({"mergeOperator": "nothing"}, "mergeOperator"),
        ({"pin": "x"}, "pin"),
    ],
)
def test_options_of_begin_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        typed_store().begin(**options)


def test_a_read_timestamp_before_the_table_is_refused() -> None:
    store = typed_store()
    with pytest.raises(HistoryTrimmedError):
        store.begin(readTimestamp=1)
    history = typed_store(history=True)
    history.write(amounts(("a", 1, 1)))
    history.setHistoryFloor(NOW_MS - 5)
    with pytest.raises(HistoryTrimmedError, match="earliest"):
        history.begin(readTimestamp=NOW_MS - 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timestamp": NOW_MS}, "timestamp"),
        ({"timestampColumn": "id"}, "timestamp"),
        ({"mode": "overwrite"}, "mode"),
        ({"replaceWhere": "tenant = 'a'"}, "replaceWhere"),
        ({"txnAppId": "x"}, "txnAppId"),
        ({"mergeSchema": True}, "mergeSchema"),
        ({"tll": "7d"}, r"\bttl\b"),
        ({"operation": "put"}, "upsert"),
    ],
)
def test_options_of_a_write_are_checked(options: dict[str, Any], message: str) -> None:
    txn = typed_store().begin()
    with pytest.raises(OptionError, match=message):
        txn.write(amounts(("a", 1, 1)), **options)
    assert (txn.state, shown(txn)) == ("open", [])


def test_fixed_expiries_and_ttls_cannot_be_mixed_in_one_write() -> None:
    store = new_store(defaultTtl="1h")
    rows = pairs((b"a", b"1"), at=pa.array([None], pa.timestamp("ms")))
    with pytest.raises(OptionError, match="TTL"):
        store.begin().write(rows, expireAtColumn="at")


@pytest.mark.parametrize("name", ["versionAsOf", "timestampAsOf", "seqAsOf", "checkpoint", "pin"])
def test_another_read_point_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: 1}
    with pytest.raises(OptionError, match=name):
        typed_store().begin().read(**options)


@pytest.mark.parametrize("name", ["path", "walPath", "wal_path", "storage.key"])
def test_a_read_of_another_table_is_refused(name: str) -> None:
    txn = typed_store().begin()
    for read in (txn.read, partial(txn.get, "a", 1), partial(txn.getForUpdate, [("a", 1)])):
        with pytest.raises(OptionError, match=name):
            read(**{name: typed_store().url})


def test_reads_and_locks_are_checked() -> None:
    store = typed_store()
    txn = store.begin()
    with pytest.raises(OptionError, match="condition"):
        txn.getForUpdate()
    with pytest.raises(OptionError, match="condition"):
        txn.delete("tenant = 'a'", keys=[("a", 1)])
    with pytest.raises(OptionError, match="filter"):
        txn.getForUpdate("tenant = 'a'", filter="id = 1")
    for call in (txn.getForUpdate, txn.delete):
        with pytest.raises(OptionError, match=r"keys is text.*keys=\['a'\]"):
            call(keys="a")
    with pytest.raises(InvalidRequestError, match="list"):
        txn.getForUpdate(b"a")
    with pytest.raises(InvalidRequestError, match="2 columns"):
        txn.getForUpdate(["a"])
    with pytest.raises(InvalidRequestError, match="column id"):
        txn.delete(keys=[("a", "b")])
    with pytest.raises(InvalidRequestError, match="float"):
        txn.getForUpdate([("a", 1), ("a", 1.5)])
    with pytest.raises(InvalidRequestError, match="empty"):
        new_store().begin().getForUpdate([b"a", b""])
    with pytest.raises(InvalidRequestError, match="key"):
        new_store().begin().delete(keys=[b"a", None])
    with pytest.raises(OptionError, match="column"):
        txn.delete("nobody = 1")
    with pytest.raises(OptionError, match="order"):
        txn.read(order="up")
    with pytest.raises(OptionError, match="readVersions=intervals"):
        txn.read(readVersions="intervals")
    with pytest.raises(SchemaError):
        txn.write(pa.table({"tenant": ["a"], "id": [1], "amount": ["x"]}))
    with pytest.raises(SchemaError):
        txn.write(pa.table({"tenant": ["a"], "id": [1]}))
    assert txn.state == "open"
    txn.write(amounts(("a", 1, 1)))
    txn.commit()
