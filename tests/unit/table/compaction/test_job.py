"""The entry of a compaction in `.compactions`: when it is listed, who removes it, and how it ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import Mock

import pytest

from slatespark import ClockRegressionError, CommitConflictError, InvalidRequestError, UnavailableError
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    TieredSpec,
    WorkerSpec,
    encode_compactions,
)
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import compactions_path, manifest_path
from slatespark.format.references import SortedRun
from slatespark.format.ulid import make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.commit.active_jobs import awaits_commit, clear_active_jobs, is_own_job, runs_here
from slatespark.table.commit.claim import Claim
from slatespark.table.commit.foreign_clients import refuse_foreign_job
from slatespark.table.commit.hold import HOLD_WORKER, NEVER_STALE_MS
from slatespark.table.compaction import job as compaction_job
from slatespark.table.compaction.job import ListedJob, listed_job
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.claims import publish_claim
from slatespark.table.records.leases import (
    LEASE_LIFETIME_MS,
    LEASES_DIR,
    fetch_lease,
    has_lease,
    lease_path,
    publish_lease,
)
from slatespark.table.records.workers import find_worker, worker_path
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
SPEC = TieredSpec((), (2, 1), 1)
OTHER = TieredSpec((), (5, 4), 4)
CLAIM = Claim(Version(8, Manifest(writer_epoch=4, compactor_epoch=3)), fence_id=5)
RUNS = (7, 5, 4, 2, 1)
RUNNING, COMPLETED, FAILED = CompactionStatus.RUNNING, CompactionStatus.COMPLETED, CompactionStatus.FAILED
_names = itertools.count(1)


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore(f"listed/{next(_names)}"))


@pytest.fixture
def stores(store: FailingStore) -> TableStores:
    put_runs(store, 1, RUNS)
    return TableStores(main=store, wal=store)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW_MS)


def write_id(number: int) -> str:
    return f"{number:016x}"


def put_runs(store: ObjectStore, number: int, runs: Iterable[int], *, claims: bool = False) -> None:
    """Publish a manifest with these runs, all empty."""
    data = encode_manifest(Manifest(compacted=tuple(SortedRun(run, ()) for run in runs)))
    if claims:
        publish_claim(store, number, write_id(99), 0, data)
    store.put(manifest_path(number), [data])


def completed(job: ListedJob, now_ms: int = NOW_MS) -> Compaction:
    """As its commit lists it before the manifest."""
    return replace(
        job.entry, spec=job.spec, status=COMPLETED, worker=WorkerSpec(f"slatespark-{job.lease.write_id}", now_ms)
    )


def put_list(stores: TableStores, *jobs: Compaction, number: int = 3, epoch: int = 2) -> None:
    stores.main.put(compactions_path(number), [encode_compactions(Compactions(epoch, jobs))])


def listed(stores: TableStores) -> list[Compaction]:
    return list(fetch_compactions(stores)[1].jobs)


def foreign(number: int, status: CompactionStatus = RUNNING, heartbeat_ms: int | None = NOW_MS) -> Compaction:
    worker = None if heartbeat_ms is None else WorkerSpec(f"01WORKER{number}", heartbeat_ms)
    return Compaction(make_ulid(NOW_MS - 100 + number, number), OTHER, status, worker=worker)


def die(job: ListedJob) -> None:
    """No heartbeat follows, and nothing is listed at the end."""
    job._ended.set()


def test_a_successful_job(stores: TableStores, clock: FakeClock) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        (entry,) = listed(stores)
        assert (entry.status, entry.spec, entry.output_ssts) == (RUNNING, SPEC, ())
        assert entry.worker == WorkerSpec(f"slatespark-{write_id(1)}", NOW_MS)
        assert entry.id.timestamp_ms == NOW_MS
        assert is_own_job(stores, entry)
        assert runs_here(stores, entry, NOW_MS + 29_999)
        assert not runs_here(stores, entry, NOW_MS + 30_000)
        refuse_foreign_job(stores, now_ms=NOW_MS)
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS + 5, runs=(1,), own=completed(job, NOW_MS + 5))
        (ended,) = listed(stores)
        assert ended == completed(job, NOW_MS + 5), "no client could reclaim it if this process died now"
        number = fetch_compactions(stores)[0]
        job.complete()
        assert fetch_compactions(stores)[0] == number, "the list needs no change"
    assert listed(stores) == [ended]
    assert find_worker(stores.main, f"slatespark-{write_id(1)}") is None, "no more than it needs"


def test_a_failed_job(stores: TableStores, clock: FakeClock) -> None:
    with pytest.raises(ZeroDivisionError), listed_job(stores, clock, SPEC, write_id(1), is_held=False):
        raise ZeroDivisionError
    assert [job.status for job in listed(stores)] == [FAILED]


def test_ids_ascend_and_the_epoch_stays(stores: TableStores, clock: FakeClock) -> None:
    later = replace(foreign(1, COMPLETED), id=make_ulid(NOW_MS + 500, 1))
    put_list(stores, later, epoch=6)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        assert job.entry.id.timestamp_ms == NOW_MS + 500
        assert fetch_compactions(stores)[1] == Compactions(6, (later, job.entry))
    assert [each.status for each in listed(stores)] == [FAILED], "the client keeps only the last one"


def test_other_entries_that_stay_listed(stores: TableStores, clock: FakeClock) -> None:
    hold = Compaction(make_ulid(NOW_MS, 9), SPEC, RUNNING, worker=WorkerSpec(HOLD_WORKER, NEVER_STALE_MS))
    fresh, stale, waiting = foreign(1), foreign(2, heartbeat_ms=NOW_MS - 30_000), foreign(3, heartbeat_ms=None)
    put_list(stores, hold, fresh, stale, waiting)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as mine:
        assert listed(stores) == [hold, fresh, mine.entry]
        with listed_job(stores, clock, replace(SPEC, sorted_runs=(7,)), write_id(2), is_held=False) as apart:
            assert listed(stores) == [hold, fresh, mine.entry, apart.entry], "two of ours on other runs"
            apart.complete()
        with listed_job(stores, clock, SPEC, write_id(3), is_held=False) as same:
            assert listed(stores)[2:] == [*[job for job in listed(stores) if job.status is COMPLETED], same.entry]


def test_a_job_before_its_commit_stays_listed(stores: TableStores, clock: FakeClock) -> None:
    """A coordinator that has read it commits it all the same, and whoever handed it over would think it refused."""
    handed = foreign(1, CompactionStatus.COMPACTED, NOW_MS - 60_000)
    put_list(stores, handed)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as mine:
        assert listed(stores) == [handed, mine.entry]


def test_a_removed_entry_is_put_back(stores: TableStores, clock: FakeClock) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        put_list(stores, number=9)
        clock.advance(10_000)
        job.report()
        assert listed(stores) == [job.entry]
        assert job.entry.worker is not None
        assert job.entry.worker.last_heartbeat_ms == NOW_MS + 10_000
        put_list(stores, replace(foreign(1), spec=SPEC), number=20)
        job.report()
        assert [each.id for each in listed(stores)] == [foreign(1).id], "another job has its runs"


def test_a_lease_whose_renewal_had_no_answer_has_lapsed_all_the_same(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        lapses = job.count_lapses()
        clock.advance(LEASE_LIFETIME_MS + 1)
        store.fail("put", f"{LEASES_DIR}*", moment="after")
        with pytest.raises(UnavailableError):
            job.report()
        assert job.count_lapses() > lapses


def test_l0_views_are_never_listed(stores: TableStores, clock: FakeClock) -> None:
    """Commits move them; a client that misses one retries the job forever, and merges no other one."""
    view = make_ulid(NOW_MS - 1, 1)
    both = TieredSpec((view,), (2, 1), 1)
    with listed_job(stores, clock, both, write_id(1), is_held=False) as job:
        assert [each.spec for each in listed(stores)] == [SPEC]
        job.report()
        assert [each.spec for each in listed(stores)] == [SPEC]
    assert [(each.status, each.spec) for each in listed(stores)] == [(FAILED, both)]


def test_a_job_without_runs_is_listed_only_at_its_end(stores: TableStores, clock: FakeClock) -> None:
    only_l0 = TieredSpec((make_ulid(NOW_MS - 1, 1),), (), 8)
    with listed_job(stores, clock, only_l0, write_id(1), is_held=False) as job:
        job.report()
        assert listed(stores) == []
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=RUNS, own=completed(job))
        clock.advance(20_000)
        job.report()
        assert listed(stores) == [completed(job, NOW_MS + 20_000)], "its commit may take long"
        assert awaits_commit(stores, listed(stores)[0], NOW_MS + 40_000)
        job.complete()
    assert [each.status for each in listed(stores)] == [COMPLETED]


def test_a_job_whose_runs_are_gone_is_not_listed(stores: TableStores, clock: FakeClock) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=(1,))
        assert listed(stores) == [], "the commit takes one of them"
        put_runs(stores.main, 2, RUNS, claims=True)
        job.report()
        assert listed(stores) == [], "it has claimed epochs, and is about to publish"
        put_runs(stores.main, 3, RUNS)
        job.report()
        assert listed(stores) == [job.entry], "it has left them"
        put_runs(stores.main, 4, (1,))
        job.report()
        assert listed(stores) == []
        with listed_job(stores, clock, SPEC, write_id(2), is_held=False):
            assert listed(stores) == [], "nor is one that begins"


def test_a_commit_that_fails_late(stores: TableStores, clock: FakeClock) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=(1,), own=completed(job))
    assert [(each.id, each.status) for each in listed(stores)] == [(job.entry.id, FAILED)]


def test_an_ended_job_leaves_jobs_before_their_commit(stores: TableStores, clock: FakeClock) -> None:
    """Garbage collectors must find them until the manifest exists."""
    other = TieredSpec((), (5, 4), 4)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as waits:
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=RUNS, own=completed(waits))
        with (
            pytest.raises(ZeroDivisionError),
            listed_job(stores, clock, other, write_id(2), is_held=False),
        ):
            raise ZeroDivisionError
        assert [each.status for each in listed(stores)] == [COMPLETED, FAILED]
        with listed_job(stores, clock, other, write_id(3), is_held=False) as next_one:
            clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=RUNS, own=completed(next_one))
            assert listed(stores) == [completed(waits), completed(next_one)]
            next_one.complete()
        waits.complete()
    with listed_job(stores, clock, other, write_id(4), is_held=False) as last:
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=RUNS, own=completed(last))
        assert listed(stores) == [completed(last)], "those before have landed"


def test_heartbeats_are_sent_automatically(
    stores: TableStores, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, store: FailingStore
) -> None:
    monkeypatch.setattr(compaction_job, "HEARTBEAT_S", 0.001)
    store.fail("create", "compactions/*", nth=2, times=2, error=UnavailableError("Not now."))
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        clock.advance(77)
        for _ in range(60_000):
            if job.entry.worker is not None and job.entry.worker.last_heartbeat_ms == NOW_MS + 77:
                break
            job._ended.wait(0.001)
        else:
            raise AssertionError("no heartbeat")


def test_other_commits_leave_a_running_job(stores: TableStores, clock: FakeClock) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=(2, 1))
        assert listed(stores) == [job.entry]
        put_list(stores, foreign(1), job.entry, number=9)
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=(2, 1))
        assert fetch_compactions(stores)[1] == Compactions(CLAIM.compactor_epoch, (job.entry,))
        die(job)
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS + 30_000, runs=(2, 1))
        assert listed(stores) == []


def test_a_clock_that_fails_at_the_end_does_not_deny_the_commit(
    stores: TableStores, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=(1,), own=completed(job))
        monkeypatch.setattr(clock, "now_ms", Mock(side_effect=InvalidRequestError("clock: gps failed.")))
        job.complete()
    assert job.entry.status is COMPLETED
    assert listed(stores) == [completed(job)]


def test_its_own_commit_lists_it_again(stores: TableStores, clock: FakeClock) -> None:
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        put_list(stores, number=9)
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=(1,), own=completed(job))
        assert listed(stores) == [completed(job)]


def test_a_job_that_holds_history_is_known_by_its_worker_record(stores: TableStores, clock: FakeClock) -> None:
    """Its listed heartbeat never becomes stale, but a dead job must be recognised."""
    publish_lease(stores.main, write_id(1), NOW_MS)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=True) as job:
        assert job.entry.worker == WorkerSpec(f"slatespark-{write_id(1)}", NEVER_STALE_MS)
        assert runs_here(stores, job.entry, NOW_MS + 29_999)
        assert not runs_here(stores, job.entry, NOW_MS + 30_000)
        number = fetch_compactions(stores)[0]
        clock.advance(10_000)
        job.report()
        assert runs_here(stores, job.entry, NOW_MS + 39_999)
        assert fetch_compactions(stores)[0] == number, "the list need not grow"
        die(job)
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS + 40_000, runs=RUNS)
        assert listed(stores) == []


def test_a_damaged_worker_record_counts_as_none_until_the_next_report(stores: TableStores, clock: FakeClock) -> None:
    publish_lease(stores.main, write_id(1), NOW_MS)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=True) as job:
        stores.main.put(worker_path(f"slatespark-{write_id(1)}"), [b"damaged"])
        assert not runs_here(stores, job.entry, NOW_MS)
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=RUNS)
        assert listed(stores) == []
        job.report()
        assert runs_here(stores, job.entry, NOW_MS)
        assert listed(stores) == [job.entry]
        assert job.count_lapses() == 1, "its commit looks whether its files are still there"


def test_a_lease_lasts_as_long_as_its_job(stores: TableStores, clock: FakeClock) -> None:
    publish_lease(stores.main, write_id(1), NOW_MS)
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False) as job:
        for _ in range(5):
            clock.advance(LEASE_LIFETIME_MS // 3)
            job.report()
        assert has_lease(stores.main, write_id(1), clock.now_ms())
        lease = fetch_lease(stores.main, lease_path(write_id(1)))
        assert lease is not None
        assert lease.created_ms == NOW_MS, "it still covers the first file"


def test_a_foreign_job_with_a_fresh_heartbeat(stores: TableStores) -> None:
    put_list(stores, replace(foreign(1), worker=WorkerSpec(f"slatespark-{write_id(1)}", NOW_MS)))
    with pytest.raises(CommitConflictError, match="epoch"):
        refuse_foreign_job(stores, now_ms=NOW_MS)  # no record of that worker
    refuse_foreign_job(stores, now_ms=NOW_MS + 30_000)


@pytest.mark.parametrize("worker_id", ["", "slatespark-", "slatespark-../../x", "slatespark-XYZ", "01J0000000"])
def test_workers_that_are_not_ours(stores: TableStores, worker_id: str) -> None:
    assert find_worker(stores.main, worker_id) is None


def test_a_list_that_keeps_changing(store: FailingStore, stores: TableStores, clock: FakeClock) -> None:
    store.fail("create", "compactions/*", times=100, error=FileExistsError())
    with (
        pytest.raises(CommitConflictError),
        listed_job(stores, clock, SPEC, write_id(1), is_held=False),
    ):
        raise AssertionError("nothing was listed")


def test_a_list_that_is_ahead_of_our_clock(stores: TableStores, clock: FakeClock) -> None:
    """Outputs would need ids in the future, and garbage collectors use their time."""
    with listed_job(stores, clock, SPEC, write_id(1), is_held=False):
        pass
    clock.advance(-10_000)
    with listed_job(stores, clock, SPEC, write_id(2), is_held=False) as listed:
        assert listed.entry.id.timestamp_ms == NOW_MS
    clock.advance(-1)
    number = fetch_compactions(stores)[0]
    with (
        pytest.raises(ClockRegressionError, match=str(NOW_MS)),
        listed_job(stores, clock, SPEC, write_id(3), is_held=False),
    ):
        pass
    assert fetch_compactions(stores)[0] == number


def test_an_interrupt_as_the_heartbeats_begin_ends_them_and_the_job(
    stores: TableStores, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        begin(thread)
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), listed_job(stores, clock, SPEC, write_id(1), is_held=False):
        raise AssertionError
    assert set(threading.enumerate()) <= before
    assert not fetch_compactions(stores)[1].active_jobs()
