"""Transactions: the rows that their reads see, the rows and times of their commit, and refused calls."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    ClockRegressionError,
    CommitConflictError,
    ConflictError,
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    SnapshotExpiredError,
    TransactionConflictError,
)
from slatespark.format.paths import COMPACTED_DIR, manifest_path, wal_path
from slatespark.format.row import Row
from slatespark.storage import open_store
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.leases import LEASE_LIFETIME_MS, LEASES_DIR, fetch_lease
from slatespark.table.transaction.transaction import MAX_LAYERS, Transaction
from slatespark.units import MAX_MS
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal, forget_own_commits

NOW_MS = 1_700_000_000_000
SCHEMA = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("amount", pa.int64())])

_numbers = count()


def new_store(*columns: Any, clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    return SlateStore.create(
        f"memory://transactions-{next(_numbers)}", *columns, clock=clock or FakeClock(NOW_MS), **properties
    )


def typed_store(**properties: Any) -> SlateStore:
    return new_store(SCHEMA, ["tenant", "id"], **properties)


def amounts(*rows: tuple[str, int, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def pairs(*rows: tuple[bytes, bytes], **more: Any) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary()), **more})


def shown(source: SlateStore | Transaction, **options: Any) -> list[tuple[Any, ...]]:
    reader = source.scan(**options) if isinstance(source, SlateStore) else source.read(**options)
    return [tuple(row.values()) for row in reader.read_all().to_pylist()]


def stored(store: SlateStore, *columns: str) -> list[tuple[Any, ...]]:
    """All row versions, times in ms since `NOW_MS`."""
    names = [f"_{name}" for name in ("key", "seq", "op", "create_ts", "expire_ts")]
    rows = store.scan(readVersions="all", includeExpired=True, columns=[*columns, *names]).read_all().to_pylist()
    for row in rows:
        for name in ("_create_ts", "_expire_ts"):
            row[name] = None if row[name] is None else round(row[name].timestamp() * 1000) - NOW_MS
    return [tuple(row[name] for name in (*columns, "_op", "_create_ts", "_expire_ts")) for row in rows]


def files_of(store: SlateStore) -> set[str]:
    return {meta.path for meta in open_store(store.url, {}).list(COMPACTED_DIR)}


# --- reads ----------------------------------------------------------------------------------------------------------


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


# --- locks ----------------------------------------------------------------------------------------------------------


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


def shown_for_update(txn: Transaction, *given: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in txn.getForUpdate(*given, **options).read_all().to_pylist()]


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


# --- times ----------------------------------------------------------------------------------------------------------


def test_rows_get_the_time_of_the_commit_and_ttls_count_from_it() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock, defaultTtl="1h")
    txn = store.begin()
    txn.write(pairs((b"a", b"1")))
    clock.advance(1000)
    txn.write(pairs((b"b", b"1"), (b"c", b"1"), ttl=pa.array([500, None])), ttlColumn="ttl", ttl="none")
    clock.advance(1000)
    txn.write(pairs((b"d", b"1")), ttl=700, ttlFrom="write")
    txn.write(
        pairs((b"e", b"1"), (b"f", b"1"), at=pa.array([NOW_MS + 9000, None], pa.timestamp("ms"))),
        expireAtColumn="at",
        ttl="none",
    )
    txn.delete(keys=[b"g"])
    clock.advance(1000)
    txn.commit()
    assert stored(store, "key") == [
        (b"a", "put", 3000, 3_603_000),
        (b"b", "put", 3000, 3500),
        (b"c", "put", 3000, None),
        (b"d", "put", 3000, 2700),
        (b"e", "put", 3000, 9000),
        (b"f", "put", 3000, None),
        (b"g", "delete", 3000, None),
    ]


@pytest.mark.parametrize("kinds", [(None, None), (None, "write"), ("write", None), ("write", "write")])
def test_a_row_that_a_later_write_hides_changes_no_expiry(kinds: tuple[str | None, str | None]) -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock)
    txn = store.begin()
    txn.write(pairs((b"a", b"1"), (b"b", b"1")), ttl=9000, ttlFrom=kinds[0])
    clock.advance(1000)
    txn.write(pairs((b"b", b"2"), (b"c", b"2")), ttl=9000, ttlFrom=kinds[1])
    clock.advance(1000)
    txn.commit()
    first, second = (9000 if kinds[0] else 11_000), (10_000 if kinds[1] else 11_000)
    newest = {(key, value): expires for key, value, _, _, expires in reversed(stored(store, "key", "value"))}
    newest.pop((b"b", b"1"), None)  # rows of both kinds are not put into one file
    assert newest == {(b"a", b"1"): first, (b"b", b"2"): second, (b"c", b"2"): second}


@pytest.mark.parametrize("ttl_from", [None, "write"])
def test_rows_are_not_earlier_than_those_of_a_faster_clock(ttl_from: str | None) -> None:
    store = new_store(clock=FakeClock(NOW_MS))
    txn = store.begin()
    txn.write(pairs((b"a", b"1")), ttl=100, ttlFrom=ttl_from)
    SlateStore.open(store.url, clock=FakeClock(NOW_MS + 5000)).write(pairs((b"b", b"1")))
    txn.commit()
    expires = 100 if ttl_from else 5100
    assert stored(store, "key") == [(b"a", "put", 5000, expires), (b"b", "put", 5000, None)]


@pytest.mark.parametrize("ttl_from", [None, "write"])
def test_rows_are_not_earlier_than_those_in_the_wal(ttl_from: str | None) -> None:
    store = new_store(clock=FakeClock(NOW_MS))
    store.write(pairs((b"b", b"1")))
    txn = store.begin(ifClientActive="fence")
    txn.write(pairs((b"a", b"1")), ttl=100, ttlFrom=ttl_from)
    latest = fetch_latest_manifest(store._stores).value
    row = Row(b"w", latest.last_l0_seq + 1, value=b"1", create_ts_ms=NOW_MS + 5000)
    store._stores.wal.put(wal_path(latest.wal_id_last_seen + 1), [encode_wal([row])])
    forget_own_commits(store)
    txn.commit()
    assert stored(store, "key")[0] == (b"a", "put", 5000, 100 if ttl_from else 5100)


def test_a_timestamp_may_be_given_to_the_commit() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock)
    store.write(pairs((b"a", b"1")))
    clock.advance(5000)
    txn = store.begin()
    txn.write(pairs((b"b", b"1")), ttl=100)
    with pytest.raises(ClockRegressionError, match="tick"):
        txn.commit(timestamp=NOW_MS - 1)
    with pytest.raises(ClockRegressionError, match="clock"):
        txn.commit(timestamp=NOW_MS + 60_000)
    txn.commit(timestamp=NOW_MS + 2000)
    assert stored(store, "key")[1] == (b"b", "put", 2000, 2100)


def test_rows_move_above_later_commits() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock)
    txn = store.begin()
    txn.write(pairs((b"a", b"1"), (b"c", b"1")), ttl=50)
    other = SlateStore.open(store.url, clock=(ahead := FakeClock(NOW_MS + 700, seed=1)))
    other.write(pairs((b"b", b"2")))
    ahead.advance(1)
    txn.commit()
    assert stored(store, "key") == [
        (b"a", "put", 700, 750),
        (b"b", "put", 700, None),
        (b"c", "put", 700, 750),
    ]
    seqs = {row[0]: row[1] for row in shown(store, metadataColumns="seq", columns=["key", "_seq"], includeExpired=True)}
    assert seqs[b"a"] == seqs[b"c"] > seqs[b"b"]


def test_rows_beyond_the_rewrite_limit_keep_their_time_if_they_need_not_move() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock)
    txn, late, timed = (store.begin(commitRewriteLimit=1) for _ in range(3))
    for number, one in enumerate((txn, late, timed)):
        one.write(pairs((b"a%d" % number, b"1")), ttl=100)
        one.write(pairs((b"a%d" % number, b"2")), ttl=100)
    clock.advance(10)
    txn.commit()
    assert [row[1:] for row in stored(store, "value")] == [("put", 0, 100), ("put", 0, 100)]
    assert shown(store, includeExpired=True) == [(b"a0", b"2")]
    for one, options in ((late, {}), (timed, {"timestamp": NOW_MS + 5})):
        with pytest.raises(CommitConflictError, match="commitRewriteLimit"):
            one.commit(**options)
        one.rollback()
    assert shown(store, includeExpired=True) == [(b"a0", b"2")]


def test_read_timestamps_of_a_history_table() -> None:
    store = typed_store(history=True)
    for at in (1000, 2000, 3000):
        store.write(amounts(("a", 1, at), ("b", 1, at)), timestamp=NOW_MS - 10_000 + at)
    txn = store.begin(readTimestamp=NOW_MS - 8000)
    assert txn.readTimestamp == NOW_MS - 8000
    assert shown(txn) == [("a", 1, 2000), ("b", 1, 2000)]
    txn.write(amounts(("c", 1, 5)), ttl=10)
    txn.delete(keys=[("c", 2)])
    assert shown(txn) == [("a", 1, 2000), ("b", 1, 2000), ("c", 1, 5)]
    assert txn.get("c", 1) == {"tenant": "c", "id": 1, "amount": 5}
    for timestamp in (NOW_MS - 8000, NOW_MS - 9000):
        with pytest.raises(OptionError, match="read"):
            txn.commit(timestamp=timestamp)
    txn.commit(timestamp=NOW_MS - 7999)
    assert shown(store, timestampAsOf=NOW_MS - 8000, filter="tenant = 'c'") == []
    assert shown(store, timestampAsOf=NOW_MS - 7999, filter="tenant = 'c'") == [("c", 1, 5)]
    assert shown(store, timestampAsOf=NOW_MS - 7989, filter="tenant = 'c'") == []


def test_later_versions_than_the_read_timestamp_conflict() -> None:
    store = typed_store(history=True)
    store.write(amounts(("a", 1, 1), ("b", 1, 1)), timestamp=NOW_MS - 9000)
    store.write(amounts(("b", 1, 2)), timestamp=NOW_MS - 5000)
    txn = store.begin(readTimestamp=NOW_MS - 6000)
    txn.write(amounts(("b", 1, 3)))
    with pytest.raises(TransactionConflictError, match="tenant='b'"):
        txn.commit()
    fine = store.begin(readTimestamp=NOW_MS - 6000)
    shown_for_update(fine, [("a", 1)])
    fine.write(amounts(("a", 1, 3)))
    fine.commit(timestamp=NOW_MS - 5500)
    assert shown(store, timestampAsOf=NOW_MS - 5500) == [("a", 1, 3), ("b", 1, 1)]


@pytest.mark.parametrize("floor", [NOW_MS - 6000, NOW_MS - 5999, NOW_MS - 4000])
@pytest.mark.parametrize("locks", [True, False])
def test_a_deletion_that_was_compacted_away_is_not_overlooked(locks: bool, floor: int) -> None:
    store = typed_store(history=True)
    store.write(amounts(("a", 1, 1), ("b", 1, 1)), timestamp=NOW_MS - 9000)
    store.delete("tenant = 'a'", timestamp=NOW_MS - 5000)
    txn = store.begin(readTimestamp=NOW_MS - 6000)
    if locks:
        shown_for_update(txn, [("a", 1)])
    txn.write(amounts(("b" if locks else "a", 1, 2)))
    store.setHistoryFloor(floor)
    store.compact(full=True)
    with pytest.raises(TransactionConflictError) as caught:
        txn.commit(timestamp=NOW_MS - 3000)
    told = "tenant='a', id=1" if floor == NOW_MS - 6000 else "known"
    assert told in str(caught.value)
    assert shown(store) == [("b", 1, 1)]


def test_a_commit_of_a_history_table_is_not_below_what_was_read() -> None:
    store = typed_store(history=True)
    store.write(amounts(("a", 1, 1)), timestamp=NOW_MS - 1000)
    txn = store.begin()
    txn.write(amounts(("b", 1, 1)))
    for timestamp in (NOW_MS - 1001, NOW_MS - 1000):
        with pytest.raises(OptionError, match="read"):
            txn.commit(timestamp=timestamp)
    txn.commit(timestamp=NOW_MS - 999)


def test_commits_of_a_history_table_in_one_ms_come_after_what_they_read() -> None:
    store = typed_store(history=True)
    for amount in range(3):  # the clock stands still
        with store.begin() as txn:
            rows = shown_for_update(txn, [("a", 1)])
            assert rows == ([("a", 1, amount - 1)] if amount else [])
            txn.write(amounts(("a", 1, amount)))
    assert [row[:2] for row in stored(store)] == [("put", 2), ("put", 1), ("put", 0)]
    assert shown(store, timestampAsOf=NOW_MS + 1) == [("a", 1, 1)]
    empty = typed_store(history=True).begin()
    empty.write(amounts(("a", 1, 1)))
    empty.commit(timestamp=-5)


def test_a_read_timestamp_of_a_plain_table_is_a_version() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock)
    store.write(pairs((b"a", b"1")))
    clock.advance(1000)
    store.write(pairs((b"a", b"2")))
    txn = store.begin(readTimestamp=NOW_MS + 500)
    assert shown(txn) == [(b"a", b"1")]
    txn.write(pairs((b"b", b"1")))
    assert shown(txn) == [(b"a", b"1"), (b"b", b"1")]
    late = store.begin(readTimestamp=NOW_MS + 500)
    assert late.get(b"a") is not None
    with pytest.raises(TransactionConflictError):
        late.write(pairs((b"a", b"3")))
    txn.commit()
    assert shown(store) == [(b"a", b"2"), (b"b", b"1")]


def test_a_table_with_its_own_clock_takes_the_timestamp_at_the_commit() -> None:
    url = f"memory://transactions-{next(_numbers)}"
    SlateStore.create(url, clock="custom")
    store = SlateStore.open(url, clock=FakeClock(NOW_MS))
    txn = store.begin()
    txn.write(pairs((b"a", b"1")), ttl=5)
    assert shown(txn) == [(b"a", b"1")]
    with pytest.raises(OptionError, match="clock"):
        txn.commit()
    txn.commit(timestamp=7)
    assert shown(store, columns=["key"], now=11) == [(b"a",)]
    assert shown(store, columns=["key"], now=12) == []
    again = store.begin()
    again.write(pairs((b"a", b"2")))
    with pytest.raises(ClockRegressionError):
        again.commit(timestamp=6)
    again.commit(timestamp=8)
    with pytest.raises(OptionError, match="ttlFrom=write"):
        store.begin().write(pairs((b"a", b"2")), ttl=5, ttlFrom="write")


@pytest.mark.parametrize(("before", "after"), [(-(10**17), MAX_MS - 3), (7, 7), (-5, 10**17)])
def test_any_number_is_a_time_of_a_table_with_its_own_clock(before: int, after: int) -> None:
    url = f"memory://transactions-{next(_numbers)}"
    SlateStore.create(url, clock="custom")
    store = SlateStore.open(url, clock=FakeClock(NOW_MS))
    store.write(pairs((b"a", b"1")), timestamp=before)
    txn = store.begin()
    txn.write(pairs((b"b", b"1"), (b"c", b"1"), ttl=pa.array([2, None])), ttlColumn="ttl")
    txn.commit(timestamp=after)
    assert shown(store, columns=["key"], now=after + 1) == [(b"a",), (b"b",), (b"c",)]
    assert shown(store, columns=["key"], now=after + 2) == [(b"a",), (b"c",)]
    assert store.detail().clock_tick_ms == after


# --- refused --------------------------------------------------------------------------------------------------------


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
    with pytest.raises(InvalidRequestError, match="values"):
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


# --- files and leases -----------------------------------------------------------------------------------------------


def test_a_rolled_back_transaction_leaves_nothing() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 1)))
    files = files_of(store)
    for prepares in (False, True):
        txn = store.begin()
        txn.write(amounts(("a", 1, 2)))
        txn.write(amounts(("a", 1, 3)))
        assert files_of(store) > files
        if prepares:
            txn.prepare()
        txn.rollback()
        assert files_of(store) == files
    txn = store.begin()
    txn.write(amounts(("a", 1, 4)))
    with pytest.raises(SchemaError), txn:
        txn.write(pa.table({"tenant": ["a"]}))
    assert (txn.state, files_of(store)) == ("rolled back", files)
    assert open_store(store.url, {}).list(LEASES_DIR) == []
    assert shown(store) == [("a", 1, 1)]


def test_a_block_whose_commit_fails_leaves_nothing() -> None:
    store = typed_store()
    txn = store.begin()
    txn.write(amounts(("a", 1, 2)))
    store.write(amounts(("a", 1, 1)))
    with pytest.raises(TransactionConflictError), txn:
        txn.get("a", 1)
    assert txn.state == "rolled back"
    assert {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()} == files_of(store)
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_a_block_that_failed_inside_leaves_nothing() -> None:
    store = new_store()
    txn = store.begin()
    txn.write(pairs((b"a", b"1")))
    assert txn.get(b"a") is not None
    own = files_of(store)
    store.write(pairs((b"a", b"2")))
    with pytest.raises(TransactionConflictError), txn:
        txn.prepare()
    assert txn.state == "rolled back"
    assert len(own) == len(files_of(store) - own) == len(files_of(store)) == 1
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_a_pair_that_another_writer_committed_leaves_nothing() -> None:
    store = new_store()
    early = store.begin(txnAppId="app", txnVersion=1)
    early.write(pairs((b"a", b"1")))
    with store.begin(txnAppId="app", txnVersion=1) as late:
        late.write(pairs((b"b", b"2")))
    kept = files_of(store)
    assert early.commit() == store.history(1)[0].version
    assert files_of(store) < kept
    assert shown(store) == [(b"b", b"2")]
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_many_small_writes_are_merged_before_the_commit() -> None:
    store = new_store(mergeOperator="concat")
    store.write(pairs((b"a", b"-"), (b"b", b"-")))
    with store.begin() as txn:
        for number in range(3 * MAX_LAYERS):
            letter = bytes([97 + number % 26])
            txn.write(pairs((b"a", letter)), operation="merge" if number % 7 else "upsert")
            txn.write(pairs((b"b", letter), (b"c", letter)))
        layers = txn.planScan().splits[0].layers
        assert sum(layer.is_above_wal for layer in layers) <= MAX_LAYERS
        seen = shown(txn)
    assert seen == shown(store) == [(b"a", b"qrstuv"), (b"b", b"v"), (b"c", b"v")]


def test_a_commit_leaves_only_the_files_it_published() -> None:
    clock = FakeClock(NOW_MS)
    store = typed_store(clock=clock)
    txn = store.begin()
    txn.write(amounts(("a", 1, 1), ("a", 2, 1)))
    clock.advance(10)
    txn.write(amounts(("a", 2, 2)))
    store.write(amounts(("b", 1, 1)))
    clock.advance(10)
    txn.commit()
    assert {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()} == files_of(store)
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_leases_and_files_of_a_long_transaction_are_kept_alive() -> None:
    clock = FakeClock(NOW_MS)
    store = typed_store(clock=clock)
    txn = store.begin()
    txn.write(amounts(("a", 1, 1)))
    first = files_of(store)
    place, lease = open_store(store.url, {}), f"{LEASES_DIR}{txn.id}.json"
    for _ in range(10):
        clock.advance(LEASE_LIFETIME_MS // 2)
        assert txn.get("a", 1) is not None
        found = fetch_lease(place, lease)
        assert found is not None
        assert (found.created_ms, found.expires_ms) == (NOW_MS, clock.now_ms() + LEASE_LIFETIME_MS)
    assert files_of(store) > first
    for path in first:
        place.delete(path)  # as a collector does, which goes by the age of ids
    txn.commit()
    assert shown(store) == [("a", 1, 1)]


def test_collected_files_are_named() -> None:
    clock = FakeClock(NOW_MS)
    store = typed_store(clock=clock)
    txn = store.begin()
    txn.write(amounts(("a", 1, 1)))
    for path in files_of(store):
        open_store(store.url, {}).delete(path)
    with pytest.raises(SnapshotExpiredError):
        txn.read().read_all()
    clock.advance(300_000)
    with pytest.raises(SnapshotExpiredError):
        txn.commit()
    txn.rollback()
    assert shown(store) == []


def test_a_collected_read_point_is_named() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 1)))
    txn = store.begin()
    assert txn.get("a", 1) is not None
    txn.write(amounts(("a", 1, 2)))
    store.write(amounts(("b", 1, 1)))
    open_store(store.url, {}).delete(manifest_path(txn.readVersion))
    with pytest.raises(TransactionConflictError):
        txn.commit()
    old = typed_store()
    old.write(amounts(("a", 1, 1)))
    txn, files = old.begin(), files_of(old)
    old.deleteRange("tenant = 'a'")
    for path in files:
        open_store(old.url, {}).delete(path)
    with pytest.raises(SnapshotExpiredError):
        txn.read().read_all()


def test_vacuum_keeps_the_files_of_an_open_transaction() -> None:
    clock = FakeClock()  # of the present, as the times of objects are
    store = typed_store(clock=clock, versionRetention="none")
    store.write(amounts(("a", 1, 1), ("b", 1, 1)))
    txn = store.begin()
    txn.write(amounts(("c", 1, 2)))
    own = files_of(store) - {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()}
    given_up = store.begin()
    given_up.write(amounts(("c", 1, 3)))
    open_store(store.url, {}).delete(f"{LEASES_DIR}{given_up.id}.json")
    for tenant in ("a", "d"):
        clock.advance(3_600_000)
        store.deleteRange(f"tenant = '{tenant}'")
    clock.advance(3_600_000)
    store.vacuum(minAge="1m", force=True)
    assert own <= files_of(store)
    txn.commit()
    assert shown(store) == [("b", 1, 1), ("c", 1, 2)]
    clock.advance(3_600_000)
    store.vacuum(minAge="1m", force=True)
    assert files_of(store) == {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()}


def test_a_pinned_read_point_has_a_checkpoint() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 1)))
    known = len(store.checkpoints())
    txn = store.begin(pin="1h")
    assert [point.version for point in store.checkpoints()[known:]] == [txn.readVersion]


@pytest.mark.parametrize("versions", [1, 3, 6])
@pytest.mark.parametrize("read", [[("a", 1)], "id < 5"])
def test_a_table_that_was_created_again_in_its_place(tmp_path: Path, versions: int, read: Any) -> None:
    """With fewer, as many, or more versions, and the same definition: what was read were rows of another table."""
    path = tmp_path / "table"

    def created(commits: int, amount: int) -> SlateStore:
        store = SlateStore.create(str(path), SCHEMA, ["tenant", "id"])
        for _ in range(commits):
            store.write(amounts(("a", 1, amount)))
        return store

    txn = created(3, 100).begin()
    txn.getForUpdate(read)
    shutil.rmtree(path)
    again = created(versions, 7)
    txn.write(amounts(("b", 2, 0)))
    with pytest.raises(ConflictError):
        txn.commit()
    assert shown(again) == [("a", 1, 7)]
