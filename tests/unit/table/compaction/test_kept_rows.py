"""What a compaction keeps and drops: expired and retired rows, operands, history."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    CommitConflictError,
    ExpireFilter,
    OptionError,
    RetentionFilter,
    TransactionConflictError,
)
from slatespark.table.compaction.plan import plan_merge
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.our_reads import our_rows
from tests.unit.table.compaction.compacted_table import _RAW, HOUR_MS, START_MS, Table


def test_expired_rows_become_tombstones_and_are_dropped_at_the_bottom() -> None:
    table = Table()
    table.put([1, 2], b"base")
    table.put([1], b"short", ttl="1h")
    table.put([2], b"long", ttl="30d")
    instant = table.clock.now_ms()
    stored = [(b"001", "put", b"short"), (b"001", "put", b"base"), (b"002", "put", b"long"), (b"002", "put", b"base")]
    assert table.versions() == stored
    assert table.compact(full=True, now_ms=instant - 2 * HOUR_MS).expired == 0
    table.put([1], b"short", ttl="1h")
    table.clock.advance(HOUR_MS)
    report = table.compact(full=True)
    assert (report.expired, report.now_ms) == (1, table.clock.now_ms() - 60_000)
    assert table.versions() == [(b"002", "put", b"long")]


def test_a_future_instant_is_refused() -> None:
    table = Table()
    table.put([1])
    with pytest.raises(OptionError, match="future"):
        table.compact(full=True, now_ms=table.clock.now_ms() + 1)


def test_an_instant_after_the_custom_clock_is_refused() -> None:
    table = Table(clock="custom")
    table.put([1], timestamp=1000, ttl=5000)
    table.put([2], timestamp=2000)
    with pytest.raises(OptionError, match=r"\(2000\)"):
        table.compact(full=True, now_ms=2001)
    assert table.compact(full=True, now_ms=2000).expired == 0


def test_due_files_are_rewritten_in_place() -> None:
    table = Table(periodicCompactionInterval="1d")
    table.put([1, 2], b"old", ttl="1h")
    table.put([5], b"for ever")
    table.put([2], b"new", ttl="30d")
    assert table.compact(due=True).jobs == ()
    table.clock.advance(30 * HOUR_MS)
    report = table.compact(due=True)
    assert [(job.kind, job.sources) for job in report.jobs] == [("due", ("run 0",))]
    assert table.versions() == [(b"002", "put", b"new"), (b"005", "put", b"for ever")]
    assert table.compact(due=True).jobs == ()


def test_rows_past_retention_are_dropped() -> None:
    table = Table(retention="10h")
    table.put([1, 2], b"old")
    table.clock.advance(20 * HOUR_MS)
    table.put([2, 3], b"new")
    report = table.compact(full=True)
    assert (report.expired, report.dropped) == (1, 2), "one was past retention, and one was hidden"
    assert table.versions() == [(b"002", "put", b"new"), (b"003", "put", b"new")]


@pytest.mark.parametrize("where", ["run above", "run that comes meanwhile"])
def test_rows_past_retention_stay_under_operands(where: str) -> None:
    """An operand makes a row young again, so the row below it must stay."""
    table = Table(retention="10h", mergeOperator="concat")
    table.put(range(20), b"old")
    table.put(range(100, 120), b"old")
    table.clock.advance(20 * HOUR_MS)
    table.put([300], b"new")

    def operand() -> None:
        table.store.write(pa.table({"key": [b"001"], "value": [b"+"]}, _RAW), operation="merge")

    if where == "run above":
        operand()
        expected = our_rows(table.store)
        report = table.compact(pick=lambda trees: plan_merge(trees, "full", trees.layers[-2:]))
        assert (report.rows_out, report.expired) == (40, 0)
    else:
        with pytest.raises(CommitConflictError, match="above"):
            table.compact(operand, full=True)
        expected = our_rows(table.store)
    assert our_rows(table.store) == expected
    assert next(row.value for row in expected if row.key == b"001") == b"old+"


def test_rows_past_retention_are_dropped_despite_concurrent_writes() -> None:
    table = Table(retention="10h")
    table.put(range(20), b"old")
    table.clock.advance(20 * HOUR_MS)
    table.put([300], b"new")
    report = table.compact(lambda: table.put([301], b"meanwhile"), full=True)
    assert report.expired == 20
    assert [row.key for row in our_rows(table.store)] == [b"300", b"301"]


def test_a_concurrent_longer_retention_is_a_conflict() -> None:
    table = Table(retention="10h")
    table.put([1], b"old")
    table.clock.advance(20 * HOUR_MS)
    table.put([2], b"new")
    with pytest.raises(CommitConflictError, match="retention"):
        table.compact(lambda: table.store.setProperties(retention="30d"), full=True)
    assert len(our_rows(table.store)) == 2


def test_operands_need_an_operator() -> None:
    table = Table()
    table.put([1], b"a", operation="merge")
    table.put([1], b"b", operation="merge")
    table.objects.clear()
    with pytest.raises(OptionError, match="mergeOperator"):
        table.compact(full=True)
    assert table.objects.count("get_range", "compacted/*") == table.objects.count("create") == 0, "nothing was read"
    with pytest.raises(OptionError, match="nonsense"):
        table.compact(full=True, options={"mergeOperator": "nonsense"})
    table.compact(full=True, options={"mergeOperator": "concat"})
    assert table.versions() == [(b"001", "merge", b"ab")]


def test_operands_fold_as_reads_fold_them() -> None:
    table = Table(mergeOperator="concat")
    table.put([1], b"a", operation="merge")
    table.put([1], b"b", operation="merge")
    with pytest.raises(OptionError, match="mergeOperator"):
        table.compact(full=True, options={"mergeOperator": "sum"})
    with pytest.raises(CommitConflictError, match="mergeOperator"):
        table.compact(lambda: table.store.setProperties(mergeOperator="max"), full=True)
    table.store.setProperties(mergeOperator="concat")
    table.compact(full=True, options={"mergeOperator": "concat"})
    assert table.versions() == [(b"001", "merge", b"ab")]


def test_a_changed_operator_is_no_conflict_without_operands() -> None:
    table = Table(mergeOperator="concat")
    table.put([1])
    table.put([2])
    table.compact(lambda: table.store.setProperties(mergeOperator="max"), full=True)
    assert table.layers() == ["run 0"]


@pytest.mark.parametrize(
    ("arguments", "conflicts"),
    [
        ({"filters": [RetentionFilter("1h")]}, True),
        ({"filters": [RetentionFilter("9h")]}, False),
        ({"filters": [ExpireFilter()]}, False),
        ({"filters": [ExpireFilter(now=START_MS + 2 * HOUR_MS)]}, True),
        ({"now_ms": START_MS + 2 * HOUR_MS}, True),
        ({"now_ms": START_MS + HOUR_MS}, False),
        ({}, False),
    ],
    ids=["retention", "long retention", "expire", "expire later", "now", "earlier now", "nothing"],
)
def test_dropped_rows_conflict_with_locks(arguments: dict[str, Any], conflicts: bool) -> None:
    table = Table()
    table.put([1, 2], ttl=2 * HOUR_MS)
    table.put([3])
    transaction = table.store.begin()
    transaction.getForUpdate([b"001"])
    table.compact(full=True, **arguments)
    transaction.write(pa.table({"key": [b"004"], "value": [b"from 1"]}, _RAW))
    if not conflicts:
        transaction.commit()
        return
    with pytest.raises(TransactionConflictError, match="removed"):
        transaction.commit()


def test_a_history_table_keeps_versions_for_as_of_reads() -> None:
    table = Table(history=True)
    for hour in range(4):
        table.put([1], b"%d" % hour)
    table.compact(full=True)
    assert [value for _, _, value in table.versions()] == [b"3", b"2", b"1", b"0"]
    table.store.setHistoryFloor(START_MS + 2 * HOUR_MS)
    table.compact(full=True)
    assert [value for _, _, value in table.versions()] == [b"3", b"2"]
    as_of = table.store.scan(timestampAsOf=START_MS + 2 * HOUR_MS).read_all()
    assert as_of["value"].to_pylist() == [b"2"]


def test_a_compaction_ends_while_others_add_runs() -> None:
    """Each job merges as much as others add, so the number of jobs must be bounded."""
    table = Table()
    for number in range(4):
        table.put([number])

    def add() -> None:
        for number in range(10, 14):
            table.put([number])

    report = table.compact(add)
    assert len(report.jobs) == 4


def test_a_hold_of_history_is_restored() -> None:
    table = Table(history=True, holdHistory=True)
    for hour in range(3):
        table.put([1], b"%d" % hour)
    running: list[Any] = []
    table.compact(lambda: running.extend(fetch_compactions(table.stores)[1].active_jobs()), full=True)
    workers = [job.worker.worker_id.split("-")[1][:4] for job in running]
    assert len(workers) == 2
    assert workers[0] == "hold"
    (hold,) = fetch_compactions(table.stores)[1].active_jobs()
    assert (hold.worker is not None and hold.worker.worker_id, hold.spec.sorted_runs) == ("slatespark-hold", (0,))


def test_a_table_with_a_clock_of_its_own() -> None:
    table = Table(clock="custom")
    for tick in (5, 10):
        table.store.write(pa.table({"key": [b"a"], "value": [b"v"]}, _RAW), timestamp=tick, ttl=5)
    report = table.compact(full=True)
    assert (report.now_ms, report.has_own_time, report.expired) == (10, True, 0)
    assert len(table.versions()) == 1
    assert fetch_latest_manifest(table.stores)[1].last_l0_clock_tick == 10
