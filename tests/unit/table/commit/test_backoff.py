"""A commit waits for the one that a sibling has begun, for as long as it may still come."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from slatespark.format.manifest import Manifest
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.backoff import (
    COMMITS_PER_LISTING,
    MAX_PATIENCE_MS,
    MAX_YIELD_MS,
    SIBLING_STAYS,
    SPREAD_MS,
    VERSIONS_PER_LISTING,
    CommitBackoff,
    claim_patience_ms,
)
from slatespark.table.commit.claim import MIN_PATIENCE_MS, Claim, claim_epochs
from slatespark.table.log.manifests import draw_nonce, fetch_latest_manifest, may_be_claim, publish_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.claims import CLAIMS_DIR, publish_claim
from slatespark.table.records.leases import (
    LEASE_LIFETIME_MS,
    delete_lease,
    lease_path,
    renew_lease,
)
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

_names = itertools.count()
NOW_MS = 1_000_000


class WaitingClock(FakeClock):
    """A clock that calls `then` once it has waited for `after_ms`."""

    def __init__(self, after_ms: int = 0, then: Callable[[], object] = lambda: None) -> None:
        super().__init__(NOW_MS)
        self.after_ms, self.then, self.is_done = after_ms, then, False

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        if not self.is_done and self.now_ms() - NOW_MS >= self.after_ms:
            self.is_done = True
            self.then()


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore(f"turns/{next(_names)}"))


@pytest.fixture
def stores(store: FailingStore) -> TableStores:
    stores = TableStores(main=store, wal=store)
    publish_manifest(stores, 1, Manifest(), None, FakeClock(NOW_MS))
    return stores


def claim(stores: TableStores, write_id: str = "0123456789abcdef", patience_ms: int = MIN_PATIENCE_MS) -> Claim:
    """What a sibling does up to its claim."""
    clock = FakeClock(NOW_MS, seed=7)
    renew_lease(stores.main, write_id, NOW_MS, NOW_MS)
    return claim_epochs(
        stores, clock, fetch_latest_manifest(stores), write_id=write_id, attempt=0, patience_ms=patience_ms
    )[0]


def commit(stores: TableStores) -> None:
    """What it does after that."""
    number, latest = fetch_latest_manifest(stores)
    clock = FakeClock(NOW_MS, seed=8)
    publish_manifest(stores, number + 1, replace(latest, nonce=draw_nonce(clock)), latest, clock)


def wait(stores: TableStores, clock: FakeClock, write_id: str = "fedcba9876543210") -> Version[Manifest]:
    return CommitBackoff(stores, clock, write_id).wait(fetch_latest_manifest(stores), 0)


def test_nothing_is_asked_without_a_claim(store: FailingStore, stores: TableStores) -> None:
    newest = fetch_latest_manifest(stores)
    store.clear()
    assert CommitBackoff(stores, FakeClock(NOW_MS), "fedcba9876543210").wait(newest, 0) == newest
    assert store.calls == []


def test_a_claim_is_marked(stores: TableStores) -> None:
    assert may_be_claim(claim(stores).version.value)
    assert not any(may_be_claim(Manifest(nonce=draw_nonce(FakeClock(NOW_MS, seed=seed)))) for seed in range(50))


def test_it_waits_until_the_sibling_has_committed(stores: TableStores) -> None:
    claim(stores)
    clock = WaitingClock(150, lambda: commit(stores))
    assert wait(stores, clock).number == 3
    assert 150 <= clock.now_ms() - NOW_MS < 200 + SPREAD_MS


def test_it_waits_for_one_sibling_after_the_other(stores: TableStores) -> None:
    claim(stores)

    def commit_and_claim() -> None:
        commit(stores)
        claim(stores, "00000000000000aa")

    clock = WaitingClock(100, commit_and_claim)
    assert wait(stores, clock).number == 4
    assert clock.now_ms() - NOW_MS >= 100 + MIN_PATIENCE_MS


def test_what_can_be_done_already_is_done_before_each_wait(stores: TableStores) -> None:
    claim(stores)

    def commit_and_claim() -> None:
        commit(stores)
        claim(stores, "00000000000000aa")

    clock = WaitingClock(100, commit_and_claim)
    done: list[tuple[int, int]] = []
    newest = CommitBackoff(stores, clock, "fedcba9876543210").wait(
        fetch_latest_manifest(stores), 0, meanwhile=lambda found: done.append((found.number, clock.now_ms()))
    )
    assert ([number for number, _ in done], newest.number) == ([2, 4], 4)
    assert done[0][1] == NOW_MS
    CommitBackoff(stores, clock, "00000000000000aa").wait(newest, 0, meanwhile=lambda _: done.clear())
    assert done  # nothing is waited for


@pytest.mark.parametrize("patience_ms", [10, 1_000, 3_600_000])
def test_it_does_not_wait_for_ever(stores: TableStores, patience_ms: int) -> None:
    claim(stores, patience_ms=patience_ms)
    clock = FakeClock(NOW_MS)
    assert wait(stores, clock).number == 2
    expected_ms = min(patience_ms, MAX_PATIENCE_MS)
    assert expected_ms <= clock.now_ms() - NOW_MS < 1.2 * expected_ms + SPREAD_MS


class SettingBackClock(FakeClock):
    """A clock that refuses to sleep for less than nothing, as the system's, and is set back while it sleeps."""

    def __init__(self, by_ms: int) -> None:
        super().__init__(NOW_MS)
        self.by_ms = by_ms

    def sleep_ms(self, duration_ms: int) -> None:
        assert duration_ms >= 0
        super().sleep_ms(duration_ms)
        if len(self.slept_ms) == 3:
            self.advance(-self.by_ms)


