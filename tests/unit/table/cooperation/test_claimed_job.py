"""The life of a job from its claim to its end, on a list in memory."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from slatespark.format.compactions import (
    Compaction,
    CompactionStatus,
    Subcompaction,
    TieredContext,
    TieredSpec,
    WorkerSpec,
)
from slatespark.format.references import UNBOUNDED, BytesRange
from slatespark.table.cooperation.claimed_job import (
    ClaimedJob,
    JobLostError,
    SourcesGoneError,
    claimed_job,
    claimed_jobs,
    renew_heartbeats,
)
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import VOID
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import change, database, job, job_id, manifest, publish, sst

SPEC = TieredSpec((), (5, 2), 2)
TREES = manifest(l0=1, runs=(7, 5, 2))
HOUR_MS = 3_600_000
NEVER_BEATS = 1 << 30


def entry_of(stores: TableStores, number: int = 1) -> Compaction:
    return next(entry for entry in fetch_compactions(stores).value.jobs if entry.id == job_id(number))


def jobs_of(stores: TableStores, clock: FakeClock | None = None) -> JobList:
    return JobList(stores, clock or FakeClock())


def claim(stores: TableStores, worker: str = "we", clock: FakeClock | None = None) -> Any:
    return claimed_job(jobs_of(stores, clock), job_id(1), worker, heartbeat_ms=NEVER_BEATS)


@pytest.fixture
def stores(request: pytest.FixtureRequest) -> TableStores:
    return database(request.node.name, TREES, job(1, SPEC), job(2, TieredSpec((), (7,), 7)))


def test_a_claim_changes_nothing_else(stores: TableStores) -> None:
    before = fetch_compactions(stores)
    with claim(stores) as claimed:
        after = fetch_compactions(stores)
        assert after.number == before.number + 1
        assert after.value.compactor_epoch == before.value.compactor_epoch
        taken = entry_of(stores)
        assert taken.worker is not None
        assert (taken.status, taken.worker.worker_id) == (CompactionStatus.RUNNING, "we")
        assert replace(taken, status=CompactionStatus.SCHEDULED, worker=None) == before.value.jobs[0]
        assert after.value.jobs[1] == before.value.jobs[1]
        assert claimed.found.number == 1
    assert entry_of(stores) == before.value.jobs[0], "who leaves without a result has released the job"


def test_a_claim_drops_the_progress_of_a_worker_before(stores: TableStores) -> None:
    """A coordinator that commits it would change the sources under our merge."""
    context = TieredContext((Subcompaction(BytesRange(UNBOUNDED, UNBOUNDED), (sst(9),), 1),), 17)
    change(stores, lambda entry: replace(entry, context=context) if entry.id == job_id(1) else entry)
    with claim(stores):
        assert entry_of(stores).context is None
    assert entry_of(stores).context is None


@pytest.mark.parametrize(
    "state",
    [
        {"status": CompactionStatus.SUBMITTED},
        {"status": CompactionStatus.RUNNING, "worker": WorkerSpec("they", 5)},
        {"status": CompactionStatus.COMPACTED, "worker": WorkerSpec("they", 5)},
        {"status": CompactionStatus.FAILED},
        None,
    ],
)
def test_a_job_that_is_not_to_be_had(stores: TableStores, state: dict[str, Any] | None) -> None:
    def changed(entry: Compaction) -> Compaction | None:
        if entry.id != job_id(1):
            return entry
        return None if state is None else replace(entry, **state)

    change(stores, changed)
    before = fetch_compactions(stores)
    with claim(stores) as claimed:
        assert claimed is None
    assert fetch_compactions(stores) == before


@pytest.mark.parametrize(
    "others",
    [
        [job(2, TieredSpec((), (7,), 7), CompactionStatus.RUNNING, "they")],
        [job(2, TieredSpec((), (7,), 7), CompactionStatus.COMPACTED, "they")],
        [job(2, TieredSpec((), (7,), 7), CompactionStatus.FAILED)],
        [job(2, TieredSpec((), (7,), 7), CompactionStatus.SUBMITTED), job(3, TieredSpec((), (7,), 7))],
        [],
    ],
    ids=["another worker's", "handed over", "refused", "behind one that will be scheduled", "gone"],
)
def test_jobs_are_claimed_together_or_not_at_all(others: list[Compaction], request: pytest.FixtureRequest) -> None:
    stores = database(request.node.name, TREES, job(1, SPEC), *others)
    before = fetch_compactions(stores)
    with claimed_jobs(jobs_of(stores), [job_id(1), job_id(2)], "we", heartbeat_ms=NEVER_BEATS) as claimed:
        assert claimed is None
    assert fetch_compactions(stores) == before


def test_no_claim_beside_a_worker_on_the_same_runs(stores: TableStores) -> None:
    rival = replace(job(2, TieredSpec((), (7, 5), 5)), status=CompactionStatus.RUNNING, worker=WorkerSpec("they", 5))
    change(stores, lambda entry: rival if entry.id == job_id(2) else entry)
    with claim(stores) as claimed:
        assert claimed is None


def test_a_missing_source_releases_the_job(stores: TableStores) -> None:
    publish(stores, 2, manifest(runs=(7, 2)))
    with pytest.raises(SourcesGoneError), claim(stores):
        pass
    released = entry_of(stores)
    assert (released.status, released.worker) == (CompactionStatus.SCHEDULED, None)


def test_the_outputs_are_handed_over(stores: TableStores) -> None:
    outputs = (sst(1, last=b"k"), sst(2, first=b"l"))
    with claim(stores) as claimed:
        claimed.hand_over(outputs)
    handed = entry_of(stores)
    assert (handed.status, handed.output_ssts, handed.context) == (CompactionStatus.COMPACTED, outputs, None)
    assert handed.worker is not None
    assert handed.worker.worker_id == "we"
    assert handed.spec == SPEC


def test_a_job_can_be_failed_for_good(stores: TableStores) -> None:
    with claim(stores) as claimed:
        claimed.fail()
    failed = entry_of(stores)
    assert (failed.status, failed.spec, failed.output_ssts) == (CompactionStatus.COMPACTED, VOID, ())


@pytest.mark.parametrize("loss", ["reclaimed", "given away", "erased"])
def test_what_happens_when_the_job_is_lost(stores: TableStores, loss: str) -> None:
    def lose(entry: Compaction) -> Compaction | None:
        if entry.id != job_id(1):
            return entry
        if loss == "erased":
            return None
        if loss == "given away":
            return replace(entry, worker=WorkerSpec("they", 6))
        return replace(entry, status=CompactionStatus.SCHEDULED, worker=None)

    with claim(stores) as claimed:
        claimed.check()
        change(stores, lose)
        before = fetch_compactions(stores)
        with pytest.raises(JobLostError):
            renew_heartbeats([claimed])
        with pytest.raises(JobLostError):
            claimed.check()
        with pytest.raises(JobLostError):
            claimed.hand_over([sst(1)])
        claimed.fail()
    assert fetch_compactions(stores) == before


def test_two_results_for_one_run_are_never_handed_over(stores: TableStores) -> None:
    with claim(stores) as claimed:
        rival = job(2, TieredSpec((), (7, 5), 5), CompactionStatus.RUNNING, "they")
        change(stores, lambda entry: rival if entry.id == job_id(2) else entry)
        with pytest.raises(SourcesGoneError):
            claimed.hand_over([sst(1)])


def test_a_result_of_sources_that_were_rewritten_is_not_handed_over(stores: TableStores) -> None:
    """Run 5 is another one by now: its id was given to the output of another job."""
    with claim(stores) as claimed:
        older = replace(TREES.compacted[1], views=TREES.compacted[0].views)
        publish(stores, 2, replace(TREES, compacted=(*TREES.compacted[:1], older, *TREES.compacted[2:])))
        with pytest.raises(SourcesGoneError):
            claimed.hand_over([sst(1)])
        assert not claimed.may_be_handed


def test_heartbeats(stores: TableStores) -> None:
    clock = FakeClock()
    with claim(stores, clock=clock) as claimed:
        first = entry_of(stores).worker
        clock.advance(5_000)
        renew_heartbeats([claimed])
        second = entry_of(stores).worker
        assert first is not None
        assert second is not None
        assert second.last_heartbeat_ms - first.last_heartbeat_ms == 5_000
        claimed.hand_over([])
        listed = fetch_compactions(stores)
        renew_heartbeats([claimed])
        assert fetch_compactions(stores) == listed, "after the end there is none"


@pytest.mark.parametrize("wrong_ms", [-HOUR_MS, HOUR_MS])
def test_heartbeats_do_not_follow_a_wrong_clock(stores: TableStores, wrong_ms: int) -> None:
    present_ms = FakeClock().now_ms()
    clock = FakeClock()
    clock.advance(wrong_ms)
    with claim(stores, clock=clock):
        worker = entry_of(stores).worker
        assert worker is not None
        assert abs(worker.last_heartbeat_ms - present_ms) < HOUR_MS // 2


def test_the_thread_sends_heartbeats(stores: TableStores) -> None:
    with claimed_job(jobs_of(stores), job_id(1), "we", heartbeat_ms=1) as claimed:
        assert isinstance(claimed, ClaimedJob)
        start = fetch_compactions(stores).number
        while fetch_compactions(stores).number < start + 3:
            pass


def test_an_interrupt_while_the_job_is_released_ends_the_heartbeats(
    stores: TableStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: ClaimedJob) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ClaimedJob, "release", interrupted)
    beating = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), claimed_job(jobs_of(stores), job_id(1), "we", heartbeat_ms=1):
        beating = set(threading.enumerate()) - beating
    assert beating
    assert not any(thread.is_alive() for thread in beating), "they would hold the job for as long as the process lives"


def test_a_list_that_was_replaced_is_found_again(stores: TableStores) -> None:
    clock = FakeClock()
    jobs = jobs_of(stores, clock)
    change(stores, lambda entry: entry)
    assert jobs.refresh().number == 2
    stores.main.delete("compactions/00000000000000000002.compactions")  # the database was dropped and made anew
    clock.advance(HOUR_MS)
    assert jobs.refresh().number == 1
