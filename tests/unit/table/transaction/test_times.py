"""Times of the rows of a transaction: of the commit, given ones, read timestamps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark import (
    ClockRegressionError,
    CommitConflictError,
    OptionError,
    SlateStore,
    TransactionConflictError,
)
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.units import MAX_MS
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal, forget_own_commits
from tests.unit.table.transaction.tables import (
    NOW_MS,
    amounts,
    new_store,
    pairs,
    shown,
    shown_for_update,
    store_numbers,
    stored,
    typed_store,
)


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


@pytest.mark.parametrize("history", [False, True])
def test_a_run_again_commits_nothing_at_its_given_time(history: bool) -> None:
    """Its time is that of its own rows by then, or before the last tick."""
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock, history=history)
    clock.advance(5000)
    versions = []
    for number in range(3):
        txn = store.begin(txnAppId="app", txnVersion=1)
        txn.write(pairs((b"a", b"%d" % number)))
        versions.append(txn.commit(timestamp=NOW_MS + 2000))
        assert txn.state == "committed"
        store.write(pairs((b"b", b"1")))
    assert versions == versions[:1] * 3
    assert stored(store, "key", "value")[0] == (b"a", b"0", "put", 2000, None)
    assert not store._stores.main.list("slatespark/leases/")
    txn = store.begin(txnAppId="app", txnVersion=2)
    txn.write(pairs((b"a", b"-")))
    with pytest.raises((OptionError, ClockRegressionError)):
        txn.commit(timestamp=NOW_MS + 2000)
    assert txn.state == "open"


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
    url = f"memory://transactions-{next(store_numbers)}"
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
    url = f"memory://transactions-{next(store_numbers)}"
    SlateStore.create(url, clock="custom")
    store = SlateStore.open(url, clock=FakeClock(NOW_MS))
    store.write(pairs((b"a", b"1")), timestamp=before)
    txn = store.begin()
    txn.write(pairs((b"b", b"1"), (b"c", b"1"), ttl=pa.array([2, None])), ttlColumn="ttl")
    txn.commit(timestamp=after)
    assert shown(store, columns=["key"], now=after + 1) == [(b"a",), (b"b",), (b"c",)]
    assert shown(store, columns=["key"], now=after + 2) == [(b"a",), (b"c",)]
    assert store.detail().clock_tick_ms == after
