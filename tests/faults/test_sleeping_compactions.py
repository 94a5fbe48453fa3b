"""A compaction whose process sleeps past its lease, while a vacuum elsewhere is about to delete its files."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from slatespark import SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.compaction.job import ListedJob
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.ranges import run_here
from slatespark.table.log.compactions import edit_compactions
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

HOUR_MS = 3_600_000
_names = itertools.count(1)


@dataclass
class SlowVacuum(FailingStore):
    """The store of a vacuum that has decided what to delete, and has not deleted it yet."""

    waiting: list[str] = field(default_factory=list)

    def delete(self, path: str) -> None:
        if path.startswith("compacted/"):
            self.waiting.append(path)
        else:
            super().delete(path)

    def go_on(self) -> None:
        for path in self.waiting:
            self.inner.delete(path)


@dataclass
class Scene:
    """A table whose compaction stops right before its commit."""

    inner: MemoryStore
    clock: FakeClock
    store: FailingStore
    before: list[object]
    jobs: list[ListedJob] = field(default_factory=list)

    @property
    def table(self) -> SlateStore:
        return store_on(self.inner, self.clock)

    def compact(self, asleep: Callable[[], object]) -> None:
        """Merge all runs; `asleep` is called once when the outputs are uploaded."""
        stores = stores_of(self.store)

        def merge(tasks: Sequence[RangeTask]) -> list[MergedRange]:
            parts = list(run_here(stores, self.clock, tasks))
            asleep()
            return parts

        store_on(self.store, self.clock).compact(full=True, runner=merge)

    def check(self) -> None:
        assert our_rows(self.table) == self.before
        assert not self.table.verify().findings
        assert len(self.table.runs()) == 1


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Four runs; heartbeats are sent when a test says so."""
    inner, clock = MemoryStore(f"sleeping-{next(_names)}"), FakeClock()
    for number in range(4):
        rows = table_of([(b"%02d" % key, b"%d" % number) for key in range(number, 20)])
        Job(inner, clock).upload(rows).commit()
    table = store_on(inner, clock)
    found = Scene(inner, clock, FailingStore(inner), list(our_rows(table)))

    def remember(job: ListedJob) -> None:
        found.jobs.append(job)
        job._ended.wait()

    monkeypatch.setattr(ListedJob, "report_regularly", remember)
    return found


@pytest.mark.parametrize("heartbeat_first", [False, True])
def test_asleep_past_the_lease(scene: Scene, heartbeat_first: bool) -> None:
    slow = SlowVacuum(scene.inner)

    def asleep() -> None:
        scene.clock.advance(LEASE_LIFETIME_MS + HOUR_MS)
        store_on(slow, FakeClock(scene.clock.now_ms(), seed=9)).vacuum("1h")
        assert slow.waiting
        if heartbeat_first:
            scene.jobs[0].report()

    scene.compact(asleep)
    slow.go_on()
    scene.check()


def test_an_entry_that_a_coordinator_removed(scene: Scene) -> None:
    """A client's coordinator reclaims a job after 30 s without a heartbeat; then its collector takes the files."""
    waiting: list[str] = []

    def asleep() -> None:
        scene.clock.advance(10 * 60_000)
        edit_compactions(stores_of(scene.inner), scene.clock, lambda listed: replace(listed, jobs=()))
        referenced = {f"compacted/{file.id}.sst" for file in scene.table.files()}
        waiting.extend(meta.path for meta in scene.inner.list("compacted/") if meta.path not in referenced)

    scene.compact(asleep)
    assert waiting
    for path in waiting:
        scene.inner.delete(path)
    scene.check()


def test_awake_nothing_is_copied(scene: Scene) -> None:
    def working() -> None:
        for _ in range(6):
            scene.clock.advance(LEASE_LIFETIME_MS // 3)
            scene.jobs[0].report()

    scene.compact(working)
    assert scene.store.count("copy") == 0
    scene.check()
    hearts = {f"slatespark-{job.lease.write_id}" for job in scene.jobs}
    assert hearts
    assert not hearts & {thread.name for thread in threading.enumerate()}
