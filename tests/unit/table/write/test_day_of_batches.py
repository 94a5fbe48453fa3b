"""A day of a stream at speed: neither what its batches leave in the table nor what one of them costs grows with time.

The clock stands while a batch is written, and goes on by 17 s from one to the next: 5,000 of them are a day. A vacuum
comes as often as that of upkeep, relative to its `minAge`.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.options.streaming import StreamWriteOptions
from slatespark.storage.counted_store import CountedStore, RequestTally
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.requests import Requests
from slatespark.table.compaction.after_write import compact_after_write
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores
from slatespark.table.write import stream_batch
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.table.write.stream_batch import StreamBatch, commit_batch
from tests.support.effort import THOROUGH
from tests.support.fake_clock import FakeClock

BATCHES = 5000 if THOROUGH else 128
MEASURED = 48  # at the end, and before them at WARM; three times as many as between two merges
RETAINED = stream_batch.MAX_RETAINED if THOROUGH else 8
WARM = 4 * RETAINED  # as many versions are kept as ever will be
STEP_MS = 17_280
DEBT = 40  # batches within the `minAge` of the vacuum
VACUUM_EVERY = 10
ROWS, KEYS = 10, 400
NAMES = itertools.count(1)


@dataclass
class Day:
    """A table that a stream is written into, by a process that plans batches and one that commits them."""

    clock: FakeClock = field(default_factory=FakeClock)
    tally: RequestTally = field(default_factory=RequestTally)
    spent: list[Requests] = field(default_factory=list)
    left: list[Counter[str]] = field(default_factory=list)
    expected: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = MemoryStore(f"days/{next(NAMES)}", self.clock.now_ms)
        self.planner, self.committer, self.upkeep = self.process(), self.process(), self.process()
        self.options = StreamWriteOptions.parse({"path": self.store.url, "keyColumns": "id"}).write
        self.generator = np.random.default_rng(0)

    def process(self) -> TableStores:
        """Return the stores of a process that runs on."""
        counted = CountedStore(self.store, self.tally)
        return TableStores(main=counted, wal=counted)

    def run(self, number: int) -> None:
        """Write a batch, and note what it cost and what is there afterwards."""
        ids = self.generator.choice(KEYS, ROWS, replace=False)
        rows = pa.table({"id": ids, "batch": np.full(ROWS, number)})
        self.expected.update(dict.fromkeys(ids.tolist(), number))
        before = self.tally.total
        load = begin_load(self.planner, self.clock, rows.schema, self.options)
        assert load is not None
        files = run_task(self.planner, self.clock, load, 0, rows.to_batches())
        record = commit_batch(self.committer, self.clock, load, [files], StreamBatch("query", number))
        compact_after_write(self.committer, self.clock, record, self.options, load.job.definition)
        self.spent.append(self.tally.total - before)
        self.clock.advance(STEP_MS)
        if number % VACUUM_EVERY == 0:
            vacuum_table(self.upkeep, self.clock, min_age_ms=DEBT * STEP_MS, fences=True)
        self.left.append(self.objects())

    def objects(self) -> Counter[str]:
        """Return how many objects each folder has, and how many runs and checkpoints the newest version."""
        manifest = fetch_latest_manifest(self.upkeep).value
        folders = Counter(meta.path.rpartition("/")[0] for meta in self.store.list_below(""))
        return folders + Counter(runs=len(manifest.run_ids()), checkpoints=len(manifest.checkpoints))

    def most(self, name: str) -> int:
        """Return how many of something there ever were."""
        return max(sum(found[each] for each in found if each.startswith(name)) for found in self.left)


def test_a_day_of_batches_wears_no_table_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_batch, "MAX_RETAINED", RETAINED)
    day = Day()
    for number in range(BATCHES):
        day.run(number)
    debt = DEBT + VACUUM_EVERY  # batches whose objects a vacuum has not met, or found too young
    assert day.most("runs") <= 16
    assert day.most("checkpoints") <= RETAINED + 1  # and the one that names the batch
    assert day.most("slatespark/leases") == 0
    assert day.most("slatespark/txn/") <= stream_batch.CLEAN_EVERY
    assert day.most("wal") <= debt + 1
    assert day.most("slatespark/claims") <= debt + 1
    assert day.most("compactions") <= debt + 1
    assert day.most("manifest") <= 3 * debt + RETAINED  # two of each commit, and of a merge; those of checkpoints
    assert day.most("slatespark/commits") <= 3 * debt + RETAINED
    _check_even(day.spent, lambda each: each.count, growth=1)
    _check_even(day.spent, lambda each: each.list, growth=1)
    _check_even(day.spent, lambda each: each.read_bytes + each.written_bytes, growth=1.25)
    found = SlateStore.open(day.store.url, clock=day.clock).scan().read_all().to_pylist()
    assert {row["id"]: row["batch"] for row in found} == day.expected


def _check_even(spent: Sequence[Requests], cost: Callable[[Requests], int], *, growth: float) -> None:
    early, late = spent[WARM : WARM + MEASURED], spent[-MEASURED:]
    assert statistics.median(map(cost, late)) <= growth * statistics.median(map(cost, early))
    assert sum(map(cost, late)) <= 1.5 * sum(map(cost, early))  # with the merges, which do not fall evenly
