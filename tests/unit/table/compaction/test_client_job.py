"""Jobs of a client's scheduler that a worker of ours merges, without a client: what its filters may do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, ExpireFilter, HistoryFloorFilter, OptionError, RetentionFilter, SlateStore
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec
from slatespark.table.clock import Clock, SystemClock, new_ulid
from slatespark.table.compaction.merge import MergedRange
from slatespark.table.compaction.plan import RangeTask
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.worker import Worker
from slatespark.table.compaction.worker_report import WorkerOutcome
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version

DAY_MS = 86_400_000


class LongAgo(Clock):
    """Ten days behind."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 - 10 * DAY_MS


def rows(key: bytes, value: bytes) -> pa.Table:
    return pa.table({"key": [key], "value": [value]})


def two_old_runs(name: str, **properties: Any) -> SlateStore:
    old = SlateStore.create(f"memory://{name}", clock=LongAgo(), **properties)
    old.write(rows(b"a", b"base"))
    old.write(rows(b"z", b"old"))
    store = SlateStore.open(f"memory://{name}")
    store.write(rows(b"new", b"x"))  # so that the tick is the present
    return store


def schedule_oldest(store: SlateStore) -> None:
    """The client's scheduler wants the two oldest runs merged."""
    stores = store._stores
    manifest, listed = fetch_latest_manifest(stores).value, fetch_compactions(stores)
    oldest = tuple(sorted(manifest.run_ids())[1::-1])
    job = Compaction(new_ulid(SystemClock()), TieredSpec((), oldest, oldest[-1]), CompactionStatus.SCHEDULED)
    changed = replace(listed.value, compactor_epoch=manifest.compactor_epoch, jobs=(job,))
    create_compactions(stores, Version(listed.number + 1, changed))


def merge(store: SlateStore, hook: Callable[[], object] = lambda: None) -> WorkerOutcome:
    stores = store._stores

    def runner(tasks: Sequence[RangeTask]) -> Iterator[MergedRange]:
        yield from run_here(stores, SystemClock(), tasks)
        hook()

    schedule_oldest(store)
    [outcome] = Worker([store.url], filters=[RetentionFilter("1d")], runner=runner).runOnce()
    return outcome


def test_a_retention_filter_removes_old_rows() -> None:
    report = merge(two_old_runs("worker-retires")).report
    assert report is not None
    assert (report.rows_out, report.filters_waited) == (0, False)


def test_a_retention_filter_waits_where_operands_may_come() -> None:
    store = two_old_runs("worker-waits", mergeOperator="concat")
    store.write(rows(b"a", b"+1"), operation="merge")
    report = merge(store).report
    assert report is not None
    assert (report.rows_out, report.filters_waited) == (2, True)


def test_an_operand_that_comes_during_the_merge_ends_it() -> None:
    store = two_old_runs("worker-late-operand")
    operand = {"operation": "merge", "mergeOperator": "concat", "ifClientActive": "fence"}
    outcome = merge(store, lambda: store.write(rows(b"a", b"+1"), **operand))
    assert outcome.report is None
    assert isinstance(outcome.error, CommitConflictError)
    assert "merge operands were written" in str(outcome.error)


@pytest.mark.parametrize(
    "chosen",
    [ExpireFilter(now=0), RetentionFilter("1d", now=0), HistoryFloorFilter(0)],
    ids=["expire", "retention", "floor"],
)
def test_filters_with_an_instant_of_their_own_are_refused(chosen: Any) -> None:
    with pytest.raises(OptionError, match=type(chosen).__name__):
        Worker(filters=[chosen])
