"""Worker: how `run` ends."""

from __future__ import annotations

import threading

import pytest

from slatespark.table.compaction.worker import Worker
from slatespark.table.compaction.worker_session import WorkerSession

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
