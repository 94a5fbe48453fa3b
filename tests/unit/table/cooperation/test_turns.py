"""Jobs of slatespark beside a client of SlateDB 0.18, which schedules no more jobs than it may run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from slatespark import CommitConflictError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.references import SortedRun, SstMap, SstView
from slatespark.format.ulid import Ulid
from slatespark.table.cooperation.abandoned_jobs import IDLE_MS
from slatespark.table.cooperation.claimed_job import ClaimedJob, hand_over_together, renew_heartbeats
from slatespark.table.cooperation.job_rules import VOID, find_job, with_job
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import change, database, job, job_id, sst

SUBMITTED, SCHEDULED, RUNNING = CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED, CompactionStatus.RUNNING
COMPACTED, FAILED = CompactionStatus.COMPACTED, CompactionStatus.FAILED
NEVER_BEATS: Final = 1 << 30
SEGMENTS: Final = 6
ADOPTED: Final = {  # what 0.17 and 0.18 take over from others: CompactionStatus::should_adopt_state_transition
    SUBMITTED: [COMPACTED],
    SCHEDULED: [RUNNING, COMPACTED],
    RUNNING: [SCHEDULED, RUNNING, COMPACTED],
    COMPACTED: [COMPACTED],
}


def shown(count: int = SEGMENTS + 1) -> Manifest:
    """Segments of one file each: run 1, 2, ..."""
    files = [sst(number) for number in range(1, count + 1)]
    trees = [
        Segment(b"%d" % run, None, (), (SortedRun(run, (SstView(file.id, file.id),)),))
        for run, file in enumerate(files, 1)
    ]
    return Manifest(ssts=SstMap(files), segments=tuple(trees), segment_extractor_name="first byte")


def spec_of(run: int) -> TieredSpec:
    return TieredSpec((), (run,), run, b"%d" % run)


def plan(*_: object) -> list[TieredSpec]:
    return [spec_of(run) for run in range(1, SEGMENTS + 1)]


@dataclass
class LimitedCoordinator:
    """The coordinator of a client, and the list of jobs as it has it.

    Attributes
    ----------
    most : `max_concurrent_compactions`
    commits : the jobs that it has committed, by poll
    """

    stores: TableStores
    most: int
    own: dict[Ulid, Compaction] = field(default_factory=dict)
    commits: list[set[Ulid]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = {each.id: each for each in fetch_compactions(self.stores).value.jobs}

    def tick(self) -> None:
        number, listed = fetch_compactions(self.stores)
        for each in listed.jobs:
            before = self.own.get(each.id)
            if each.status in (SUBMITTED, COMPACTED) if before is None else each.status in ADOPTED[before.status]:
                self.own[each.id] = each
        done = [each for each in self.own.values() if each.status is COMPACTED]
        committed = {each.id for each in done if each.spec != VOID}
        self.commits.extend([committed] if committed else [])
        self.own = {each.id: each for each in self.own.values() if each.status is not COMPACTED}
        for each in sorted(self.own.values(), key=lambda each: each.id):
            counted = [other for other in self.own.values() if other.status in (SCHEDULED, RUNNING)]
            if each.status is SUBMITTED and len(counted) < self.most:
                self.own[each.id] = replace(each, status=SCHEDULED)
        jobs = tuple(self.own.values())
        if jobs != listed.jobs:
            create_compactions(self.stores, Version(number + 1, Compactions(listed.compactor_epoch, jobs)))


class PolledClock(FakeClock):
    """A clock whose sleeper oversleeps, and lets a coordinator look."""

    def __init__(self) -> None:
        super().__init__()
        self.step: Callable[[], None] = lambda: None

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(50 * duration_ms)
        self.step()


def beside(name: str, most: int, *jobs: Compaction) -> tuple[LimitedCoordinator, Submitter]:
    stores, clock = database(f"turns/{name}/{most}", shown(), *jobs), PolledClock()
    client = LimitedCoordinator(stores, most)
    clock.step = client.tick
    return client, Submitter(stores, clock, timeout_ms=30_000, heartbeat_ms=NEVER_BEATS)


def states(stores: TableStores, job_ids: Sequence[Ulid]) -> list[CompactionStatus | None]:
    found = [find_job(fetch_compactions(stores).value, each) for each in job_ids]
    return [None if each is None else each.status for each in found]


def hand_over(claimed: Sequence[ClaimedJob]) -> None:
    hand_over_together({each: [sst(50 + at)] for at, each in enumerate(claimed)})


def hand_over_after(submitter: Submitter, change: Callable[[Compactions], Compactions]) -> None:
    """Claim the jobs, let somebody change the list, and hand them over."""
    with submitter.jobs_together(plan) as claimed:
        assert claimed is not None
        number, listed = fetch_compactions(submitter.stores)
        create_compactions(submitter.stores, Version(number + 1, change(listed)))
        hand_over(claimed)


def others_job(status: CompactionStatus, heartbeat_ms: int = 0) -> Compaction:
    """A job of the client's scheduler, in a segment that no job of ours needs."""
    worker = WorkerSpec("client", heartbeat_ms) if status is RUNNING else None
    return replace(job(1, spec_of(SEGMENTS + 1), status), worker=worker)


