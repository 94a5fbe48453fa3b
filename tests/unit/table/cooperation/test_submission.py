"""Jobs that are submitted to a client."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slatespark import CommitConflictError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SortedRun
from slatespark.table.cooperation.claimed_job import PATIENCE, claimed_job
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import spec_of_slice
from slatespark.table.cooperation.submission import JobTakenError, Submitter
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import change, database, job, job_id, manifest, publish, sst, view_ids
from tests.unit.table.cooperation.test_following import BEFORE, HANDED

SPEC = TieredSpec(view_ids(1, 2), (), 5)


def contest(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """Let others be faster at the next edits of a list, each time."""
    edit, calls = JobList.edit, itertools.count()

    def contested(*given: Any, **named: Any) -> Any:
        if next(calls) < lost:
            raise CommitConflictError("Others were faster.")
        return edit(*given, **named)

    monkeypatch.setattr(JobList, "edit", contested)


@pytest.mark.parametrize(("lost", "is_submitted"), [(3, True), (10**6, False)])
def test_a_list_that_others_change_all_the_time(
    lost: int, *, is_submitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, clock = database(f"submission/{lost}", manifest(l0=2)), FakeClock()
    submitter = Submitter(stores, clock, timeout_ms=5000)
    contest(monkeypatch, lost)
    began_ms = clock.now_ms()
    if is_submitted:
        assert submitter._submit(lambda *_: [SPEC], submitter._new_wait()) is not None
        assert [job.spec for job in fetch_compactions(stores).value.jobs] == [SPEC]
    else:
        with pytest.raises(CommitConflictError):
            submitter._submit(lambda *_: [SPEC], submitter._new_wait())
        assert 5000 <= clock.now_ms() - began_ms < 10_000


@pytest.mark.parametrize(("lost", "is_claimed"), [(3, True), (10**6, False)])
def test_a_claim_in_a_list_that_others_change_all_the_time(
    lost: int, *, is_claimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, clock = database(f"contested claim/{lost}", manifest(l0=2)), FakeClock()
    submitter = Submitter(stores, clock, timeout_ms=5000)
    wait = submitter._new_wait()
    submitted = submitter._submit(lambda *_: [SPEC], wait)
    assert submitted is not None
    change(stores, lambda entry: replace(entry, status=CompactionStatus.SCHEDULED))
    contest(monkeypatch, lost)
    with contextlib.ExitStack() as stack:
        if is_claimed:
            claimed = submitter._claim(stack, submitted[0], "slatespark-worker-x", wait)
            assert claimed is not None
            assert [job.id for job in claimed] == list(submitted[0])
        else:
            with pytest.raises(CommitConflictError, match="within 5000 ms"):
                submitter._claim(stack, submitted[0], "slatespark-worker-x", wait)


@pytest.mark.parametrize(("lost", "is_handed"), [(PATIENCE, True), (PATIENCE + 1, False)])
def test_a_hand_over_in_a_list_that_others_change_all_the_time(
    lost: int, *, is_handed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = TieredSpec((), (5, 2), 2)
    stores = database(f"contested hand-over/{lost}", manifest(runs=(5, 2)), job(1, spec))
    with claimed_job(JobList(stores, FakeClock()), job_id(1), "we", heartbeat_ms=1 << 30) as claimed:
        assert claimed is not None
        contest(monkeypatch, lost)
        if is_handed:
            claimed.hand_over([sst(1)])
        else:
            with pytest.raises(CommitConflictError):
                claimed.hand_over([sst(1)])
    (entry,) = [entry for entry in fetch_compactions(stores).value.jobs if entry.id == job_id(1)]
    assert (entry.status is CompactionStatus.COMPACTED) == is_handed


def test_a_hand_over_that_seemed_to_have_lost_is_none_of_a_lost_job(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = database("hidden hand-over", manifest(runs=(5, 2)), job(1, TieredSpec((), (5, 2), 2)))
    edit, answers = JobList.edit, iter([CommitConflictError("Others were faster.")])

    def answered_late(*given: Any, **named: Any) -> Any:
        found = edit(*given, **named)
        for error in answers:
            raise error
        return found

    with claimed_job(JobList(stores, FakeClock()), job_id(1), "we", heartbeat_ms=1 << 30) as claimed:
        assert claimed is not None
        monkeypatch.setattr(JobList, "edit", answered_late)
        claimed.hand_over([sst(1)])
        assert claimed.entry.status is CompactionStatus.COMPACTED


def test_after_a_lost_race_only_the_jobs_that_are_listed_are_awaited() -> None:
    stores = database("raced submission", manifest(l0=2, runs=(2,)))
    theirs = job(9, TieredSpec((), (2,), 2), CompactionStatus.RUNNING, "they")

    def be_faster() -> None:
        create_compactions(stores, Version(2, Compactions(3, (theirs,))))

    store = FailingStore(stores.main).run(be_faster, "create", "compactions/*")
    submitter = Submitter(TableStores(main=store, wal=store), FakeClock(), timeout_ms=5000)
    submitted = submitter._submit(lambda *_: [SPEC], submitter._new_wait())
    assert submitted is not None
    listed = fetch_compactions(stores).value.jobs
    assert [each.spec for each in listed] == [theirs.spec, SPEC]
    assert submitted[0] == (listed[1].id,)


# --- ahead of a commit ----------------------------------------------------------------------------------------------


def all_l0(manifest: Manifest, listed: Compactions, runs: int = 1) -> list[TieredSpec]:
    return [spec_of_slice(manifest, listed, b"", l0=len(manifest.l0), runs=(0, runs))]


def test_a_job_is_submitted_for_the_version_that_a_commit_will_make() -> None:
    stores = database("followed", BEFORE, HANDED)
    submitter = Submitter(stores, FakeClock(), timeout_ms=5000, follows=True)
    submitted = submitter._submit(all_l0, submitter._new_wait())
    assert submitted is not None
    [_, followed] = fetch_compactions(stores).value.jobs
    assert (followed.id,) == submitted[0]
    assert followed.spec == TieredSpec(view_ids(1), (8,), 8)


@pytest.mark.parametrize(
    ("blockers", "runs", "follows"),
    [
        ([HANDED], 1, False),
        ([HANDED], 0, True),
        ([replace(HANDED, status=CompactionStatus.RUNNING)], 1, True),
        ([HANDED, job(2, TieredSpec((), (7, 4), 4), CompactionStatus.RUNNING, "client")], 1, True),
    ],
    ids=["nobody wants to", "it would do without the commit", "not handed over", "one of two cannot be followed"],
)
def test_no_other_job_is_submitted_ahead_of_a_commit(
    blockers: list[Compaction], runs: int, *, follows: bool, request: pytest.FixtureRequest
) -> None:
    stores = database(request.node.name, BEFORE, *blockers)
    submitter = Submitter(stores, FakeClock(), timeout_ms=5000, follows=follows)
    with pytest.raises(CommitConflictError):
        submitter._submit(lambda found, listed: all_l0(found, listed, runs), submitter._new_wait())
    assert fetch_compactions(stores).value.jobs == tuple(blockers)


# --- jobs that another worker does ----------------------------------------------------------------------------------


class Others(FakeClock):
    """A clock under which others act while somebody sleeps, one step each time."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        super().__init__()
        self.steps = list(steps)

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        if self.steps:
            self.steps.pop(0)()


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_job_that_another_worker_takes(*, is_committed: bool, request: pytest.FixtureRequest) -> None:
    before = manifest(runs=(5, 2))
    stores = database(request.node.name, before)
    spec = TieredSpec((), (5, 2), 2)

    def become(status: CompactionStatus) -> None:
        worker = WorkerSpec("client", 5)
        change(stores, lambda each: replace(each, status=status, worker=worker))

    def end() -> None:
        if is_committed:
            publish(stores, 2, replace(before, compacted=(SortedRun(2, before.compacted[0].views),)))
        become(CompactionStatus.COMPLETED if is_committed else CompactionStatus.FAILED)

    running, handed = CompactionStatus.RUNNING, CompactionStatus.COMPACTED
    clock = Others(lambda: become(running), lambda: become(handed), end)
    submitter = Submitter(stores, clock, timeout_ms=5000, accepts_others=True)
    specs = iter([spec, None])
    if is_committed:
        with pytest.raises(JobTakenError) as caught, submitter.job(lambda *_: next(specs)):
            pass
        assert (caught.value.spec, caught.value.planned, caught.value.version) == (spec, before, 2)
    else:
        with submitter.job(lambda *_: next(specs)) as claimed:
            assert claimed is None, "the plan was asked again"
        assert next(specs, spec) == spec
