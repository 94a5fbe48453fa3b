"""Reaping tables: requests, and remaining rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark import (
    ClockRegressionError,
    OptionError,
    SlateStore,
)
from slatespark.format.row import Row, RowKind
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition, publish_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.retention import reap_survey
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_run import Reaping, reap_table
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import publish_layers, strip_properties
from tests.unit.table.retention.reaped_table import HOUR_MS, START_MS, Table, ignore, merged_file, numbered

# --- what is read ---------------------------------------------------------------------------------------------------


def test_150_of_200_files_are_dropped_unread() -> None:
    table = Table(retention="100h")
    table.write(numbered(0, 1500), sstSize=200)
    old = len(table.table.files())
    table.clock.advance(HOUR_MS)
    table.write(numbered(1500, 2000), sstSize=200)
    assert old >= 150
    assert len(table.table.files()) >= old + 50
    table.pass_time(99 * HOUR_MS)
    report = table.reap()
    assert (report.files_dropped, report.files_rewritten, report.tombstones, report.passes) == (old, 0, 0, 1)
    assert report.rows == 1500
    assert table.data_reads() == []
    assert table.store.count() < 60, "of all kinds"
    assert table.keys() == numbered(1500, 2000)
    assert report.next_deadline_ms == START_MS + 101 * HOUR_MS


def test_without_commit_records_file_properties_suffice() -> None:
    table = Table(retention="10h")
    for number in range(4):
        table.write(numbered(number * 1000, number * 1000 + 1000), value=b"x" * 100)
        table.clock.advance(HOUR_MS)
    for meta in table.store.list(COMMITS_DIR):
        table.store.delete(meta.path)
    table.pass_time(7 * HOUR_MS)
    assert table.reap().files_dropped == 2
    assert sum(call.size for call in table.store.matching(path="compacted/*")) < 4 * 20_000


def test_reaping_one_percent_of_a_file_reads_about_one_percent_of_it() -> None:
    table = Table(retention="10h", history="false")
    # One file of rows of two times, as a compaction would leave it: written as two that do not overlap, then joined.
    table.write(numbered(0, 1000), value=b"x" * 100)
    table.clock.advance(5 * HOUR_MS)
    table.write(numbered(1000, 100_000), value=b"x" * 100)
    merged_file(table)
    (file,) = table.table.files()
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert (report.tombstones, report.files_rewritten, report.files_dropped) == (1000, 0, 0)
    path = f"compacted/{file.id}.sst"
    read = sum(call.size for call in table.store.matching("get_range", path))
    outline = file.stored_bytes * 0.02  # index, statistics and properties
    assert read < file.stored_bytes * 0.013 + outline, f"{read} of {file.stored_bytes} bytes"
    assert len(table.keys()) == 99_000
    assert report.next_deadline_ms == START_MS + 15 * HOUR_MS


def test_a_file_that_is_mostly_due_is_rewritten_in_place() -> None:
    table = Table(retention="10h")
    table.write(numbered(0, 6000))
    table.clock.advance(5 * HOUR_MS)
    table.write(numbered(6000, 10_000))
    merged_file(table)
    before = {row.key: row for row in our_rows(table.table)}
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert (report.files_rewritten, report.tombstones, report.rows) == (1, 0, 6000)
    assert our_rows(table.table) == [before[key] for key in numbered(6000, 10_000)]
    assert our_rows(table.table, readVersions="all") == [before[key] for key in numbered(6000, 10_000)]
    (file,) = table.table.files(countRows=True)
    assert (file.rows, file.min_create_ms) == (4000, START_MS + 5 * HOUR_MS)
    assert table.reap().passes == 0


# --- what is done ---------------------------------------------------------------------------------------------------


def test_the_boundary_and_the_default_of_now() -> None:
    table = Table(retention="1h")
    table.write([b"a"])
    table.clock.advance(1)
    table.write([b"b"])
    table.clock.advance(HOUR_MS - 1 + SKEW_MS - 1)
    assert table.reap().rows == 0
    table.clock.advance(1)
    report = table.reap()
    assert (report.rows, report.now_ms, report.reaped_through_ms) == (1, START_MS + HOUR_MS, START_MS)
    assert table.keys(includeExpired=True) == [b"b"]
    assert report.next_deadline_ms == START_MS + 1 + HOUR_MS
    assert table.table.definition.reaped_through_ms == START_MS
    assert table.reap(now_ms=START_MS + HOUR_MS).rows == 0
    assert table.reap(now_ms=START_MS + HOUR_MS + 1).rows == 1
    assert table.table.definition.reaped_through_ms == START_MS + 1


def test_a_later_tick_is_a_later_now() -> None:
    table = Table(retention="1h")
    table.write([b"a"])
    table.clock.advance(HOUR_MS)
    table.write([b"b"])
    assert table.reap().now_ms == START_MS + HOUR_MS
    assert table.keys(includeExpired=True) == [b"b"]


def test_a_tick_ahead_of_the_clock_is_no_conflict() -> None:
    table = Table(retention="0ms")
    table.write([b"a"])
    table.clock.advance(-HOUR_MS)
    slept = len(table.clock.slept_ms)
    with pytest.raises(ClockRegressionError, match="clock"):
        table.reap()
    assert len(table.clock.slept_ms) == slept, "it is not tried again"
    assert table.keys(includeExpired=True) == [b"a"]


def test_an_advanced_tick_is_a_conflict_with_a_custom_clock() -> None:
    table = Table(retention="10ms", clock="custom")
    table.write([b"a"], timestamp=5)
    table.write([b"b"], timestamp=30, operation="merge")
    other = table.other()
    rows = pa.table({"key": [b"c"], "value": [b"1"]})
    table.store.run(lambda: ignore(other.write(rows, timestamp=31)), "list", "manifest/", nth=2)
    assert reap_table(table.stores, table.clock).rows == 1
    assert table.keys(includeExpired=True) == [b"b", b"c"]
    assert len(table.clock.slept_ms) == 1, "before it was tried again"


def test_now_may_not_be_in_the_future() -> None:
    table = Table(retention="1h")
    table.write([b"a"])
    with pytest.raises(OptionError, match="future"):
        table.reap(now_ms=START_MS + 1)
    assert table.reap(now_ms=START_MS).rows == 0
    assert table.keys() == [b"a"]


def test_a_table_without_retention_is_left_alone() -> None:
    table = Table()
    table.write([b"a"])
    version = table.table.detail().version
    report = table.reap()
    assert (report.retention_ms, report.reaped_through_ms, report.next_deadline_ms) == (None, None, None)
    assert report.rows == 0
    assert report.version == version == table.table.detail().version
    assert table.store.count("create") == 0


def test_nothing_is_committed_if_nothing_is_due() -> None:
    table = Table(retention="1h")
    table.write([b"a"])
    table.reap()
    version, definition = table.table.detail().version, fetch_definition(table.stores)
    table.clock.advance(HOUR_MS // 2)
    report = table.reap()
    assert (report.version, report.passes) == (version, 0)
    assert fetch_definition(table.stores) == definition, "a reap without work publishes no definition"
    assert report.next_deadline_ms == START_MS + HOUR_MS


def test_the_next_deadline_of_an_empty_table() -> None:
    table = Table(retention="1h")
    assert table.reap().next_deadline_ms == START_MS - SKEW_MS + HOUR_MS
    table.write([b"a"])
    table.pass_time(HOUR_MS)
    report = table.reap()
    assert report.next_deadline_ms == report.now_ms + HOUR_MS


def test_a_young_operand_keeps_the_put_below_it() -> None:
    table = Table(retention="10h")
    table.write([b"a", b"b"], value=b"1")
    table.clock.advance(5 * HOUR_MS)
    table.write([b"a"], value=b"2", operation="merge")
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert (report.files_dropped, report.tombstones) == (0, 1)
    assert [(row.key, row.value) for row in our_rows(table.table)] == [(b"a", b"12")]
    assert table.keys(includeExpired=True) == [b"a"]
    table.pass_time(5 * HOUR_MS)
    assert table.reap().files_dropped >= 2
    assert table.keys(includeExpired=True) == []


def test_an_operand_brings_a_retired_row_back_until_it_is_reaped() -> None:
    shown = {}
    for reaped in (False, True):
        table = Table(retention="10h")
        table.write([b"a", b"b"], value=b"1")
        table.pass_time(10 * HOUR_MS)
        assert table.keys() == []
        if reaped:
            table.reap()
        table.write([b"a"], value=b"2", operation="merge")
        shown[reaped] = table.table.scan(mergeOperator="concat").read_all().to_pylist()
    assert shown[False] == [{"key": b"a", "value": b"12"}]
    assert shown[True] == [{"key": b"a", "value": b"2"}]


def test_a_base_without_create_ts_is_reaped_with_an_old_operand() -> None:
    stores, now_ms = new_stores(), 1000
    rows = [
        [Row(b"a", 4, RowKind.MERGE, b"2", 10, None), Row(b"b", 5, RowKind.MERGE, b"2", 900, None)],
        [Row(key, seq, RowKind.PUT, b"1", None, None) for seq, key in enumerate([b"a", b"b", b"c"], 1)],
    ]
    layers = [Layer(f"run {number}", (put_file(stores, each),)) for number, each in enumerate(rows)]
    publish_layers(stores, layers)
    publish_definition(stores, Version(1, TableDefinition(properties={"retention": "500"})))
    reap_table(stores, FakeClock(100_000), now_ms=now_ms)
    table = SlateStore(stores, FakeClock(100_000), {"path": stores.url})
    left = table.scan(includeExpired=True, mergeOperator="concat").read_all().to_pylist()
    assert left == [{"key": b"b", "value": b"12"}, {"key": b"c", "value": b"1"}]


def test_an_older_version_never_becomes_visible() -> None:
    table = Table(retention="10h")
    table.write([b"a", b"z"], timestamp=START_MS)
    table.clock.advance(HOUR_MS)
    table.write([b"a"], value=b"new")
    table.table.setProperties(retention="none")
    table.clock.advance(HOUR_MS)
    table.write([b"z"])  # so that the oldest file does not go as a whole
    table.table.setProperties(retention="10h")
    table.pass_time(9 * HOUR_MS + HOUR_MS // 2)
    table.reap()
    assert table.keys(includeExpired=True) == [b"z"]


@pytest.mark.parametrize("limit", [20, 1000])
def test_passes_are_bounded(limit: int) -> None:
    table = Table(retention="10h")
    table.write(numbered(0, 2000)[::10], value=b"x" * 200)
    table.clock.advance(5 * HOUR_MS)
    table.write([key for key in numbered(0, 2000) if not key.endswith(b"0")], value=b"x" * 200)
    merged_file(table)
    table.pass_time(6 * HOUR_MS)
    report = table.reap(limits=ReapLimits(limit, 20_000))
    assert report.tombstones == 200
    assert report.passes >= 10
    assert len(table.keys(includeExpired=True)) == 1800
    counts = [
        record.rows["delete"] for record in newest_commit_records(table.stores.main) if record.operation == "reap"
    ]
    assert sum(counts) == 200
    assert max(counts) <= min(limit, 40)


def test_a_search_that_finds_nothing_is_bounded_too() -> None:
    table = Table(retention="10h")
    table.write(numbered(0, 200), value=b"x" * 1000)
    table.clock.advance(5 * HOUR_MS)
    table.write([*numbered(0, 200), b"operand"], operation="merge")  # so that the old file stays
    table.pass_time(6 * HOUR_MS)
    reaping = Reaping.begin(table.stores, table.clock, limits=ReapLimits(batch_bytes=20_000))
    steps = 0
    while reaping.step() == 0:
        steps += 1
    assert 200_000 // 40_000 < steps < 200_000 // 10_000
    assert (reaping.report.passes, reaping.report.rows) == (0, 0)


def test_outlines_are_not_read_again_in_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer of them are held than files have due rows."""
    monkeypatch.setattr(reap_survey, "OUTLINES_BYTES", 1)
    surveyed: list[str] = []
    survey_file = reap_survey.survey_file

    def noting(stores: TableStores, file: SstFile, *, window_bytes: int) -> FileOutline:
        surveyed.append(file.path)
        return survey_file(stores, file, window_bytes=window_bytes)

    table = Table(retention="10h")
    table.write(numbered(0, 2000)[::10], value=b"x" * 200)
    table.clock.advance(5 * HOUR_MS)
    table.write([key for key in numbered(0, 2000) if not key.endswith(b"0")], value=b"x" * 200)
    merged_file(table, sstSize="40000")
    files = len(table.table.files())
    table.pass_time(6 * HOUR_MS)
    monkeypatch.setattr(reap_survey, "survey_file", noting)
    report = table.reap(limits=ReapLimits(10, 20_000))
    assert (report.tombstones, len(table.keys(includeExpired=True))) == (200, 1800)
    assert report.passes >= 20
    assert files >= 10
    assert len(surveyed) <= 2 * (files + report.passes)


