"""What became of a job that was handed over, on lists and versions in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.paths import manifest_path
from slatespark.format.references import SortedRun, SstHandle, SstView
from slatespark.table.cooperation.claimed_job import ClaimedJob, claimed_job
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import VOID, as_failed
from slatespark.table.cooperation.outcome import await_commit, await_end, find_commit, have_ended, withdraw
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.stores import TableStores
from tests.support.clock_set_back import ClockSetBack
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import change, database, job, job_id, manifest, publish, sst, view_ids

SUBMITTED, SCHEDULED, RUNNING, COMPACTED, COMPLETED, FAILED = (
    CompactionStatus.SUBMITTED,
    CompactionStatus.SCHEDULED,
    CompactionStatus.RUNNING,
    CompactionStatus.COMPACTED,
    CompactionStatus.COMPLETED,
    CompactionStatus.FAILED,
)
BEFORE = manifest(l0=3, runs=(7, 4))
SPEC = TieredSpec(view_ids(2, 3), (), 8)
OUTPUTS = (sst(20, first=b"a", last=b"m"), sst(21, first=b"n", last=b"z"))
TIMEOUT_MS: Final = 5_000
NEVER_BEATS: Final = 1 << 30
_names = itertools.count()


def after(outputs: tuple[SstHandle, ...] = OUTPUTS, *, run: int = 8, l0: int = 1) -> Manifest:
    """The version with these files in a run of their own, and so many L0 views."""
    made = SortedRun(run, tuple(SstView(output.id, output.id) for output in outputs))
    files = BEFORE.ssts.adding(outputs)
    return replace(BEFORE, ssts=files, l0=BEFORE.l0[:l0], compacted=(made, *BEFORE.compacted))


def versions(*later: Manifest) -> TableStores:
    stores = database(f"outcome-{next(_names)}", BEFORE)
    for number, shown in enumerate(later, 2):
        publish(stores, number, shown)
    return stores


# --- which version committed it -------------------------------------------------------------------------------------


def test_the_first_version_with_the_outputs_committed_it() -> None:
    stores = versions(BEFORE, after(), after())
    assert find_commit(stores, SPEC, OUTPUTS, first=2) == 3
    assert find_commit(stores, SPEC, OUTPUTS, first=4) == 4, "earlier ones are not asked"
    stores.main.delete(manifest_path(3))
    assert find_commit(stores, SPEC, OUTPUTS, first=2) == 4, "one that was collected is passed over"


@pytest.mark.parametrize(
    "other",
    [
        BEFORE,
        after(OUTPUTS[:1]),
        after(OUTPUTS[::-1]),
        after((sst(22),)),
        after(run=9),
        after(l0=2),
        replace(BEFORE, l0=BEFORE.l0[:1]),
        Manifest(ssts=after().ssts, segments=(Segment(b"s", None, (), after().compacted),)),
    ],
    ids=["unchanged", "fewer", "in another order", "others", "in another run", "a source", "none", "elsewhere"],
)
def test_other_versions_did_not_commit_it(other: Manifest) -> None:
    stores = versions(other)
    spec = replace(SPEC, segment=b"t") if other.segments else SPEC
    assert find_commit(stores, spec, OUTPUTS, first=2) is None


# --- the wait -------------------------------------------------------------------------------------------------------


@contextmanager
def handed_over(stores: TableStores, clock: FakeClock) -> Iterator[ClaimedJob]:
    with claimed_job(JobList(stores, clock), job_id(1), "we", heartbeat_ms=NEVER_BEATS) as claimed:
        assert claimed is not None
        claimed.hand_over(OUTPUTS)
        yield claimed


class Coordinator(FakeClock):
    """A clock under which others act on a list while somebody sleeps, at one time."""

    def __init__(self, stores: TableStores, at_ms: int, status: CompactionStatus) -> None:
        super().__init__()
        self.stores, self.status, self.end_ms = stores, status, self.now_ms() + at_ms
        self.seen: list[Compaction] = []

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        self.seen += fetch_compactions(self.stores).value.jobs[1:]
        if self.now_ms() >= self.end_ms:
            change(self.stores, lambda each: replace(each, status=self.status) if each.id == job_id(1) else each)


@pytest.mark.parametrize(("status", "version"), [(COMPLETED, 2), (FAILED, 2), (FAILED, None)])
def test_the_versions_tell_and_not_the_list(status: CompactionStatus, version: int | None) -> None:
    """A coordinator that died between both lists a committed job as failed."""
    stores = database(f"outcome-{next(_names)}", BEFORE, job(1, SPEC))
    clock = Coordinator(stores, 1_000, status)
    with handed_over(stores, clock) as claimed:
        publish(stores, 2, BEFORE if version is None else after())
        assert await_commit(claimed, OUTPUTS, timeout_ms=TIMEOUT_MS) == version
    assert 1_000 <= sum(clock.slept_ms) < 2_000
    assert [each.status for each in fetch_compactions(stores).value.jobs] == [status]


@pytest.mark.parametrize(("status", "version"), [(COMPLETED, 2), (COMPACTED, None)])
def test_lost_races_for_the_list_do_not_deny_a_commit(
    status: CompactionStatus, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others change the list all the time: neither a rival can be held off, nor the job be withdrawn."""

    def lose(jobs: JobList, change: object, **_: object) -> None:
        raise CommitConflictError("other processes changed it 20 times in a row.")

    stores = database(f"outcome-{next(_names)}", BEFORE, job(1, SPEC))
    clock = Coordinator(stores, 1_000, status)
    with handed_over(stores, clock) as claimed:
        if version is not None:
            publish(stores, 2, after())
        with monkeypatch.context() as patched:
            patched.setattr(JobList, "edit", lose)
            assert await_commit(claimed, OUTPUTS, timeout_ms=TIMEOUT_MS) == version
    assert [each.status for each in fetch_compactions(stores).value.jobs] == [status]