@pytest.mark.parametrize("by_ms", [1_000, 600_000])
def test_a_clock_that_is_set_back_meanwhile_prolongs_no_wait(by_ms: int, stores: TableStores) -> None:
    claim(stores, patience_ms=1_000)
    clock = SettingBackClock(by_ms)
    assert wait(stores, clock).number == 2
    assert 1_000 <= sum(clock.slept_ms) < 1_200 + SPREAD_MS


def test_a_clock_that_was_set_back_before_the_claim_shortens_no_patience() -> None:
    assert claim_patience_ms(-60_000, 0) == claim_patience_ms(0, 0) == MIN_PATIENCE_MS


def test_rows_in_the_wal_take_the_sibling_longer(store: FailingStore, stores: TableStores) -> None:
    store.put("wal/00000000000000000001.sst", [bytes(40_000_000)])
    store.put("wal/00000000000000000002.sst", [b""])
    claim(stores)
    clock = FakeClock(NOW_MS)
    wait(stores, clock)
    assert clock.now_ms() - NOW_MS >= MIN_PATIENCE_MS + 2_000


def test_a_job_that_gave_up_is_not_waited_for(store: FailingStore, stores: TableStores) -> None:
    claim(stores)
    delete_lease(store, "0123456789abcdef")
    clock = FakeClock(NOW_MS)
    assert wait(stores, clock).number == 2
    assert clock.slept_ms == []


def test_neither_is_a_claim_of_its_own(stores: TableStores) -> None:
    claim(stores)
    clock = FakeClock(NOW_MS)
    assert wait(stores, clock, "0123456789abcdef").number == 2
    assert clock.slept_ms == []


@pytest.mark.parametrize("content", [None, b"{}", b"damaged", b'{"sha256": "other"}'])
def test_a_claim_without_a_sound_record_is_not_ours(
    store: FailingStore, stores: TableStores, content: bytes | None
) -> None:
    claim(stores)
    (record,) = store.list(CLAIMS_DIR)
    store.delete(record.path)
    if content is not None:
        store.put(record.path, [content])
    clock = FakeClock(NOW_MS)
    assert wait(stores, clock).number == 2
    assert clock.slept_ms == []


def test_the_patience_of_a_claim() -> None:
    assert claim_patience_ms(0, 0) == MIN_PATIENCE_MS
    assert claim_patience_ms(300, 0) == MIN_PATIENCE_MS + 3_000
    assert claim_patience_ms(300, 2) == 4 * claim_patience_ms(300, 0)
    assert claim_patience_ms(300, 99) == claim_patience_ms(300, 4)