def test_a_file_cut_by_a_range_delete_counts_once() -> None:
    table = Table(retention="1h")
    table.write([b"a", b"b", b"c", b"d"], value=b"x" * 1000)
    (file,) = table.table.files()
    table.pass_time(2 * HOUR_MS)
    table.write([b"e"])
    table.table.deleteRange(startKey=b"b", endKey=b"c")
    assert len(list(fetch_latest_manifest(table.stores)[1].views())) == 3
    report = table.reap()
    assert (report.files_dropped, report.rows) == (1, 4)
    assert report.bytes <= file.stored_bytes
    assert table.keys(includeExpired=True) == [b"e"]


def test_a_rewritten_cut_file_counts_once() -> None:
    table = Table(retention="10h")
    table.write([key for key in numbered(0, 1000) if not key.endswith(b"9")], value=b"x" * 100)
    table.clock.advance(5 * HOUR_MS)
    table.write([key for key in numbered(0, 1000) if key.endswith(b"9")], value=b"x" * 100)
    merged_file(table)
    (file,) = table.table.files()
    table.table.deleteRange(startKey=b"%08d" % 400, endKey=b"%08d" % 500)
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert (report.files_rewritten, report.rows) == (1, 810)
    assert report.bytes < file.stored_bytes
    assert len(table.keys(includeExpired=True)) == 90


