"""Jobs of others on the sources of one that waits for its commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    DrainSpec,
    TieredContext,
    TieredSpec,
    WorkerSpec,
)
from slatespark.table.commit.hold import plan_hold
from slatespark.table.cooperation.job_rules import as_failed
from slatespark.table.cooperation.rivals import hold_off, release
from tests.unit.table.cooperation.lists import job, job_id, view_ids

SUBMITTED, SCHEDULED, RUNNING, COMPACTED, COMPLETED = (
    CompactionStatus.SUBMITTED,
    CompactionStatus.SCHEDULED,
    CompactionStatus.RUNNING,
    CompactionStatus.COMPACTED,
    CompactionStatus.COMPLETED,
)
HANDED = job(1, TieredSpec((), (7, 5), 5), COMPACTED, "we")
SHARES_A_RUN = TieredSpec((), (5, 2), 2)
PROGRESS = TieredContext((), 4)
HOLDER = WorkerSpec("we-1", 9)
SCHEDULED_RIVAL = job(2, SHARES_A_RUN)
HELD_RIVAL = replace(SCHEDULED_RIVAL, status=RUNNING, worker=HOLDER)


def test_a_rival_that_waits_is_held_and_let_go() -> None:
    held = hold_off(Compactions(3, (HANDED, SCHEDULED_RIVAL)), HANDED, HOLDER)
    assert held.jobs == (HANDED, HELD_RIVAL)
    assert hold_off(held, HANDED, HOLDER) == held
    assert release(held, HANDED, HOLDER, {job_id(2)}).jobs == (HANDED, SCHEDULED_RIVAL)


def test_a_rival_that_was_only_submitted_fails() -> None:
    submitted = job(2, SHARES_A_RUN, SUBMITTED)
    listed = Compactions(3, (HANDED, submitted))
    assert hold_off(listed, HANDED, HOLDER).jobs == (HANDED, as_failed(submitted))
    assert release(listed, HANDED, HOLDER, {job_id(2)}) == listed, "the commit is done"


def test_a_rival_that_was_begun_is_taken_from_its_worker() -> None:
    """The holder sends no heartbeats, so the coordinator takes it back once its former worker has noticed."""
    begun = replace(job(2, SHARES_A_RUN, RUNNING, "they"), context=PROGRESS)
    taken = replace(begun, worker=WorkerSpec("we-1-taken", 9), context=None)
    held = hold_off(Compactions(3, (HANDED, begun)), HANDED, HOLDER)
    assert held.jobs == (HANDED, taken)
    assert hold_off(held, HANDED, WorkerSpec("we-1", 10)) == held
    assert release(held, HANDED, HOLDER, {job_id(2)}) == held
    listed = Compactions(3, (HANDED, begun))
    assert release(listed, HANDED, HOLDER, {job_id(2)}).jobs == (HANDED, taken)
    assert release(listed, HANDED, HOLDER, {job_id(1)}) == listed, "it was begun after the commit"


@pytest.mark.parametrize(
    "begun",
    [
        job(2, SHARES_A_RUN, COMPACTED, "they"),
        job(2, TieredSpec((), (8, 7), 7), RUNNING, "they"),
        job(2, TieredSpec((), (7, 5, 2), 2), RUNNING, "they"),
    ],
    ids=["it has ended", "its run goes", "one of its runs goes"],
)
def test_a_rival_that_cannot_be_done_again_fails(begun: Compaction) -> None:
    listed = Compactions(3, (HANDED, begun))
    assert hold_off(listed, HANDED, HOLDER).jobs == (HANDED, as_failed(begun))
    assert release(listed, HANDED, HOLDER, {job_id(2)}).jobs == (HANDED, as_failed(begun))


@pytest.mark.parametrize(
    "other",
    [
        job(2, TieredSpec((), (2, 1), 1), SUBMITTED),
        job(2, DrainSpec(b"", (), (5, 2)), SUBMITTED),
        job(2, TieredSpec((), (2, 1), 1), RUNNING, "they"),
        job(2, TieredSpec((), (2, 1), 1)),
        job(2, SHARES_A_RUN, COMPLETED, "they"),
        as_failed(job(2, SHARES_A_RUN, RUNNING, "they")),
    ],
    ids=["other runs, submitted", "a drain", "other runs, running", "other runs, waiting", "ended", "failed"],
)
def test_other_jobs_stay_as_they_are(other: Compaction) -> None:
    listed = Compactions(3, (HANDED, other))
    assert hold_off(listed, HANDED, HOLDER) == listed
    assert release(listed, HANDED, HOLDER, {job_id(2)}) == listed


def test_a_job_on_newer_views_of_the_same_tree_stays_as_it_is() -> None:
    """It could not have been submitted beside the one that was handed over, but no longer loses rows."""
    handed = job(1, TieredSpec(view_ids(3), (), 8), COMPACTED, "we")
    listed = Compactions(3, (handed, job(2, TieredSpec(view_ids(2), (), 9))))
    assert hold_off(listed, handed, HOLDER) == listed


def test_a_hold_of_a_commit_stays() -> None:
    hold = plan_hold((7, 5, 2), job_id(3))
    assert hold is not None
    listed = Compactions(3, (HANDED, hold))
    assert hold_off(listed, HANDED, HOLDER) == listed