def commits_in_a_row(stores: TableStores, count: int, *, took_ms: int = 40) -> FakeClock:
    """What this process remembers after so many commits of its own, and one of a sibling before them."""
    clock = FakeClock(NOW_MS)
    backoff = CommitBackoff(stores, clock, "fedcba9876543210")
    claim(stores)
    commit(stores)
    stores.heads.own_commits(stores.main.url).met_ms = NOW_MS
    for _ in range(count):
        commit_once(stores, clock, backoff, took_ms)
    return clock


def commit_once(stores: TableStores, clock: FakeClock, backoff: CommitBackoff, took_ms: int) -> None:
    number = fetch_latest_manifest(stores).number
    clock.sleep_ms(took_ms)
    commit(stores)
    backoff.record_commit(number + 1, on=number, began_ms=clock.now_ms() - took_ms)


def commits_that_met_nobody(stores: TableStores, count: int = COMMITS_PER_LISTING) -> FakeClock:
    clock = commits_in_a_row(stores, count)
    stores.heads.own_commits(stores.main.url).met_ms = None
    return clock


def yield_to_siblings(stores: TableStores, clock: FakeClock) -> Version[Manifest]:
    return CommitBackoff(stores, clock, "fedcba9876543210").yield_to_siblings(fetch_latest_manifest(stores))


def test_after_two_commits_in_a_row_siblings_have_time_for_a_claim(stores: TableStores) -> None:
    clock = commits_in_a_row(stores, 2)
    began_ms = clock.now_ms()
    assert yield_to_siblings(stores, clock) == fetch_latest_manifest(stores)
    assert 40 <= clock.now_ms() - began_ms < 80, "as long as a commit took"
    assert yield_to_siblings(stores, clock) == fetch_latest_manifest(stores)
    assert clock.now_ms() - began_ms < 80, "then it has two turns again"


def test_a_sibling_that_comes_meanwhile_is_next(stores: TableStores) -> None:
    commits_in_a_row(stores, 2, took_ms=4)
    clock = WaitingClock(2, lambda: claim(stores, "another"))
    own = fetch_latest_manifest(stores).number
    assert (
        CommitBackoff(stores, clock, "fedcba9876543210").yield_to_siblings(fetch_latest_manifest(stores)).number
        == own + 1
    )


@pytest.mark.parametrize("others", ["one commit", "no sibling", "none of late", "a sibling was next"])
def test_otherwise_nobody_is_waited_for(others: str, stores: TableStores) -> None:
    clock = commits_in_a_row(stores, 1 if others == "one commit" else 2)
    if others == "no sibling":
        stores.heads.own_commits(stores.main.url).met_ms = None
    if others == "none of late":
        clock.sleep_ms(SIBLING_STAYS * 40)
    if others == "a sibling was next":
        commit(stores)
    began_ms = clock.now_ms()
    assert yield_to_siblings(stores, clock) == fetch_latest_manifest(stores)
    assert clock.now_ms() == began_ms


def lose(stores: TableStores, number: int, attempt: int, write_id: str = "00000000000000aa") -> None:
    """What a sibling leaves that was slower to claim a version."""
    renew_lease(stores.main, write_id, NOW_MS, NOW_MS)
    publish_claim(stores.main, number, write_id, attempt, b"lost")


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_sibling_that_always_loses_has_more_time_each_time(stores: TableStores, attempts: int) -> None:
    clock = commits_that_met_nobody(stores)
    lose(stores, fetch_latest_manifest(stores).number - 1, attempts - 1)
    began_ms = clock.now_ms()
    yield_to_siblings(stores, clock)
    assert 40 << attempts <= clock.now_ms() - began_ms < 1.2 * (40 << attempts)
    lose(stores, fetch_latest_manifest(stores).number - 1, attempts - 1)
    assert yield_to_siblings(stores, clock) == fetch_latest_manifest(stores)
    assert clock.now_ms() - began_ms < 1.2 * (40 << attempts), "once"


def test_a_sibling_that_lost_often_does_not_stop_a_table(stores: TableStores) -> None:
    clock = commits_that_met_nobody(stores)
    lose(stores, fetch_latest_manifest(stores).number, 190)
    began_ms = clock.now_ms()
    yield_to_siblings(stores, clock)
    assert MAX_YIELD_MS <= clock.now_ms() - began_ms < 1.2 * MAX_YIELD_MS