def test_a_pass_counts_uncompressed_keys_of_tombstones() -> None:
    table = Table(retention="10h")
    keys = [key + b"x" * 1000 for key in numbered(0, 200)]
    table.write(keys, compression="zstd")
    table.pass_time(10 * HOUR_MS)
    table.write([keys[0], keys[-1]], operation="merge")  # so that the file is not dropped as a whole
    report = table.reap(limits=ReapLimits(batch_bytes=20_000))
    assert (report.tombstones, report.files_dropped, report.files_rewritten) == (198, 0, 0)
    counts = [
        record.rows["delete"] for record in newest_commit_records(table.stores.main) if record.operation == "reap"
    ]
    assert max(counts) == 20_000 // 1008
    assert table.keys(includeExpired=True) == [keys[0], keys[-1]]
    huge = [key + b"x" * 30_000 for key in numbered(0, 3)]
    table.write(huge, compression="zstd")
    table.pass_time(10 * HOUR_MS)
    table.write([huge[0], huge[-1]], operation="merge")
    assert table.reap(limits=ReapLimits(batch_bytes=20_000)).tombstones >= 1, (
        "a key that is larger than the bound goes alone"
    )


def test_the_commit_record_of_a_pass() -> None:
    table = Table(retention="10h")
    table.write(numbered(0, 1000), value=b"x" * 1000)
    table.pass_time(10 * HOUR_MS)
    table.store.run(lambda: table.clock.advance(2000), "create", "slatespark/leases/*")
    report = reap_table(table.stores, table.clock)
    (record,) = [each for each in newest_commit_records(table.stores.main) if each.operation == "reap"]
    assert record.delete_rate == report.bytes // 2
    assert report.delete_rate_mb_per_s == pytest.approx(report.bytes / 2e6)
    assert len(record.removed) == 1
    assert report.bytes > 1_000_000


