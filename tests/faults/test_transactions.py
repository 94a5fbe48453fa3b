"""Transactions that stop at any call: all of one is there afterwards, or nothing, and it may be committed again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    ClockRegressionError,
    CommitConflictError,
    InvalidRequestError,
    SlateError,
    SlateStore,
    SnapshotExpiredError,
    TransactionConflictError,
    UnavailableError,
    UnsupportedFormatError,
)
from slatespark.format.compactions import CompactionStatus
from slatespark.format.paths import COMPACTED_DIR
from slatespark.options import WriteOptions
from slatespark.storage import open_store
from slatespark.table.commit.commit import commit_write
from slatespark.table.definition.versions import definition_path
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.records.idempotent_writes import TxnRecord
from slatespark.table.records.leases import LEASE_LIFETIME_MS, LEASES_DIR
from slatespark.table.transaction import transaction
from slatespark.table.transaction.transaction import Transaction
from slatespark.table.write.load_run import load_batches
from tests.faults.jobs import Pair, store_on, stores_of, table_of
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock

OLD: list[Pair] = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]
NEW: list[Pair] = [(b"a", b"2"), (b"c", b"1"), (b"d", b"4")]
PAIR: dict[str, Any] = {"txnAppId": "ledger", "txnVersion": 1}

DAY_MS = 86_400_000

_numbers = count()


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


def new_table(clock: FakeClock) -> FailingStore:
    inner = open_store(f"memory://broken-transactions-{next(_numbers)}", {})
    store = FailingStore(inner)
    SlateStore.create(inner.url, clock=clock)
    store_on(store, clock).write(table_of(OLD))
    store.clear()
    return store


def work(store: FailingStore, clock: FakeClock) -> None:
    txn = store_on(store, clock).begin()
    txn.getForUpdate([b"a"]).read_all()
    txn.write(table_of([(b"a", b"0"), (b"d", b"4")]))
    txn.delete("key = X'62'")
    clock.advance(1000)
    txn.write(table_of([(b"a", b"2")]))
    txn.prepare()
    clock.advance(1000)
    txn.commit()


def rows_of(source: SlateStore | Transaction) -> list[Pair]:
    reader = source.scan() if isinstance(source, SlateStore) else source.read()
    return [(row["key"], row["value"]) for row in reader.read_all().to_pylist()]


@pytest.mark.parametrize(
    ("moment", "error"), [("before", KilledError()), ("after", UnavailableError("The store is away."))]
)
def test_a_stop_at_any_call_leaves_all_or_nothing(moment: Moment, error: BaseException) -> None:
    outcomes = set()
    for nth in count(1):
        clock = FakeClock()
        store = new_table(clock)
        store.fail("*", nth=nth, moment=moment, error=error)
        try:
            work(store, clock)
            finished = True
        except (KilledError, UnavailableError):
            finished = False
        calls = store.count()
        store.clear()
        table = store_on(store, clock)
        found = rows_of(table)
        assert found in ([NEW] if finished else [OLD, NEW]), nth
        outcomes.add((finished, found == NEW))
        table.write(table_of([(b"z", b"9")]))
        assert rows_of(table) == [*found, (b"z", b"9")]
        if calls < nth:
            break
    assert outcomes >= {(False, False), (True, True)}
    assert not table.verify().has_damage


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_without_an_answer_may_be_repeated_under_its_pair(moment: Moment) -> None:
    clock = FakeClock()
    store = new_table(clock)
    txn = store_on(store, clock).begin(**PAIR, mergeOperator="concat")
    assert not txn.wasCommitted
    txn.write(table_of([(b"a", b"x")]), operation="merge")
    store.fail("create", "manifest/*", nth=2, moment=moment)  # the first one is the claim
    with pytest.raises(UnavailableError):
        txn.commit()
    assert txn.state == "unknown"
    with pytest.raises(InvalidRequestError, match="committed"):
        txn.write(table_of([(b"b", b"x")]))
    store.clear()
    version = txn.commit()
    table = store_on(store, clock)
    assert table.get(b"a", mergeOperator="concat") == {"key": b"a", "value": b"1x"}
    again = table.begin(**PAIR, mergeOperator="concat")
    assert again.wasCommitted
    again.write(table_of([(b"a", b"x")]), operation="merge")
    assert again.commit() == version
    assert table.get(b"a", mergeOperator="concat") == {"key": b"a", "value": b"1x"}
    assert store.inner.list(LEASES_DIR) == []


def lose_second_manifest(store: FailingStore, work: Callable[[], Any]) -> Callable[[], None]:
    """Commit, with the claim, but without an answer after that; return what lets the manifest come in late."""
    create, sent = store.create, list[tuple[str, bytes]]()

    def lose(path: str, data: bytes) -> Any:
        if path.startswith("manifest/"):
            sent.append((path, bytes(data)))
            if len(sent) > 1:
                raise UnavailableError("No answer.")
        return create(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "create", lose)
        with pytest.raises(UnavailableError):
            work()
    return partial(store.inner.create, *sent[1])


def start_unknown(clock: FakeClock, **options: Any) -> tuple[FailingStore, Transaction, Callable[[], None]]:
    store = new_table(clock)
    txn = store_on(store, clock).begin(**PAIR, **options)
    assert txn.get(b"d") is None
    txn.write(table_of([(b"a", b"2"), (b"d", b"4")]))
    txn.delete(keys=[b"b"])
    land = lose_second_manifest(store, partial(txn.commit, timestamp=clock.now_ms()))
    assert txn.state == "unknown"
    return store, txn, land


def test_a_commit_that_landed_is_found_whatever_a_repetition_would_meet() -> None:
    clock = FakeClock()
    store, txn, land = start_unknown(clock, commitRewriteLimit=1)
    time_ms, files = clock.now_ms(), {meta.path for meta in store.inner.list(COMPACTED_DIR)}
    land()
    version = store_on(store, clock).history(1)[0].version
    store_on(store, FakeClock(time_ms + 10, seed=5)).write(table_of([(b"d", b"9")]))  # a later tick, and a conflict
    clock.advance(-3_600_000)
    assert txn.commit(timestamp=time_ms) == version
    assert txn.state == "committed"
    assert rows_of(store_on(store, clock)) == [*NEW[:2], (b"d", b"9")]
    assert files <= {meta.path for meta in store.inner.list(COMPACTED_DIR)}
    assert store.inner.list(LEASES_DIR) == []


def test_a_commit_that_lands_while_it_is_repeated_keeps_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    store, txn, land = start_unknown(clock)
    find = Transaction._find_outcome

    def find_before_it_lands(txn: Transaction) -> TxnRecord | None:
        found = find(txn)
        land()
        return found

    monkeypatch.setattr(Transaction, "_find_outcome", find_before_it_lands)
    txn.commit()
    assert rows_of(store_on(store, clock)) == NEW
    assert not store_on(store, clock).verify().has_damage


@pytest.mark.parametrize(
    ("advance_ms", "refusal"),
    [(-3_600_000, ClockRegressionError), (10, CommitConflictError)],  # rows above the limit would have to move
)
def test_a_repetition_that_is_refused_leaves_the_outcome_open(advance_ms: int, refusal: type[SlateError]) -> None:
    clock = FakeClock()
    store, txn, land = start_unknown(clock, commitRewriteLimit=1)
    clock.advance(advance_ms)
    with pytest.raises(refusal):
        txn.commit(None if advance_ms < 0 else clock.now_ms())
    assert txn.state == "unknown"
    txn.rollback()
    land()
    assert rows_of(store_on(store, clock)) == NEW
    assert not store_on(store, clock).verify().has_damage


def test_a_conflict_of_a_repetition_leaves_the_outcome_open() -> None:
    """Whether it may still land is not for the one who repeats it to say: all files stay."""
    clock = FakeClock()
    store, txn, _ = start_unknown(clock)
    files = {meta.path for meta in store.inner.list(COMPACTED_DIR)}
    store_on(store, FakeClock(clock.now_ms(), seed=5)).write(table_of([(b"d", b"9")]))
    with pytest.raises(TransactionConflictError):
        txn.commit()
    assert txn.state == "unknown"
    txn.rollback()
    assert files <= {meta.path for meta in store.inner.list(COMPACTED_DIR)}


def expiries(store: SlateStore) -> dict[bytes, tuple[int, int]]:
    """When rows were created, and when they expire, by key."""
    read = store.scan(metadataColumns="create_ts,expire_ts", includeExpired=True).read_all()
    times = (read[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()) for name in ("_create_ts", "_expire_ts"))
    created, expire = (column.to_pylist() for column in times)
    return dict(zip(read["key"].to_pylist(), zip(created, expire, strict=True), strict=True))


@pytest.mark.parametrize("days_ago", [30, 0])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_repetition_bounds_lifetimes_as_a_first_attempt_does(days_ago: int, failures: int) -> None:
    """A failed attempt writes when its rows expire at the latest. That is no lifetime, to move with their time."""
    clock = FakeClock()
    store = FailingStore(open_store(f"memory://broken-transactions-{next(_numbers)}", {}))
    SlateStore.create(store.url, clock=clock, history=True, retention="7d", retentionFrom="write")
    txn = store_on(store, clock).begin(**PAIR)
    for key, options in ((b"plain", {}), (b"short", {"ttl": "3d"}), (b"long", {"ttl": "30d"})):
        txn.write(table_of([(key, b"1")]), **options)
    for _ in range(failures):
        clock.advance(3_600_000)
        lose_second_manifest(store, txn.commit)
    clock.advance(DAY_MS)
    time_ms, latest_ms = clock.now_ms() - days_ago * DAY_MS, clock.now_ms() + 7 * DAY_MS
    txn.commit(timestamp=time_ms)
    assert expiries(store_on(store, clock)) == {
        b"plain": (time_ms, latest_ms),
        b"short": (time_ms, time_ms + 3 * DAY_MS),
        b"long": (time_ms, min(time_ms + 30 * DAY_MS, latest_ms)),
    }


@pytest.mark.parametrize("prepares", [True, False])
def test_a_time_that_was_overtaken_leaves_a_transaction_as_it_was(prepares: bool) -> None:
    clock = FakeClock()
    store = new_table(clock)
    txn = store_on(store, clock).begin()
    txn.write(table_of([(b"a", b"2"), (b"d", b"4")]))
    if prepares:
        txn.prepare()
    state, rows, time_ms = txn.state, rows_of(txn), clock.now_ms() + 10
    clock.advance(2000)
    other = store_on(store.inner, FakeClock(time_ms + 1000, seed=5))
    store.run(lambda: other.write(table_of([(b"z", b"9")])), "create", "manifest/*", nth=1)
    with pytest.raises(ClockRegressionError):
        txn.commit(timestamp=time_ms)
    assert (txn.state, rows_of(txn)) == (state, rows)
    if not prepares:
        txn.delete(keys=[b"b"])
        assert rows_of(txn) == NEW
    txn.commit()
    assert rows_of(store_on(store, clock)) == [*(rows if prepares else NEW), (b"z", b"9")]
    assert not store_on(store, clock).verify().has_damage
    assert store.inner.list(LEASES_DIR) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_without_an_answer_is_not_repeated_otherwise(moment: Moment) -> None:
    clock = FakeClock()
    store = new_table(clock)
    txn = store_on(store, clock).begin()
    txn.write(table_of([(b"a", b"2")]))
    store.fail("create", "manifest/*", nth=2, moment=moment)
    with pytest.raises(UnavailableError), txn:
        pass  # it commits here
    store.clear()
    with pytest.raises(InvalidRequestError, match="committed"):
        txn.commit()
    txn.rollback()
    table = store_on(store, clock)
    assert table.get(b"a") == {"key": b"a", "value": b"1" if moment == "before" else b"2"}
    assert not table.verify().has_damage


def test_a_refusal_that_follows_the_publication_takes_nothing_back() -> None:
    clock = FakeClock()
    store = new_table(clock)
    denied = InvalidRequestError("Cannot read gc/manifest.boundary.", why="403")

    def deny() -> None:
        store.fail("get", "gc/manifest.boundary", error=denied)

    store.run(deny, "create", "manifest/*", nth=2, moment="after")
    txn = store_on(store, clock).begin()
    with pytest.raises(UnavailableError, match="known") as caught, txn:
        txn.write(table_of([(b"a", b"2")]))
    assert caught.value.__cause__ is denied
    assert txn.state == "unknown"
    txn.rollback()
    store.clear()
    table = store_on(store, clock)
    assert table.get(b"a") == {"key": b"a", "value": b"2"}
    assert not table.verify().has_damage


# --- refusals -------------------------------------------------------------------------------------------------------


def lose_files(store: FailingStore, own: list[str]) -> None:
    store_on(store.inner, FakeClock(seed=5)).write(table_of([(b"z", b"9")]))  # above which they would have to move
    store.inner.delete_many(own)


def upgrade_table(store: FailingStore, _: list[str]) -> None:
    store.inner.create(definition_path(2), b'{"formatVersion": 99}')


@pytest.mark.parametrize(
    ("harm", "refusal"), [(lose_files, SnapshotExpiredError), (upgrade_table, UnsupportedFormatError)]
)
def test_a_commit_that_nothing_can_have_published_has_failed(
    harm: Callable[[FailingStore, list[str]], None], refusal: type[SlateError], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    store = new_table(clock)
    before = {meta.path for meta in store.inner.list(COMPACTED_DIR)}
    txn = store_on(store, clock).begin()
    txn.write(table_of([(b"a", b"2")]))

    def commit_late(*args: Any, **options: Any) -> Any:
        harm(store, [meta.path for meta in store.inner.list(COMPACTED_DIR) if meta.path not in before])
        return commit_write(*args, **options)

    monkeypatch.setattr(transaction, "commit_write", commit_late)
    with pytest.raises(refusal):
        txn.commit()
    assert txn.state == "failed"
    txn.rollback()
    assert store.inner.list(LEASES_DIR) == []


class StoppedClock(FakeClock):
    """A clock that fails from some moment on, as that of a user may."""

    stopped = False

    def now_ms(self) -> int:
        if self.stopped:
            raise InvalidRequestError("clock: it has stopped.")
        return super().now_ms()

    def stop(self) -> None:
        self.stopped = True


def test_a_clock_that_fails_after_the_publication_does_not_deny_it() -> None:
    clock = StoppedClock()
    store = new_table(clock)
    txn = store_on(store, clock).begin()
    txn.write(table_of([(b"a", b"2")]))
    store.run(clock.stop, "create", "manifest/*", nth=2, moment="after")
    version = txn.commit()
    assert txn.state == "committed"
    table = SlateStore.open(store.url)
    assert (table.resolve().version, table.get(b"a")) == (version, {"key": b"a", "value": b"2"})


def test_a_clock_that_fails_after_a_compaction_does_not_deny_it() -> None:
    clock = StoppedClock()
    store = new_table(clock)
    store_on(store, clock).write(table_of(NEW))
    store.run(clock.stop, "create", "manifest/*", nth=2, moment="after")
    report = store_on(store, clock).compact(full=True)
    table = SlateStore.open(store.url)
    assert table.resolve().version == report.version
    assert [entry.status for entry in fetch_compactions(stores_of(store)).value.jobs] == [CompactionStatus.COMPLETED]


def test_a_clock_that_fails_after_the_creation_does_not_deny_it() -> None:
    clock = StoppedClock()
    store = FailingStore(open_store(f"memory://broken-transactions-{next(_numbers)}", {}))
    store.run(clock.stop, "create", "manifest/*", moment="after")
    rows, options = table_of(OLD), {"path": store.url, "history": True, "holdHistory": True}
    record = load_batches(stores_of(store), clock, rows.schema, rows.to_batches(), WriteOptions.parse(options))
    assert record is not None
    assert rows_of(SlateStore.open(store.url)) == OLD


# --- a lease that has lapsed ----------------------------------------------------------------------------------------


def outlive_lease(clock: FakeClock) -> tuple[FailingStore, Transaction, list[str]]:
    """Return a transaction that was suspended for longer than its lease, and its files."""
    store = new_table(clock)
    txn = store_on(store, clock).begin(gcMinAge="7d", commitRewriteLimit=1)  # no file is old, or rewritten
    before = {meta.path for meta in store.inner.list(COMPACTED_DIR)}
    txn.write(table_of([(b"a", b"2")]))
    clock.advance(LEASE_LIFETIME_MS + 3_600_000)
    return store, txn, [meta.path for meta in store.inner.list(COMPACTED_DIR) if meta.path not in before]


def fail_rescue(store: FailingStore, step: str) -> None:
    if step == "copy":
        store.fail("copy")
    else:
        store.fail("put", f"{LEASES_DIR}*", moment="after")


@pytest.mark.parametrize("step", ["copy", "lease"])
def test_files_that_were_collected_are_missed_though_their_rescue_was_broken_off(step: str) -> None:
    clock = FakeClock()
    store, txn, files = outlive_lease(clock)
    store.inner.delete_many(files)  # as by a collector that took the transaction for dead
    fail_rescue(store, step)
    with pytest.raises(UnavailableError):
        txn.commit()
    assert txn.state == "open"
    with pytest.raises(CommitConflictError, match="collected"):
        txn.commit()
    assert txn.state == "failed"
    table = store_on(store, clock)
    assert rows_of(table) == OLD
    assert not table.verify().has_damage


@pytest.mark.parametrize("step", ["copy", "lease"])
@pytest.mark.parametrize("back_ms", [0, LEASE_LIFETIME_MS])  # the clock may be set back meanwhile
def test_a_rescue_that_was_broken_off_is_made_up_for(step: str, back_ms: int) -> None:
    clock = FakeClock()
    store, txn, files = outlive_lease(clock)
    fail_rescue(store, step)
    with pytest.raises(UnavailableError):
        txn.get(b"a")
    clock.advance(-back_ms)
    assert txn.get(b"a") == {"key": b"a", "value": b"2"}
    store.inner.delete_many(files)  # as by a collector that had listed them before
    txn.commit()
    table = store_on(store, clock)
    assert rows_of(table) == [(b"a", b"2"), *OLD[1:]]
    assert not table.verify().has_damage


def test_a_lease_that_was_missing_has_lapsed_though_its_renewal_had_no_answer() -> None:
    clock = FakeClock()
    store, txn, files = outlive_lease(clock)
    clock.advance(-LEASE_LIFETIME_MS // 2)  # no longer than it lasts
    store.inner.delete_many([*files, f"{LEASES_DIR}{txn.id}.json"])
    fail_rescue(store, "lease")
    with pytest.raises(UnavailableError):
        txn.commit()
    with pytest.raises(CommitConflictError, match="collected"):
        txn.commit()