def test_what_it_needed_is_remembered(stores: TableStores) -> None:
    clock = commits_that_met_nobody(stores)
    lose(stores, fetch_latest_manifest(stores).number, 4)
    waiting = WaitingClock(0, lambda: None)
    waiting.advance(clock.now_ms() - NOW_MS)
    waiting.after_ms, waiting.then = clock.now_ms() - NOW_MS + 300, lambda: claim(stores, "00000000000000aa")
    backoff = CommitBackoff(stores, waiting, "fedcba9876543210")
    assert backoff.yield_to_siblings(fetch_latest_manifest(stores)) == fetch_latest_manifest(stores), "the claim"
    commit(stores)
    stores.heads.own_commits(stores.main.url).met_ms = waiting.now_ms()
    for _ in range(2):
        commit_once(stores, waiting, backoff, 40)
    began_ms = waiting.now_ms()
    backoff.yield_to_siblings(fetch_latest_manifest(stores))
    assert 600 <= waiting.now_ms() - began_ms < 900
    for _ in range(2):
        commit_once(stores, waiting, backoff, 40)
    began_ms = waiting.now_ms()
    backoff.yield_to_siblings(fetch_latest_manifest(stores))
    assert 300 <= waiting.now_ms() - began_ms < 450, "shorter, since nobody came"


@pytest.mark.parametrize("others", ["nobody", "gave up", "was killed long ago", "damaged", "claimed later"])
def test_nobody_who_lost_waits_any_more(others: str, stores: TableStores, store: FailingStore) -> None:
    clock = commits_that_met_nobody(stores, COMMITS_PER_LISTING - 1)
    number, write_id = fetch_latest_manifest(stores).number, "00000000000000aa"
    if others != "nobody":
        lose(stores, number, 3)
    if others == "gave up":
        delete_lease(store, write_id)
    if others == "was killed long ago":
        renew_lease(store, write_id, NOW_MS, NOW_MS - LEASE_LIFETIME_MS)
    if others == "damaged":
        store.put(lease_path(write_id), [b"damaged"])
    if others == "claimed later":
        publish_claim(store, number + 1, write_id, 4, b"won")
        commit(stores)
    commit_once(stores, clock, CommitBackoff(stores, clock, "fedcba9876543210"), 40)
    began_ms = clock.now_ms()
    assert yield_to_siblings(stores, clock) == fetch_latest_manifest(stores)
    assert clock.now_ms() == began_ms


def test_a_look_is_bounded_where_others_commit_far_more_often(store: FailingStore, stores: TableStores) -> None:
    clock = commits_that_met_nobody(stores, COMMITS_PER_LISTING - 1)
    first = fetch_latest_manifest(stores).number
    for _ in range(VERSIONS_PER_LISTING):
        commit(stores)
    lose(stores, first, 5)
    commit_once(stores, clock, CommitBackoff(stores, clock, "fedcba9876543210"), 40)
    began_ms = clock.now_ms()
    yield_to_siblings(stores, clock)
    assert clock.now_ms() == began_ms


def test_those_that_lost_are_looked_for_after_some_commits_only(store: FailingStore, stores: TableStores) -> None:
    clock = commits_that_met_nobody(stores, COMMITS_PER_LISTING - 1)
    newest = fetch_latest_manifest(stores)
    backoff = CommitBackoff(stores, clock, "fedcba9876543210")
    store.clear()
    backoff.yield_to_siblings(newest)
    assert store.calls == []
    commit_once(stores, clock, backoff, 40)
    newest = fetch_latest_manifest(stores)
    store.clear()
    for _ in range(2):
        backoff.yield_to_siblings(newest)
    assert [(call.operation, call.path.split("/")[1]) for call in store.calls] == [("list", "claims")]


def test_those_that_wait_are_met(stores: TableStores) -> None:
    claim(stores)
    wait(stores, WaitingClock(4, lambda: commit(stores)))
    assert stores.heads.own_commits(stores.main.url).met_ms is not None
