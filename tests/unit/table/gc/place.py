"""A table in memory to be vacuumed, whose objects have the times of its clock."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from slatespark import SlateStore
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    TieredSpec,
    WorkerSpec,
    encode_compactions,
)
from slatespark.format.paths import sst_path
from slatespark.format.ulid import make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.gc.report import VacuumReport
from slatespark.table.log.compactions import compactions_log, fetch_compactions
from slatespark.table.records.commit_record import BATCHES_DIR
from tests.faults.jobs import stores_of, table_of
from tests.support.fake_clock import FakeClock

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
_names = itertools.count()


class Place:
    """A raw table in memory, whose objects have the times of its clock."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(f"gc-run-{next(_names)}/db", self.clock.now_ms)
        self.stores = stores_of(self.store)
        given = {"versionRetention": "none", "autoCompact": False, **properties}
        self.table = SlateStore.create(self.store.url, clock=self.clock, **given)

    def write(self, *keys: bytes, **options: Any) -> int:
        self.clock.advance(MINUTE_MS)
        return self.table.write(table_of([(key, b"x") for key in keys]), **options)

    def vacuum(self, min_age: str = "1h", **options: Any) -> VacuumReport:
        return self.table.vacuum(min_age, force=True, **options)

    def ssts(self) -> set[str]:
        return {meta.path for meta in self.store.list("compacted/")}

    def batches(self) -> set[str]:
        return {meta.path for meta in self.store.list(BATCHES_DIR)}

    def put_sst(self, made_ms: int) -> str:
        """An unreferenced file."""
        path = sst_path(make_ulid(made_ms, self.clock.random_bits(80)))
        self.store.put(path, [b"a file"])
        return path

    def list_jobs(self, *jobs: Compaction) -> None:
        number, state = fetch_compactions(self.stores)
        log = compactions_log(self.stores)
        log.create(number + 1, encode_compactions(Compactions(state.compactor_epoch, jobs)))

    def reason(self, report: VacuumReport, path: str) -> str:
        return next(file.reason for file in report.files if file.path == path)


def actions(report: VacuumReport, paths: Sequence[str]) -> list[str]:
    by_path = {file.path: file.action for file in report.files}
    return [by_path[path] for path in paths]


def job_of(made_ms: int, worker: WorkerSpec | None, status: CompactionStatus = CompactionStatus.RUNNING) -> Compaction:
    return Compaction(make_ulid(made_ms, 1), TieredSpec((), (0,), 0), status, worker=worker)
