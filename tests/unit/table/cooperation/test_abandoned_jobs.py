"""Which jobs in the way are ended: those that nobody works on, after exactly as long as that takes to be known."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.cooperation.abandoned_jobs import IDLE_MS, SILENT_MS, AbandonedJobs
from slatespark.table.cooperation.claimed_job import new_worker_id
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import as_failed
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import MADE_MS, change, database, job

_names = itertools.count()
OURS: Final = new_worker_id(FakeClock(0))
RUNNING = CompactionStatus.RUNNING


@dataclass
class InTheWay:
    """A database whose only job is in the way, and a process that waits for its turn."""

    found: Compaction
    clock: FakeClock = field(default_factory=lambda: FakeClock(MADE_MS))
    stores: TableStores = field(init=False)
    abandoned: AbandonedJobs = field(init=False)

    def __post_init__(self) -> None:
        name = f"abandoned-{next(_names)}"
        MemoryStore(name, self.clock.now_ms)
        self.stores = database(name, Manifest(), self.found)
        self.abandoned = AbandonedJobs(JobList(self.stores, self.clock))

    def is_ended(self) -> bool:
        """Look at it once more, and tell whether it is ended."""
        self.abandoned.end([self.found])
        [left] = fetch_compactions(self.stores).value.jobs
        assert left in (self.found, as_failed(self.found))
        return left != self.found


def running(worker: str | None, heartbeat_ms: int = MADE_MS) -> Compaction:
    found = job(1, TieredSpec((), (2, 1), 1), RUNNING)
    return found if worker is None else replace(found, worker=WorkerSpec(worker, heartbeat_ms))


def test_a_job_of_a_silent_process_of_slatespark_is_ended() -> None:
    way = InTheWay(running(OURS))
    way.clock.advance(SILENT_MS)
    assert not way.is_ended()
    way.clock.advance(1)
    assert way.is_ended()


def test_a_job_that_no_worker_takes_is_ended() -> None:
    """The time begins when it is seen first: nothing tells since when it is scheduled."""
    way = InTheWay(job(1, TieredSpec((), (2, 1), 1)))
    way.clock.advance(10 * IDLE_MS)
    assert not way.is_ended()
    way.clock.advance(IDLE_MS)
    assert not way.is_ended()
    way.clock.advance(1)
    assert way.is_ended()


@pytest.mark.parametrize(
    "other",
    [
        running("a client's"),
        running(None),
        running(OURS, MADE_MS + 100 * SILENT_MS),
        job(1, TieredSpec((), (2, 1), 1), CompactionStatus.SUBMITTED),
        job(1, TieredSpec((), (2, 1), 1), CompactionStatus.COMPACTED, OURS),
    ],
    ids=["a client's, which a coordinator takes back", "of no worker", "alive", "submitted", "handed over"],
)
def test_other_jobs_stay(other: Compaction) -> None:
    way = InTheWay(other)
    for _ in range(3):
        assert not way.is_ended()
        way.clock.advance(10 * SILENT_MS)


def test_a_job_that_goes_on_at_this_moment_stays() -> None:
    way = InTheWay(running(OURS))
    way.clock.advance(SILENT_MS + 1)
    beating = running(OURS, way.clock.now_ms())
    change(way.stores, lambda _: beating)
    way.abandoned.end([way.found])
    assert fetch_compactions(way.stores).value.jobs == (beating,)
