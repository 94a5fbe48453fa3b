"""Jobs that are submitted to a client."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import Any

import pytest

from slatespark import CommitConflictError
from slatespark.format.compactions import CompactionStatus, TieredSpec
from slatespark.table.cooperation.claimed_job import PATIENCE, claimed_job
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.log.compactions import fetch_compactions
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import change, database, job, job_id, manifest, sst, view_ids

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
