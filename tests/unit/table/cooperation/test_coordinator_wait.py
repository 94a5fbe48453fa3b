"""Why a job of ours found no turn."""

from __future__ import annotations

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.cooperation.coordinator_wait import LOCAL_POLL_MS, CoordinatorWait
from slatespark.table.stores import TableStores
from tests.support.clock_set_back import ClockSetBack
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import job, view_ids

SPEC = TieredSpec(view_ids(1), (), 1)
SUBMITTED, SCHEDULED = job(1, SPEC, CompactionStatus.SUBMITTED), job(1, SPEC)
COMPACTED = job(1, SPEC, CompactionStatus.COMPACTED, "client")
NEXT = job(2, SPEC)


def given_up(seen: list[Compaction], *blockers: Compaction, refused: int = 0) -> str:
    """The error after lists with one job each."""
    store = MemoryStore("turn")
    wait = CoordinatorWait(TableStores(main=store, wal=store), FakeClock(), timeout_ms=100)
    wait.refused = refused
    for each in seen:
        wait.observe(Compactions(1, (each,)))
    wait.clock.sleep_ms(100)
    with pytest.raises(CommitConflictError) as caught:
        wait.pause(blockers)
    return str(caught.value)


@pytest.mark.parametrize("waiting", [SUBMITTED, COMPACTED])
def test_nobody_answers(waiting: Compaction) -> None:
    """A job is listed, and stays as it is: what it waits for is a coordinator."""
    assert "no coordinator" in given_up([waiting, waiting])
    assert "no coordinator" in given_up([waiting, waiting], waiting)


def test_a_job_is_in_the_way() -> None:
    assert f"{SCHEDULED.id} (scheduled)" in given_up([SCHEDULED, SCHEDULED], SCHEDULED)
    message = given_up([COMPACTED, NEXT, COMPACTED], COMPACTED, refused=3)
    assert f"{COMPACTED.id} (compacted)" in message
    assert "3 jobs" in message


@pytest.mark.parametrize("answers", [[SUBMITTED, SCHEDULED], [COMPACTED, NEXT]])
def test_the_client_has_been_busy_with_its_own(answers: list[Compaction]) -> None:
    """No job is in the way at this moment, but there is a coordinator."""
    message = given_up(answers)
    assert "no coordinator" not in message
    assert "came first" in message


def test_a_clock_that_is_set_back_does_not_prolong_the_wait() -> None:
    store, clock = MemoryStore("turn"), ClockSetBack()
    wait = CoordinatorWait(TableStores(main=store, wal=store), clock, timeout_ms=100)
    for _ in range(100 // LOCAL_POLL_MS):
        wait.pause()
    with pytest.raises(CommitConflictError, match="no coordinator"):
        wait.pause()
