"""Which commits of others conflict with a transaction: keys and ranges that it depends on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slatespark import (
    InvalidRequestError,
    TransactionConflictError,
)
from tests.unit.table.transaction.tables import amounts, shown, shown_for_update, typed_store


def test_a_lost_update_is_refused() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("a", 2, 20)))
    txn = store.begin()
    [row] = txn.getForUpdate([("a", 1)]).read_all().to_pylist()
    store.write(amounts(("a", 1, 11)))
    txn.write(amounts(("a", 2, row["amount"])))
    with pytest.raises(TransactionConflictError, match="tenant='a', id=1"):
        txn.commit()
    assert shown(store) == [("a", 1, 11), ("a", 2, 20)]
    assert txn.state == "failed"
    with pytest.raises(InvalidRequestError, match="failed"):
        txn.write(amounts(("a", 2, 0)))
    txn.rollback()


def test_read_keys_conflict_only_where_they_are_written() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("a", 2, 20)))
    reader, writer = store.begin(), store.begin()
    assert (reader.get("a", 1), writer.get("a", 1)) == ({"tenant": "a", "id": 1, "amount": 10},) * 2
    store.write(amounts(("a", 1, 11)))
    reader.write(amounts(("a", 2, 21)))
    reader.commit()
    with pytest.raises(TransactionConflictError, match="id=1"):
        writer.write(amounts(("a", 1, 12)))
    assert shown(store) == [("a", 1, 11), ("a", 2, 21)]


def test_blind_writes_conflict_with_none() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("a", 2, 20), ("b", 1, 5)))
    first, second, gone = store.begin(), store.begin(), store.begin()
    first.write(amounts(("a", 1, 1), ("a", 3, 3)))
    second.write(amounts(("a", 1, 2), ("a", 4, 4)))
    second.delete(keys=[("a", 2)])
    gone.write(amounts(("b", 1, 6)))
    store.deleteRange("tenant = 'b'")
    for txn in (first, second, gone):
        txn.commit()
    assert shown(store) == [("a", 1, 2), ("a", 3, 3), ("a", 4, 4), ("b", 1, 6)], "the later commit wins"
    assert not store.verify().has_damage


@pytest.mark.parametrize("how", ["get", "read", "filter", "for update", "after the write"])
def test_written_keys_that_were_read_conflict(how: str) -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10)))
    txn = store.begin()
    reads: dict[str, Callable[[], object]] = {
        "get": lambda: txn.get("a", 1),
        "read": lambda: txn.read(),
        "filter": lambda: txn.read(filter="tenant = 'a'", columns="amount"),
        "for update": lambda: txn.getForUpdate([("a", 1)]),
    }
    if how in reads:
        reads[how]()
    txn.write(amounts(("a", 1, 11), ("z", 1, 1)))
    if how not in reads:
        assert txn.get("a", 1) == {"tenant": "a", "id": 1, "amount": 11}
    store.write(amounts(("a", 1, 12)))
    with pytest.raises(TransactionConflictError, match="id=1"):
        txn.commit()


def test_a_key_beside_those_that_were_read_is_a_blind_write() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("b", 1, 10)))
    with store.begin() as txn:
        assert txn.get("a", 1) is not None
        assert txn.read(filter="tenant = 'c'").read_all().num_rows == 0
        store.write(amounts(("b", 1, 11)))
        txn.write(amounts(("b", 1, 12), ("a", 1, 12)))
    assert shown(store) == [("a", 1, 12), ("b", 1, 12)]


def test_write_skew_is_refused_where_the_range_was_read_for_update() -> None:
    store = typed_store()
    store.write(amounts(("on call", 1, 1), ("on call", 2, 1)))
    left, right = store.begin(), store.begin()
    for txn, number in ((left, 1), (right, 2)):
        assert len(txn.getForUpdate("tenant = 'on call'").read_all()) == 2
        txn.delete(keys=[("on call", number)])
    left.commit()
    with pytest.raises(TransactionConflictError, match="tenant='on call', id=1"):
        right.commit()
    assert shown(store) == [("on call", 2, 1)]


def test_a_key_without_a_row_can_be_locked() -> None:
    store = typed_store()
    first, second = store.begin(), store.begin()
    for txn in (first, second):
        assert txn.getForUpdate(keys=[["a", 1], ("a", 2)]).read_all().num_rows == 0
        txn.write(amounts(("a", 1, 1)))
    first.commit()
    with pytest.raises(TransactionConflictError, match="id=1"):
        second.commit()


def test_get_for_update_sees_own_writes() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("a", 2, 20)))
    txn = store.begin()
    txn.write(amounts(("a", 1, 11)))
    txn.delete(keys=[("a", 2)])
    assert shown_for_update(txn, [("a", 1), ("a", 2)]) == [("a", 1, 11)]
    assert shown_for_update(txn, where="tenant = 'a'") == [("a", 1, 11)]


def test_ranges_that_a_delete_searched_are_validated() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("b", 1, 10)))
    txn, other = store.begin(), store.begin()
    for one in (txn, other):
        assert one.delete("tenant = 'a' AND amount < 15") == 1
    store.write(amounts(("b", 1, 5)))
    other.commit()
    with pytest.raises(TransactionConflictError):
        txn.commit()
    again = store.begin()
    assert again.delete("tenant = 'a' AND amount < 15") == 0
    store.write(amounts(("a", 9, 1)))
    again.write(amounts(("c", 1, 1)))
    with pytest.raises(TransactionConflictError, match="id=9"):
        again.commit()


def test_a_transaction_without_writes_is_validated_and_publishes_nothing() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10)))
    version = store.detail().version
    with store.begin() as txn:
        shown_for_update(txn, [("a", 1)])
    assert txn.state == "committed"
    assert store.detail().version == version
    other = store.begin()
    shown_for_update(other, [("a", 1)])
    store.write(amounts(("a", 1, 11)))
    with pytest.raises(TransactionConflictError):
        other.commit()
