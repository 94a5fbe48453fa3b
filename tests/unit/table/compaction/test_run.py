"""Compacting tables: merged layers, refusals, and concurrent work."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    CommitConflictError,
    ExpireFilter,
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.display.compaction_text import compaction_text
from slatespark.format.compactions import CompactionStatus
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.compaction.merge import MergedRange, RangeTask, merge_range
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import draw_nonce, fetch_latest_manifest, publish_manifest
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows
from tests.unit.table.compaction.compacted_table import _RAW, HOUR_MS, START_MS, Table, _names

FULL = CompactionRequest(full=True)


@pytest.fixture
def layered() -> Table:
    """Five overlapping runs; key 0 is in all of them but deleted in the newest."""
    table = Table()
    for number in range(4):
        table.put(range(number, 10 + number), b"%d" % number)
    table.put([3], operation="delete")
    return table


def test_a_full_compaction(layered: Table) -> None:
    before = our_rows(layered.store)
    version = layered.store.resolve().version
    report = layered.compact(full=True)
    assert our_rows(layered.store) == before
    assert layered.layers() == ["run 0"]
    assert report.version == version + 2 == layered.store.resolve().version
    assert (report.rows_in, report.rows_out, report.dropped, report.expired) == (41, 12, 29, 0)
    (job,) = report.jobs
    assert (job.kind, job.sources, job.keys) == ("full", tuple(f"run {n}" for n in (4, 3, 2, 1, 0)), (KeyRange(),))
    assert (job.files_in, job.files_out, job.destination, job.is_lowest) == (5, 1, 0, True)
    assert [kind for _, kind, _ in layered.versions()] == ["put"] * 12, (
        "the tombstone was dropped with the rows that it hid"
    )


def test_the_record_of_the_commit(layered: Table) -> None:
    report = layered.compact(full=True)
    record = next(newest_commit_records(layered.objects, 1))
    assert (record.manifest_id, record.operation, record.first_seq, record.rows) == (
        report.version,
        "compact",
        None,
        {},
    )
    assert (len(record.files), len(record.removed)) == (1, 5)
    assert record.compactor_epoch == fetch_latest_manifest(layered.stores)[1].compactor_epoch
    assert layered.objects_in("slatespark/leases/") == set()


def test_the_previous_version_is_kept_for_readers(layered: Table) -> None:
    """A reader that began before can finish within the client's time limit."""
    version = layered.store.resolve().version
    layered.compact(full=True)
    (point,) = layered.store.checkpoints()
    assert point.version == version
    assert point.expires_ms is not None
    assert 899_000 <= point.expires_ms - layered.clock.now_ms() <= 901_000
    assert len(layered.store.scan(versionAsOf=version).read_all()) == 12


def test_nothing_to_do() -> None:
    table = Table()
    for arguments in ({"full": True}, {"l0_only": True}, {}, {"due": True}, {"options": {"keyPrefix": b"a"}}):
        version = table.store.resolve().version
        report = table.compact(**arguments)
        assert (report.jobs, report.version, table.store.resolve().version) == ((), version, version)
    table.put([1])
    assert table.compact().jobs == ()
    assert table.compact(options={"keyPrefix": b"other"}).jobs == ()


def test_a_full_compaction_of_a_compacted_run_does_nothing() -> None:
    table = Table()
    for number in range(3):
        table.put([1, 2], b"%d" % number)
    assert len(table.store.compact(full=True).jobs) == 1
    version = table.store.resolve().version
    report = table.store.compact(full=True)
    assert (report.is_compacted, report.jobs, report.version) == (True, (), version)
    assert "Nothing to do: the table is one sorted run." in compaction_text(report)
    assert table.store.resolve().version == version
    codec = table.store.files()[0].compression
    assert table.store.compact(full=True, compression=codec).is_compacted