@pytest.mark.parametrize("most", [1, 4, SEGMENTS, 16])
def test_more_jobs_than_the_client_runs_at_once_are_committed_together(most: int) -> None:
    client, submitter = beside("together", most)
    with submitter.jobs_together(plan) as claimed:
        assert claimed is not None
        job_ids = [each.id for each in claimed]
        held = min(most, SEGMENTS)
        assert states(client.stores, job_ids) == [RUNNING] * held + [SUBMITTED] * (SEGMENTS - held)
        client.tick()
        renew_heartbeats(claimed)
        hand_over(claimed)
        client.tick()
    assert client.commits == [set(job_ids)]
    assert fetch_compactions(client.stores).value.jobs == ()


def test_a_turn_that_comes_during_the_merge_is_taken() -> None:
    client, submitter = beside("later turn", 2, others_job(SCHEDULED))
    with submitter.jobs_together(plan) as claimed:
        assert claimed is not None
        job_ids = [each.id for each in claimed]
        assert states(client.stores, job_ids) == [RUNNING] + [SUBMITTED] * (SEGMENTS - 1)
        change(client.stores, lambda each: replace(each, status=COMPACTED) if each.id == job_id(1) else each)
        client.tick()  # schedules one more, which the thread of the heartbeats takes
        while SCHEDULED in (found := states(client.stores, job_ids)):
            pass
        assert found == [RUNNING] * 2 + [SUBMITTED] * (SEGMENTS - 2)
        client.tick()
        hand_over(claimed)
        client.tick()
    assert client.commits[-1] == set(job_ids)


def test_a_turn_that_a_worker_of_the_client_takes_ends_the_attempt() -> None:
    client, submitter = beside("taken turn", 1)
    worker = WorkerSpec("client", 5)

    def taken(listed: Compactions) -> Compactions:
        return with_job(listed, replace(listed.jobs[1], status=RUNNING, worker=worker))

    with pytest.raises(CommitConflictError):
        hand_over_after(submitter, taken)
    left = fetch_compactions(client.stores).value.jobs
    assert [each.worker for each in left if each.spec != VOID] == [worker], "that job is its own"


def test_a_waiting_job_that_the_client_would_refuse_is_not_handed_over() -> None:
    """A scheduled job on its run, which somebody submitted."""
    client, submitter = beside("refused", 1)
    rival = job(1, spec_of(SEGMENTS), SCHEDULED)
    with pytest.raises(CommitConflictError):
        hand_over_after(submitter, lambda listed: with_job(listed, rival))
    client.tick()
    assert client.commits == []


def test_jobs_that_wait_do_not_stay_behind() -> None:
    client, submitter = beside("left", 2)
    with pytest.raises(ZeroDivisionError), submitter.jobs_together(plan):
        raise ZeroDivisionError
    client.tick()
    assert client.commits == []
    assert fetch_compactions(client.stores).value.jobs == ()


def test_jobs_of_the_client_that_no_worker_takes_do_not_keep_the_turn() -> None:
    client, submitter = beside("idle", 1, others_job(SCHEDULED))
    began_ms = submitter.clock.now_ms()
    with submitter.jobs_together(plan) as claimed:
        assert claimed is not None
        assert IDLE_MS < submitter.clock.now_ms() - began_ms < 2 * IDLE_MS
    assert states(client.stores, [job_id(1)]) == [None]


def test_jobs_that_a_killed_process_submitted_get_their_turn_to_be_ended() -> None:
    """They wait for the job that no worker takes, and ours wait for them."""
    left = replace(job(2, spec_of(1)), status=SUBMITTED)
    client, submitter = beside("killed", 1, others_job(SCHEDULED), left)
    with submitter.jobs_together(plan) as claimed:
        assert claimed is not None
    assert states(client.stores, [job_id(1), left.id]) == [None, None]


def test_a_job_of_the_client_that_keeps_the_turn_is_named() -> None:
    client, submitter = beside("busy", 1)
    busy = others_job(RUNNING, submitter.clock.now_ms() + 15_000)
    client.own[busy.id] = busy
    client.tick()
    with pytest.raises(CommitConflictError) as caught, submitter.jobs_together(plan):
        pass
    assert f"{busy.id} (running)" in str(caught.value)
    assert "no coordinator" not in str(caught.value)
    client.tick()
    assert states(client.stores, [busy.id]) == [RUNNING]
    assert len(fetch_compactions(client.stores).value.jobs) == 1


@pytest.mark.parametrize("left", [SCHEDULED, RUNNING])
def test_a_job_that_a_closed_client_left_hides_nothing(left: CompactionStatus) -> None:
    """Nobody answers, and that is what the error says."""
    _, submitter = beside(f"closed {left.name}", 1, others_job(left))
    submitter.clock = submitter.jobs.clock = PolledClock()
    with pytest.raises(CommitConflictError, match="no coordinator"), submitter.jobs_together(plan):
        pass
