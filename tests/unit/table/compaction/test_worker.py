"""Worker: how `run` ends."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest

from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.compaction.worker import Worker
from slatespark.table.compaction.worker_session import FIRST_PAUSE_MS, ServedDatabase, WorkerSession
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.stores import open_stores

PATIENCE_S = 60.0


@pytest.mark.parametrize("run", ["run", "runOnce"])
def test_an_interrupt_stops_the_jobs_instead_of_waiting_for_their_end(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, was_stopped = Worker(), list[bool]()

    def interrupted(session: WorkerSession) -> None:
        thread = threading.Thread(target=lambda: was_stopped.append(worker._stop.wait(PATIENCE_S)), daemon=True)
        session.merging[thread] = None  # type: ignore[assignment]  # of no database
        thread.start()
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkerSession, "refresh", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.run() if run == "run" else worker.runOnce()
    assert was_stopped == [True]
    assert not worker._stop.is_set(), "it can run again"


def test_a_job_that_fails_while_others_are_forgotten() -> None:
    """It is on a thread of its own, and has to be left alone for a while."""
    database = ServedDatabase("memory://served", Mock(), Mock())

    class Failing(Ulid):
        """Another job fails as this one is looked for in the list."""

        def __hash__(self) -> int:
            if database.pauses:
                database.pause(Ulid(2), 0)
            return super().__hash__()

    database.pause(Failing(1), 0)
    database.pause(Ulid(3), 0)
    database.forget_ended([Compaction(Ulid(2), TieredSpec((), (), 0), CompactionStatus.SCHEDULED)])
    assert set(database.pauses) == {Ulid(2)}


def test_a_clock_that_is_set_back_does_not_prolong_a_pause() -> None:
    """A machine without a network, whose clock is wrong until it has one."""
    stores = open_stores("memory://set-back", storage={})
    database = ServedDatabase("set-back", JobList(stores, SystemClock()), WriteOptions.parse({"path": "set-back"}))
    later_ms = 1_900_000_000_000
    for what in (None, Ulid(1)):
        database.pause(what, later_ms)
        assert not database.may_try(what, later_ms + 1)
        assert database.may_try(what, later_ms + FIRST_PAUSE_MS)
        assert database.may_try(what, later_ms - 365 * 86_400_000)