def test_files_of_the_client_are_read_once() -> None:

    table = Table(retention="10h")
    table.write(numbered(0, 100))
    table.clock.advance(5 * HOUR_MS)
    table.write(numbered(100, 200))

    for file in distinct_files(fetch_layers(table.stores, fetch_latest_manifest(table.stores)[1])):
        strip_properties(table.stores, FileSlice(file, file.info.key_range()))
    for meta in table.store.list(COMMITS_DIR):
        table.store.delete(meta.path)
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert (report.files_dropped, report.tombstones) == (1, 0), "all of its rows were seen to be due"
    assert table.keys(includeExpired=True) == numbered(100, 200)
    assert report.next_deadline_ms == START_MS + 15 * HOUR_MS


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize(
    "versions",
    [
        [Row(b"k", 9, create_ts_ms=300), Row(b"k", 5, create_ts_ms=10)],
        [Row(b"k", 9, RowKind.MERGE, create_ts_ms=10), Row(b"k", 5, create_ts_ms=300)],
        [Row(b"k", 9, create_ts_ms=300), Row(b"k", 5, create_ts_ms=10), Row(b"k", 4, create_ts_ms=10)],
        [Row(b"k", 9, RowKind.MERGE, create_ts_ms=10), Row(b"k", 5, create_ts_ms=10), Row(b"k", 1, create_ts_ms=300)],
    ],
)
def test_versions_in_other_blocks_of_a_file_count(versions: list[Row], window: int | None) -> None:
    """One version a block, of which only those that are due are read."""
    stores = new_stores()
    young = [Row(b"a%d" % number, 2, create_ts_ms=300) for number in range(5)]
    old = Row(b"j", 3, create_ts_ms=10)  # so that a window may begin before the key and end in it
    part = put_file(stores, [*young, old, *versions, Row(b"z", 3, create_ts_ms=300)], block_size=1)
    publish_layers(stores, [Layer("run 1", (part,))])
    publish_definition(stores, Version(1, TableDefinition(properties={"retention": "300"})))
    report = reap_table(stores, FakeClock(100_000), now_ms=400, limits=ReapLimits(batch_bytes=window))
    is_retired = versions[0].kind is RowKind.MERGE and versions[1].create_ts_ms == 10
    assert report.tombstones == 1 + is_retired
    store = SlateStore(stores, FakeClock(100_000), {"path": stores.url})
    found = [row.key for row in our_rows(store, includeExpired=True)]
    assert found == [row.key for row in young] + [b"k"] * (not is_retired) + [b"z"]


