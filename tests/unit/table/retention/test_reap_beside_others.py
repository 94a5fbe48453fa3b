"""Reaps while others write, reap, or change what the table says."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pyarrow as pa
import pytest

from slatespark import (
    ConflictError,
)
from slatespark.table.definition.versions import fetch_definition, publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_run import MAX_CONFLICTS, Reaping, reap_table
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows
from tests.unit.table.retention.reaped_table import HOUR_MS, START_MS, Table, ignore, merged_file, numbered

# --- what is done ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_retention_raised_during_a_pass_is_respected(moment: Literal["before", "after"]) -> None:
    table = Table(retention="1h")
    table.write([b"a", b"b"])
    table.pass_time(3 * HOUR_MS)
    other = table.other()
    claim = f"manifest/{table.table.detail().version + 1:020d}.manifest"
    table.store.run(lambda: other.setProperties(retention="30d"), "create", claim, moment=moment)
    report = reap_table(table.stores, table.clock)
    assert (report.rows, report.retention_ms) == (0, 720 * HOUR_MS)
    assert table.keys() == [b"a", b"b"]


def test_a_history_floor_set_during_a_pass_is_respected() -> None:
    table = Table(history=True, versionRetention="none")
    table.clock.advance(HOUR_MS)
    times = [START_MS + at for at in (1, 50)]
    table.table.write(pa.table({"key": [b"a", b"b"], "value": [b"1"] * 2, "at": times}), timestampColumn="at")
    table.table.setProperties(retention="100ms")
    table.table.setHistoryFloor(START_MS + 110)
    other = table.other()
    claim = f"manifest/{table.table.detail().version + 1:020d}.manifest"
    table.store.run(lambda: other.setHistoryFloor(START_MS + 200), "create", claim, moment="after")
    report = reap_table(table.stores, table.clock)
    assert (report.rows, report.reaped_through_ms) == (2, START_MS + 100)
    assert len(table.clock.slept_ms) == 1, "the pass was planned again"


# --- others at work -------------------------------------------------------------------------------------------------


def test_a_concurrent_operand_saves_the_row() -> None:
    table = Table(retention="10h")
    table.write([b"a", b"b"], value=b"1")
    table.pass_time(10 * HOUR_MS)
    other = table.other()
    rows = pa.table({"key": [b"a"], "value": [b"2"]})
    table.store.clear()
    table.store.run(lambda: ignore(other.write(rows, operation="merge")), "create", "slatespark/leases/*")
    report = reap_table(table.stores, table.clock)
    assert [(row.key, row.value) for row in our_rows(table.table, includeExpired=True)] == [(b"a", b"12")]
    assert (report.files_dropped, report.tombstones) == (0, 1)


@pytest.mark.parametrize("kind", ["dropped", "rewritten", "tombstones"])
def test_upserts_of_others_are_no_conflict(kind: str) -> None:
    """In the same range of keys, before each commit of the reap; where a file goes, even of the same keys."""
    table = Table(retention="10h")
    due, rest = {"dropped": (100, 0), "rewritten": (60, 40), "tombstones": (10, 90)}[kind]
    table.write(numbered(0, due))
    table.clock.advance(5 * HOUR_MS)
    if rest:
        table.write(numbered(due, due + rest))
        merged_file(table)
    table.pass_time(6 * HOUR_MS)
    other, key = table.other(), numbered(0, 1) if kind != "tombstones" else [b"%08d+" % 5]
    rows = pa.table({"key": key, "value": [b"new"]})
    for nth in (1, 2, 3):
        table.store.run(lambda: ignore(other.write(rows)), "create", "slatespark/leases/*", nth=nth)
    report = reap_table(table.stores, table.clock)
    counts = {"dropped": report.files_dropped, "rewritten": report.files_rewritten, "tombstones": report.tombstones}
    assert {name for name, count in counts.items() if count} == {kind}
    assert (report.passes, table.clock.slept_ms) == (1, [])
    assert table.keys(includeExpired=True) == sorted([*key, *numbered(due, due + rest)])


def test_a_key_that_is_written_again_gets_no_tombstone() -> None:
    table = table_of_due_keys(10, 90)
    other = table.other()
    rows = pa.table({"key": numbered(3, 4), "value": [b"new"]})
    table.store.run(lambda: ignore(other.write(rows)), "create", "slatespark/leases/*")
    report = reap_table(table.stores, table.clock)
    assert (report.tombstones, len(table.clock.slept_ms)) == (9, 1)
    assert table.keys(includeExpired=True) == [*numbered(3, 4), *numbered(10, 100)]


def table_of_due_keys(due: int, young: int) -> Table:
    """One file whose first keys are due."""
    table = Table(retention="10h")
    table.write(numbered(0, due))
    table.clock.advance(5 * HOUR_MS)
    table.write(numbered(due, due + young))
    merged_file(table)
    table.pass_time(6 * HOUR_MS)
    return table


def write_due_keys_again(table: Table, count: int) -> None:
    """Before each of the next leases, mostly of commits, somebody writes another one of the due keys."""
    other, keys = table.other(), iter(numbered(0, count))

    def write() -> None:
        other.write(pa.table({"key": [next(keys)], "value": [b"new"]}))

    for nth in range(1, count + 1):
        table.store.run(write, "create", "slatespark/leases/*", nth=nth)


def test_a_batch_halved_by_conflicts_grows_back() -> None:
    table = table_of_due_keys(200, 800)
    write_due_keys_again(table, 3)
    report = reap_table(table.stores, table.clock, limits=ReapLimits(64))
    records = sorted(newest_commit_records(table.stores.main), key=lambda record: record.manifest_id)
    counts = [record.rows["delete"] for record in records if record.operation == "reap"]
    assert counts == [8, 16, 32, 64, 64, 13]
    assert (report.rows, len(table.clock.slept_ms)) == (197, 3)


def test_it_gives_up_after_repeated_conflicts() -> None:
    table = table_of_due_keys(30, 300)
    write_due_keys_again(table, MAX_CONFLICTS + 2)  # twice in the first pass, before which rows are counted
    with pytest.raises(ConflictError):
        reap_table(table.stores, table.clock)
    assert len(table.keys(includeExpired=True)) == 330
    assert not list(table.store.inner.list("slatespark/leases/")), "no lease is left"


def table_of_several_files() -> Table:
    """Six of ten keys are due, in each file."""
    table = Table(retention="10h")
    keys = numbered(0, 10_000)
    table.write([key for number, key in enumerate(keys) if number % 10 < 6])
    table.clock.advance(5 * HOUR_MS)
    table.write([key for number, key in enumerate(keys) if number % 10 >= 6])
    merged_file(table, sstSize="100k")
    assert len(table.table.files()) > 2
    table.pass_time(6 * HOUR_MS)
    return table


def test_uploads_of_a_conflicting_attempt_are_reused() -> None:
    table = table_of_several_files()
    files = len(table.table.files())
    other = table.other()
    rows = pa.table({"key": numbered(6, 7), "value": [b"+"]})  # of the first file only
    table.store.clear()
    table.store.run(lambda: ignore(other.write(rows, operation="merge")), "create", "slatespark/leases/*")
    report = reap_table(table.stores, table.clock)
    assert report.files_rewritten == files - 1
    assert table.store.count("put", "compacted/*") == files + 1, "each file once, and tombstones for the first"
    assert len(table.keys(includeExpired=True)) == 4000


@pytest.mark.parametrize(
    ("operation", "path", "moment"),
    [
        ("put", "compacted/*", "after"),
        ("create", "slatespark/leases/*", "before"),
        ("create", "manifest/*", "before"),
    ],
)
def test_a_collector_leaves_rewritten_files_alone(
    operation: Literal["put", "create"], path: str, moment: Literal["before", "after"]
) -> None:
    """An erasure collects files of any age."""
    table = table_of_due_keys(60, 40)
    other = table.other()
    table.store.clear()
    for nth in (1, 2):
        table.store.run(lambda: ignore(other.erase(b"of nobody")), operation, path, nth=nth, moment=moment)
    report = reap_table(table.stores, table.clock)
    assert report.files_rewritten == 1
    assert table.keys(includeExpired=True) == numbered(60, 100)
    assert not list(table.store.inner.list("slatespark/leases/")), "no lease is left"


@pytest.mark.parametrize("waits_ms", [0, 2 * LEASE_LIFETIME_MS])
def test_a_collector_leaves_rewritten_files_to_the_next_pass(waits_ms: int) -> None:
    """Unless the reap sleeps for so long that their lease ends: then they are made again."""
    table = table_of_several_files()
    files = len(table.table.files())
    rows = pa.table({"key": numbered(6, 7), "value": [b"+"]})  # of the first file only
    other = table.other()
    table.store.clear()
    table.store.run(lambda: ignore(other.write(rows, operation="merge")), "put", "compacted/*")
    reaping = Reaping.begin(table.stores, table.clock)
    assert reaping.step(), "the operand is a conflict"
    table.clock.advance(waits_ms)
    table.other().erase(b"of nobody")
    while reaping.step() is not None:
        pass
    assert reaping.report.files_rewritten == files - 1
    assert len(table.keys(includeExpired=True)) == 4000
    assert not list(table.store.inner.list("slatespark/leases/")), "no lease is left"


def test_two_reapers_at_once() -> None:
    table = Table(retention="10h")
    table.write(numbered(0, 100))
    table.clock.advance(5 * HOUR_MS)
    table.write(numbered(50, 60))
    table.write(numbered(99, 101))
    table.pass_time(6 * HOUR_MS)
    inner = TableStores(main=table.store.inner, wal=table.store.inner)
    table.store.clear()

    def reap_too() -> None:
        reap_table(inner, FakeClock(table.clock.now_ms(), seed=7))

    table.store.run(reap_too, "create", "slatespark/leases/*")
    report = reap_table(table.stores, table.clock)
    assert (report.passes, report.rows) == (0, 0), "the other one has done it"
    assert table.keys(includeExpired=True) == [*numbered(50, 60), *numbered(99, 101)]


def test_a_concurrent_longer_retention_is_respected() -> None:
    table = Table(retention="10h")
    table.write([b"a"])
    table.pass_time(10 * HOUR_MS)
    number, definition = fetch_definition(table.stores)
    longer = replace(definition, properties={**definition.properties, "retention": "11h"})
    inner = TableStores(main=table.store.inner, wal=table.store.inner)
    table.store.run(lambda: publish_definition(inner, Version(number + 1, longer)), "list", "manifest/")
    assert reap_table(table.stores, table.clock).rows == 0
    assert table.keys(includeExpired=True) == [b"a"]


def test_a_concurrent_shorter_retention_restarts_the_reap() -> None:
    table = Table(retention="10h")
    table.write(numbered(0, 200)[::10])
    table.clock.advance(5 * HOUR_MS)
    table.write([key for key in numbered(0, 200) if not key.endswith(b"0")])
    merged_file(table)
    table.pass_time(6 * HOUR_MS)
    other = table.other()
    table.store.run(lambda: other.setProperties(retention="1h"), "create", "slatespark/commits/*")
    report = reap_table(table.stores, table.clock, limits=ReapLimits(5))
    assert report.retention_ms == HOUR_MS
    assert table.keys(includeExpired=True) == []
