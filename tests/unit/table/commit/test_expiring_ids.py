"""Files that wait long for their commit: when a lease holds, and when files get new ids."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from slatespark.errors import CommitConflictError, SnapshotExpiredError
from slatespark.format.paths import sst_path
from slatespark.format.row import Row
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.expiring_ids import (
    copy_under_new_ids,
    refresh_expiring_ids,
    refresh_groups,
    renew_and_check_lease,
)
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.leases import fetch_lease, lease_path, publish_lease
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.layers import new_stores, rows_of, upload_rows

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
WRITE_ID = "0123456789abcdef"


# --- the lease ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited_ms", "is_valid"), [(0, True), (23 * HOUR_MS - 1, True), (23 * HOUR_MS, False), (30 * HOUR_MS, False)]
)
def test_a_lease_holds_for_a_day_less_an_hour_and_is_renewed_in_any_case(waited_ms: int, is_valid: bool) -> None:
    stores = new_stores()
    publish_lease(stores.main, WRITE_ID, START_MS)
    now_ms = START_MS + waited_ms
    assert renew_and_check_lease(stores, WRITE_ID, START_MS, now_ms) is is_valid
    lease = fetch_lease(stores.main, lease_path(WRITE_ID))
    assert lease is not None
    assert (lease.created_ms, lease.expires_ms) == (START_MS, now_ms + 24 * HOUR_MS)
    assert renew_and_check_lease(stores, WRITE_ID, START_MS, now_ms), "as renewed"


@pytest.mark.parametrize("content", [None, b"{", b"{}"])
def test_a_missing_or_damaged_lease_did_not_hold(content: bytes | None) -> None:
    stores = new_stores()
    if content is not None:
        stores.main.put(lease_path(WRITE_ID), [content])
    assert not renew_and_check_lease(stores, WRITE_ID, START_MS, START_MS)
    assert renew_and_check_lease(stores, WRITE_ID, START_MS, START_MS + 1)


# --- new ids --------------------------------------------------------------------------------------------------------


@pytest.fixture(name="stores")
def _stores() -> TableStores:
    return new_stores()


def upload(stores: TableStores, clock: FakeClock, key: bytes) -> NewFile:
    (file,) = upload_rows(stores, [Row(key, 1, value=key)], clock)
    return file


@pytest.mark.parametrize(("waited_ms", "is_copied"), [(0, False), (500, False), (501, True), (5000, True)])
def test_files_past_half_the_age_limit_are_copied(stores: TableStores, waited_ms: int, is_copied: bool) -> None:
    clock = FakeClock(START_MS)
    old = upload(stores, clock, b"a")
    clock.advance(waited_ms)
    young = upload(stores, clock, b"b")
    after = refresh_expiring_ids(stores, clock, [old, young], 1000)
    assert (after[0] != old, after[1] == young) == (is_copied, True)
    if is_copied:
        assert after[0].handle.id.timestamp_ms == START_MS + waited_ms
        assert after[0].renamed(old.handle.id) == old
    assert [rows_of(stores, file) for file in after] == [
        [Row(b"a", 1, value=b"a")],
        [Row(b"b", 1, value=b"b")],
    ]


def test_a_file_that_was_collected(stores: TableStores) -> None:
    clock = FakeClock(START_MS)
    file = upload(stores, clock, b"a")
    stores.main.delete(sst_path(file.handle.id))
    assert refresh_expiring_ids(stores, clock, [file], 1000) == (file,), "a young one is not looked at"
    with pytest.raises(CommitConflictError):
        copy_under_new_ids(stores, clock, [file])
    clock.advance(1000)
    with pytest.raises(SnapshotExpiredError):
        refresh_expiring_ids(stores, clock, [file], 1000)


def test_after_an_expired_lease_every_file_is_copied(stores: TableStores) -> None:
    clock = FakeClock(START_MS)
    files = [upload(stores, clock, b"a"), upload(stores, clock, b"b")]
    copies = copy_under_new_ids(stores, clock, files)
    assert not {file.handle.id for file in copies} & {file.handle.id for file in files}
    assert [rows_of(stores, file) for file in copies] == [rows_of(stores, file) for file in files]
    assert copy_under_new_ids(stores, clock, []) == ()


class SlowCopies(MemoryStore):
    """A store with latency, in which no copy ends before `copies` of them have begun."""

    copies: threading.Barrier

    @property
    def is_remote(self) -> bool:
        """True."""
        return True

    def copy(self, source: str, target: str) -> None:
        """Copy an object once the others are asked for too."""
        self.copies.wait(60)
        super().copy(source, target)


def test_the_files_of_all_tasks_are_copied_together() -> None:
    """One after the other, thousands take so long that the first ones may be collected again before the commit."""
    store, clock = SlowCopies("slow-copies/db"), FakeClock(START_MS)
    store.copies = threading.Barrier(3)
    stores = TableStores(main=store, wal=store)
    groups = [[upload(stores, clock, b"a"), upload(stores, clock, b"b")], [], [upload(stores, clock, b"c")]]
    clock.advance(5000)
    renewed = refresh_groups(partial(refresh_expiring_ids, stores, clock, gc_min_age_ms=1000), groups)
    assert [[rows_of(stores, file)[0].key for file in files] for files in renewed] == [[b"a", b"b"], [], [b"c"]]
    assert {file.handle.id.timestamp_ms for files in renewed for file in files} == {START_MS + 5000}


def test_a_drain_that_takes_long_counts() -> None:
    """The published file is as young as one that was uploaded right before, so no collector is about to take it."""
    inner, clock = MemoryStore("slow-drain/db"), FakeClock(START_MS)
    Job(inner, clock).upload(table_of([(b"a", b"1")])).commit()
    before = fetch_latest_manifest(stores_of(inner)).value.ssts.keys()
    store = FailingStore(inner).run(lambda: clock.advance(50 * MINUTE_MS), "create", "wal/*", moment="after")
    Job(store, clock, gcMinAge="1h").upload(table_of([(b"b", b"2")])).commit()
    (added,) = fetch_latest_manifest(stores_of(inner)).value.ssts.keys() - before
    assert added.timestamp_ms == START_MS + 50 * MINUTE_MS


def test_a_file_that_was_collected_during_the_drain_is_not_published() -> None:
    inner, clock = MemoryStore("lapsed-drain/db"), FakeClock(START_MS)
    Job(inner, clock).upload(table_of([(b"a", b"1")])).commit()

    def sleep() -> None:
        clock.advance(24 * HOUR_MS)
        store_on(inner, FakeClock(clock.now_ms(), seed=5)).vacuum("0s", force=True)

    store = FailingStore(inner).run(sleep, "create", "wal/*", moment="after")
    job = Job(store, clock, gcMinAge="7d").upload(table_of([(b"b", b"2")]))
    with pytest.raises(CommitConflictError, match="lease"):
        job.commit()
    assert not store_on(inner, clock).verify().findings