@pytest.mark.parametrize(
    "arguments",
    [
        {"force": True},
        {"now": START_MS},
        {"filters": [ExpireFilter()]},
        {"compression": "zstd"},
        {"blockSize": "1k"},
        {"sstSize": "1m"},
        {"where": "key >= '61'", "full": False},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_compacted_run_is_rewritten_on_request(arguments: dict[str, Any]) -> None:
    table = Table(pa.schema([("key", pa.string())]), ["key"])
    for key in ("a", "b"):
        table.store.write(pa.table({"key": [key]}))
        table.clock.advance(HOUR_MS)
    table.store.compact(full=True)
    report = table.store.compact(**{"full": True, **arguments})
    assert (report.is_compacted, len(report.jobs)) == (False, 1)


def test_a_compacted_run_is_rewritten_if_rows_can_be_dropped() -> None:
    table = Table()
    table.put([1, 2])
    assert len(table.compact(full=True).jobs) == 1, "no compaction wrote this run"
    table.put([1], ttl="5h")
    assert len(table.compact(full=True).jobs) == 1
    assert table.compact(full=True).is_compacted
    table.clock.advance(9 * HOUR_MS)
    assert table.compact(full=True).expired == 1, "a row has expired"
    assert table.compact(full=True).is_compacted
    table.store.setProperties(retention="1h")
    assert table.compact(full=True).expired == 1, "a row is past retention"


def test_a_run_with_versions_for_a_snapshot_is_rewritten_once_that_is_gone() -> None:
    table = Table()
    for value in (b"hidden", b"shown"):
        table.put([1], value)
    (number, manifest), options = fetch_latest_manifest(table.stores), {"ifClientActive": "fence"}
    snapshot = replace(manifest, recent_snapshot_min_seq=1, nonce=draw_nonce(table.clock))  # as of a client's flush
    publish_manifest(table.stores, number + 1, snapshot, manifest, table.clock)
    assert table.compact(full=True, options=options).rows_out == 2
    assert [value for _, _, value in table.versions()] == [b"shown", b"hidden"]
    assert table.compact(full=True, options=options).rows_out == 1, "our commit has ended it"
    assert table.compact(full=True, options=options).is_compacted


def test_a_cut_run_is_rewritten() -> None:
    table = Table()
    table.put([1, 2, 3])
    table.put([4])
    table.compact(full=True)
    table.store.deleteRange(startKey=b"002", endKey=b"003")
    assert table.compact(full=True).jobs[0].rows_out == 3
    assert table.compact(full=True).is_compacted


def test_size_tiers_until_nothing_is_left_to_merge() -> None:
    table = Table()
    for number in range(9):
        table.put([number])
    report = table.compact()
    assert [len(job.sources) for job in report.jobs] == [8], "eight at a time, the oldest ones"
    assert table.layers() == ["run 8", "run 0"]
    for number in range(10, 17):
        table.put([number])
    assert [job.kind for job in table.compact().jobs] == ["size-tiered"] * 1
    assert len(our_rows(table.store)) == 16


def test_an_interval_of_keys(layered: Table) -> None:
    before = our_rows(layered.store)
    report = layered.compact(options={"startKey": b"002", "endKey": b"005"})
    assert our_rows(layered.store) == before
    assert (report.jobs[0].rows_in, report.jobs[0].rows_out) == (12, 2)
    stored = [key for key, _, _ in layered.versions()]
    assert stored.count(b"002") == stored.count(b"004") == 1
    assert stored.count(b"003") == 0
    assert stored.count(b"005") == 4, "outside of the interval nothing changed"


def test_an_interval_of_a_typed_table() -> None:
    schema = pa.schema([("tenant", pa.string()), ("day", pa.int32()), ("value", pa.string())])
    table = Table(schema, ["tenant", "day"])
    for value in ("old", "new"):
        table.store.write(pa.table({"tenant": ["a", "a", "b"], "day": [1, 3, 1], "value": [value] * 3}, schema))
    report = table.compact(where="tenant = 'a' AND day IN (1, 3)")
    assert (report.rows_in, report.rows_out, len(report.jobs[0].keys)) == (4, 2, 2)
    assert table.store.scan().read_all()["value"].to_pylist() == ["new"] * 3
    with pytest.raises(OptionError, match="key"):
        table.compact(where="value = 'old'")
    with pytest.raises(OptionError, match="full"):
        table.compact(where="tenant = 'a'", full=True)


def test_two_intervals_at_the_same_time(layered: Table) -> None:
    before = our_rows(layered.store)
    reports: list[CompactionReport] = []

    def other() -> None:
        if not reports:
            reports.append(layered.compact(options={"startKey": b"006", "endKey": b"009"}))

    reports.append(layered.compact(other, options={"startKey": b"002", "endKey": b"006"}))
    assert [report.jobs[0].rows_out for report in reports] == [3, 3]
    assert our_rows(layered.store) == before
    assert not layered.store.verify().has_damage


def test_size_tiers_skip_busy_layers() -> None:
    table = Table()
    for number in range(9):
        table.put([number], b"v" * (5000 if number < 4 else 1))
    inner: list[CompactionReport] = []
    outer = table.compact(lambda: inner.append(table.compact()) if not inner else None)
    assert [len(job.sources) for report in (*inner, outer) for job in report.jobs] == [4, 5]
    assert len(our_rows(table.store)) == 9


def test_a_concurrent_write_stays_above(layered: Table) -> None:
    layered.compact(lambda: layered.put([0, 50], b"meanwhile"), full=True)
    rows = {row.key: row.value for row in our_rows(layered.store)}
    assert (rows[b"000"], rows[b"050"], len(rows)) == (b"meanwhile", b"meanwhile", 13)
    assert len(layered.layers()) == 2


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda table: table.store.deleteRange(startKey=b"001", endKey=b"002"), id="cut"),
        pytest.param(lambda table: table.compact(full=True), id="merged"),
        pytest.param(lambda table: table.store.write(_RAW.empty_table(), mode="overwrite"), id="replaced"),
    ],
)
def test_sources_that_change_concurrently(layered: Table, meanwhile: Callable[[Table], object]) -> None:
    after: list[Any] = []

    def change() -> None:
        meanwhile(layered)
        after.extend([our_rows(layered.store), layered.objects_in("compacted/"), layered.store.resolve().version])

    uploaded = layered.objects_in("compacted/")
    with pytest.raises(CommitConflictError, match="commit"):
        layered.compact(change, full=True)
    assert our_rows(layered.store) == after[0]
    assert layered.store.resolve().version == after[2], "nobody was fenced for it"
    left = layered.objects_in("compacted/") - uploaded
    shown = {f"compacted/{sst_id}.sst" for sst_id in fetch_latest_manifest(layered.stores)[1].ssts}
    assert left <= shown, "uploads of the failed job are deleted"
    assert layered.objects_in("slatespark/leases/") == set()
    layered.compact(full=True)
    assert our_rows(layered.store) == after[0]