# --- times of the table's own ---------------------------------------------------------------------------------------


def test_a_clock_of_the_tables_own() -> None:
    table = Table(retention="10ms", clock="custom")
    assert table.reap().rows == 0
    table.write([b"a", b"b"], timestamp=5)
    table.write([b"b"], timestamp=9, operation="merge")
    report = table.reap()
    assert (report.now_ms, report.rows, report.next_deadline_ms, report.has_own_time) == (9, 0, 15, True)
    table.write([b"c"], timestamp=15)
    report = table.reap()
    assert (report.now_ms, report.reaped_through_ms, report.next_deadline_ms) == (15, 5, 19)
    assert table.keys(includeExpired=True) == [b"b", b"c"]
    created = {row.key: row.create_ts for row in our_rows(table.table, readVersions="all")}
    assert created == {b"a": 5, b"b": 5, b"c": 15}
    (tombstone,) = [file for file in table.table.files() if file.start <= b"a" and file.rows == 1]
    assert tombstone.max_create_ms == 15, "of the tick, not of a machine's clock"
    with pytest.raises(OptionError, match=r"\(15\)"):
        table.reap(now_ms=19)
    table.write([b"d"], timestamp=19)
    assert table.reap(now_ms=19).rows >= 1
    assert table.keys(includeExpired=True) == [b"c", b"d"]


def test_a_history_table_is_reaped_up_to_its_floor() -> None:
    table = Table(retention="10h", history="true")
    table.write([b"a"])
    table.clock.advance(HOUR_MS)
    table.write([b"b"])
    table.pass_time(100 * HOUR_MS)
    report = table.reap()
    assert (report.rows, report.reaped_through_ms, report.next_deadline_ms) == (0, None, None)
    table.table.setHistoryFloor(START_MS + 10 * HOUR_MS)
    report = table.reap()
    assert (report.rows, report.reaped_through_ms, report.next_deadline_ms) == (1, START_MS, None)
    assert table.keys(includeExpired=True) == [b"b"]