@pytest.mark.parametrize("make_clock", [FakeClock, ClockSetBack])
def test_a_job_that_nobody_commits_is_withdrawn(make_clock: type[FakeClock]) -> None:
    stores, clock = database(f"outcome-{next(_names)}", BEFORE, job(1, SPEC)), make_clock()
    with handed_over(stores, clock) as claimed:
        [handed] = fetch_compactions(stores).value.jobs
        assert await_commit(claimed, OUTPUTS, timeout_ms=TIMEOUT_MS) is None
    assert sum(clock.slept_ms) == TIMEOUT_MS
    assert fetch_compactions(stores).value.jobs == (as_failed(handed),)


def test_rivals_wait_until_it_has_ended() -> None:
    rival = job(2, TieredSpec((), (8, 7), 7))
    stores = database(f"outcome-{next(_names)}", BEFORE, job(1, SPEC))
    clock = Coordinator(stores, 1_000, COMPLETED)
    with handed_over(stores, clock) as claimed:
        listed = JobList(stores, clock)
        listed.edit(lambda found: replace(found, jobs=(*found.jobs, rival)))
        await_end([claimed], timeout_ms=TIMEOUT_MS)
        assert {(each.id, each.status) for each in clock.seen} == {(rival.id, RUNNING)}
        assert have_ended(listed, [job_id(1)])
        assert not have_ended(listed, [job_id(1), rival.id])
    assert fetch_compactions(stores).value.jobs[1:] == (rival,)


# --- taking it back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unless_begun", [False, True])
@pytest.mark.parametrize("status", [SUBMITTED, SCHEDULED, RUNNING, COMPACTED, COMPLETED, FAILED])
def test_active_jobs_are_taken_back(status: CompactionStatus, unless_begun: bool) -> None:
    found = replace(job(1, SPEC, status), worker=WorkerSpec("they", 5))
    other = job(2, TieredSpec((), (7,), 7))
    stores = database(f"outcome-{next(_names)}", BEFORE, found, other)
    jobs = JobList(stores, FakeClock())
    goes = status in (SUBMITTED, SCHEDULED) if unless_begun else status not in (COMPLETED, FAILED)
    for _ in range(2):
        withdraw(jobs, job_id(1), unless_begun=unless_begun)
        withdraw(jobs, job_id(3), unless_begun=unless_begun)
        assert fetch_compactions(stores).value.jobs == (as_failed(found) if goes else found, other)
        assert fetch_compactions(stores).number == 1 + goes, "nothing is published where nothing changes"
    assert as_failed(found).spec == VOID