def test_a_concurrent_restore_of_rows_hidden_by_a_tombstone() -> None:
    """The tombstone was the lowest row of its key and is dropped, but after the restore an older row lies below it."""
    table = Table(retention="10h")
    table.put([1], b"old")
    table.clock.advance(20 * HOUR_MS)
    table.put([1], operation="delete")
    both = table.store.resolve().version
    assert table.store.reap().files_dropped == 1
    assert table.layers() == ["run 1"]
    with pytest.raises(CommitConflictError, match="below"):
        table.compact(lambda: table.store.restoreToVersion(both), full=True)
    assert table.versions() == [(b"001", "delete", None), (b"001", "put", b"old")]


def test_a_long_compaction_copies_no_file(layered: Table) -> None:
    """Files of a long write are copied to fresh ids against collectors; a listed compaction protects its files."""
    layered.compact(lambda: layered.clock.advance(20 * HOUR_MS), full=True)
    assert layered.objects.count("copy") == 0
    assert layered.layers() == ["run 0"]


def test_outputs_that_were_garbage_collected(layered: Table) -> None:
    before = our_rows(layered.store)

    def collect() -> None:
        for path in layered.objects_in("compacted/") - old:
            layered.objects.delete(path)

    old = layered.objects_in("compacted/")
    with pytest.raises(CommitConflictError, match="collected"):
        layered.compact(collect, full=True)
    assert our_rows(layered.store) == before


