"""Worker: how `run` ends."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest

from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.table.compaction.worker import Worker
from slatespark.table.compaction.worker_session import ServedDatabase, WorkerSession

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
