"""The lease of a job that takes longer than a lease lasts."""

from __future__ import annotations

from typing import Final

import pytest

from slatespark.errors import UnavailableError
from slatespark.table.commit.held_lease import HeldLease
from slatespark.table.records.leases import LEASE_LIFETIME_MS, delete_lease, fetch_lease, has_lease, lease_path
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock
from tests.unit.table.layers import new_stores

NOW_MS: Final = 1_700_000_000_000


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(new_stores().main)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW_MS)


@pytest.fixture
def lease(store: FailingStore, clock: FakeClock) -> HeldLease:
    return HeldLease.publish(TableStores(store, store), clock)


def test_it_is_renewed_only_once_it_is_due(store: FailingStore, clock: FakeClock, lease: HeldLease) -> None:
    lease.renew()
    assert store.count("put") == 0
    for _ in range(8):
        clock.advance(LEASE_LIFETIME_MS // 3)
        lease.renew()
    assert lease.lapses == 0
    stored = fetch_lease(store, lease_path(lease.write_id))
    assert stored is not None
    assert (stored.created_ms, stored.expires_ms) == (NOW_MS, clock.now_ms() + LEASE_LIFETIME_MS)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_lease_that_collectors_saw_expired_has_lapsed(
    store: FailingStore, clock: FakeClock, lease: HeldLease, *, is_deleted: bool
) -> None:
    """One that is young but gone counts as well: a clock that is ahead took it for expired."""
    if is_deleted:
        delete_lease(store, lease.write_id)
    clock.advance(LEASE_LIFETIME_MS // (2 if is_deleted else 1))
    lease.renew()
    assert lease.lapses == 1
    assert has_lease(store, lease.write_id, clock.now_ms())
    clock.advance(LEASE_LIFETIME_MS // 2)
    lease.renew()
    assert lease.lapses == 1, "it was valid since"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lapse_counts_though_the_renewal_failed(
    store: FailingStore, clock: FakeClock, lease: HeldLease, moment: Moment
) -> None:
    """After a lost answer the stored lease is valid again."""
    delete_lease(store, lease.write_id)
    clock.advance(LEASE_LIFETIME_MS // 2)
    store.fail("put", lease_path(lease.write_id), moment=moment)
    with pytest.raises(UnavailableError):
        lease.renew()
    lease.renew()
    assert lease.lapses
    assert has_lease(store, lease.write_id, clock.now_ms())


def test_released_it_is_gone(store: FailingStore, clock: FakeClock, lease: HeldLease) -> None:
    lease.release()
    assert not has_lease(store, lease.write_id, clock.now_ms())
