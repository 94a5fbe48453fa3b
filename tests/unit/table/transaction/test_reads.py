"""What reads of a transaction show: the table as it began, and its own writes."""

from __future__ import annotations

from tests.unit.table.transaction.tables import amounts, new_store, pairs, shown, stored, typed_store


def test_only_the_transaction_sees_its_writes() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("a", 2, 20), ("b", 1, 30)))
    txn = store.begin()
    assert txn.write(amounts(("a", 2, 21), ("a", 3, 40))) == 2
    assert txn.delete(keys=[("b", 1), ("b", 7)]) == 2
    assert shown(txn) == [("a", 1, 10), ("a", 2, 21), ("a", 3, 40)]
    assert shown(txn, order="desc") == [("a", 3, 40), ("a", 2, 21), ("a", 1, 10)]
    assert (txn.get("a", 2), txn.get("b", 1)) == ({"tenant": "a", "id": 2, "amount": 21}, None)
    assert shown(store) == [("a", 1, 10), ("a", 2, 20), ("b", 1, 30)]
    version = txn.commit()
    assert shown(store) == [("a", 1, 10), ("a", 2, 21), ("a", 3, 40)]
    assert store.history(1)[0].version == version


def test_reads_do_not_see_later_commits() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10)))
    txn = store.begin()
    store.write(amounts(("a", 1, 11), ("a", 2, 20)))
    store.deleteRange("tenant = 'a'")
    assert shown(txn) == [("a", 1, 10)]
    txn.write(amounts(("b", 3, 30)))
    assert shown(txn) == [("a", 1, 10), ("b", 3, 30)]
    assert txn.get("a", 2) is None
    txn.rollback()


def test_filters_apply_after_own_writes() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 10), ("a", 2, 20), ("b", 1, 10)))
    with store.begin() as txn:
        txn.write(amounts(("a", 1, 99), ("c", 1, 10)))
        assert shown(txn, filter="amount = 10") == [("b", 1, 10), ("c", 1, 10)]
        assert shown(txn, filter="tenant = 'a' AND amount > 50") == [("a", 1, 99)]
        assert shown(txn, filter="tenant IN ('a', 'c') AND id = 1", columns=["amount"]) == [(99,), (10,)]
        assert shown(txn, filter="tenant > 'a'", splitSize=1) == [("b", 1, 10), ("c", 1, 10)]
        assert txn.delete("amount = 10") == 2
        assert shown(txn) == [("a", 1, 99), ("a", 2, 20)]
    assert shown(store) == [("a", 1, 99), ("a", 2, 20)]


def test_later_writes_win_and_leave_one_version_per_key() -> None:
    store = new_store()
    with store.begin() as txn:
        txn.write(pairs((b"a", b"1"), (b"b", b"1"), (b"c", b"1")))
        txn.delete(keys=[b"a", b"b"])
        txn.write(pairs((b"b", b"2")))
        txn.write(pairs((b"z", b"1")))
        assert shown(txn) == [(b"b", b"2"), (b"c", b"1"), (b"z", b"1")]
    assert shown(store) == [(b"b", b"2"), (b"c", b"1"), (b"z", b"1")]
    assert [row[:2] for row in stored(store, "key")] == [
        (b"a", "delete"),
        (b"b", "put"),
        (b"c", "put"),
        (b"z", "put"),
    ]
    assert not store.verify().has_damage


def test_operands_fold_onto_rows_of_the_table_and_of_the_transaction() -> None:
    store = new_store(mergeOperator="concat")
    store.write(pairs((b"a", b"1"), (b"b", b"1"), (b"c", b"1")))
    with store.begin() as txn:
        txn.write(pairs((b"a", b"2"), (b"b", b"2"), (b"d", b"2")), operation="merge")
        txn.delete(keys=[b"b"])
        txn.write(pairs((b"a", b"3"), (b"b", b"3"), (b"e", b"3")), operation="merge")
        txn.write(pairs((b"e", b"4")))
        txn.write(pairs((b"e", b"5")), operation="merge")
        seen = [(b"a", b"123"), (b"b", b"3"), (b"c", b"1"), (b"d", b"2"), (b"e", b"45")]
        assert shown(txn) == seen
        assert txn.get(b"a") == {"key": b"a", "value": b"123"}
        assert shown(store) == [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]
    assert shown(store) == seen
    assert not store.verify().has_damage


def test_a_key_of_many_large_versions_is_read_in_windows() -> None:
    store = new_store(mergeOperator="concat")
    large = [bytes([letter]) * 100_000 for letter in b"abcdef"]
    store.write(pairs((b"k", large[0])))
    with store.begin(sstSize="64k", blockSize="64k") as txn:
        for value in large[1:]:
            txn.write(pairs((b"k", value)), operation="merge")
        whole = b"".join(large)
        assert shown(txn, readBuffer="64k") == [(b"k", whole)]
        assert shown(txn, readBuffer="64k", startKey=b"k", endKey=b"l") == [(b"k", whole)]
        assert txn.get(b"k", readBuffer="64k") == {"key": b"k", "value": whole}
    assert shown(store) == [(b"k", whole)]


def test_metadata_and_all_versions_show_own_rows_too() -> None:
    store = new_store()
    store.write(pairs((b"a", b"1")))
    txn = store.begin()
    txn.write(pairs((b"a", b"2")))
    versions = shown(txn, readVersions="all", columns=["value", "_op", "_seq"])
    assert versions == [(b"2", "put", 2), (b"1", "put", 1)]