def test_a_dry_run_changes_nothing(layered: Table) -> None:
    objects = {folder: layered.objects_in(folder) for folder in ("", "compacted/", "compactions/", "manifest/")}
    report = layered.compact(dry_run=True)
    assert (report.dry_run, report.jobs[0].kind, report.jobs[0].version) == (True, "size-tiered", None)
    assert objects == {folder: layered.objects_in(folder) for folder in objects}
    assert report.jobs == layered.compact(dry_run=True).jobs


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_exact_reads_of_the_past_after_a_compaction(layered: Table) -> None:
    """Versions of a key are gone, so a lower sequence number can only be read while the previous version is kept."""
    version, rows = layered.store.resolve(), our_rows(layered.store)
    layered.compact(full=True)
    assert our_rows(layered.store, versionAsOf=version.version) == rows
    assert our_rows(layered.store, seqAsOf=version.seq) == rows
    for path in sorted(layered.objects_in("manifest/"))[:-1]:
        layered.objects.delete(path)
    with pytest.raises(HistoryTrimmedError):
        layered.store.scan(seqAsOf=version.seq)


def test_the_reported_instant(layered: Table) -> None:
    assert layered.compact(dry_run=True).now_ms == layered.clock.now_ms() - 60_000
    table = Table(history=True)
    table.put([1])
    assert table.compact(full=True).now_ms is None
    table.store.setHistoryFloor(START_MS)
    assert table.compact(full=True).now_ms == START_MS


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_ranges_can_be_merged_anywhere(layered: Table) -> None:
    """Tasks are pickled, merged out of order, and returned in order."""
    before = our_rows(layered.store)
    seen: list[int] = []

    def elsewhere(tasks: Sequence[RangeTask]) -> list[MergedRange]:
        seen.append(len(tasks))
        sent = [pickle.loads(pickle.dumps(task)) for task in tasks]
        merged = [merge_range(layered.stores, layered.clock, task) for task in reversed(sent)]
        return [pickle.loads(pickle.dumps(part)) for part in reversed(merged)]

    options = WriteOptions.parse({"path": layered.url, "blockSize": 1024})
    report = compact_table(layered.stores, layered.clock, FULL, options, runner=elsewhere, range_bytes=100)
    assert seen[0] > 1
    assert our_rows(layered.store) == before
    assert report.jobs[0].files_out is not None
    assert report.jobs[0].files_out > 1


def test_a_runner_that_loses_a_range(layered: Table) -> None:
    before = our_rows(layered.store)
    with pytest.raises(Exception, match="ranges"):
        compact_table(layered.stores, layered.clock, FULL, runner=lambda _: [])
    assert our_rows(layered.store) == before
    assert [job.status for job in fetch_compactions(layered.stores)[1].jobs] == [CompactionStatus.FAILED]


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"full": True, "l0Only": True}, "l0Only"),
        ({"due": True, "startKey": b"a"}, "startKey"),
        ({"startKey": b"b", "endKey": b"a"}, "startKey"),
        ({"force": True}, "full"),
        ({"l0Only": True, "force": True}, "full"),
        ({"full": True, "minCompactionSources": 3}, "minCompactionSources"),
        ({"keyPrefix": b"a", "includeSizeThreshold": 2.0}, "keyPrefix"),
        ({"dryrun": True}, "dryRun"),
        ({"minCompactionSource": 2}, "minCompactionSources"),
        ({"filters": [1]}, "filter"),
        ({"txnAppId": "a", "txnVersion": 1}, "txnAppId"),
        ({"ttl": "1d"}, "ttl"),
        ({"compresion": "zstd"}, "compression"),
        ({"where": "key ="}, "where"),
        ({"now": "yesterday"}, "now"),
    ],
)
def test_wrong_arguments(layered: Table, arguments: dict[str, Any], message: str) -> None:
    version = layered.store.resolve().version
    with pytest.raises(InvalidRequestError, match=message):
        layered.store.compact(**arguments)
    assert layered.store.resolve().version == version


def test_no_table() -> None:
    store = MemoryStore(f"compact/{next(_names)}")
    with pytest.raises(TableNotFoundError):
        compact_table(TableStores(main=store, wal=store), FakeClock())


def test_a_clone_that_is_being_made() -> None:
    store = MemoryStore(f"compact/{next(_names)}")
    store.put(manifest_path(1), [encode_manifest(Manifest(initialized=False))])
    with pytest.raises(UnsupportedFormatError, match="clone"):
        compact_table(TableStores(main=store, wal=store), FakeClock(), FULL)
