"""Explanations of compactions, vacuums and reaps: what is measured lies within what was estimated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.slate_store.explanation import Explanation
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.explain.cost import RequestRange
from slatespark.table.explain.explanation import EraseOutlook, ReapOutlook
from slatespark.table.gc.absence_report import AbsenceReport
from slatespark.table.gc.report import VacuumReport
from slatespark.table.retention.reap_report import ReapReport
from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.fake_clock import FakeClock
from tests.unit.table.explain.tables import explained, forget, new_place, new_table, rows

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> SlateStore:
    store = new_table(new_place(), clock, retention="1d")
    for number in range(5):
        store.write(rows(1000 * number, 2000))
        clock.advance(1000)
    return store


# --- compactions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({}, 5),
        ({"full": True}, 5),
        ({"full": True, "columnar": True}, 5),
        ({"where": "id < 1500"}, 2),
        ({"l0Only": True}, 0),
    ],
)
def test_a_compaction(store: SlateStore, options: dict[str, Any], files: int) -> None:
    before = store.scan().read_all()
    found = explained(store, "compact", **options)
    assert sum(layer.used for layer in found.layers) == files
    assert (found.files, sum(found.skipped.values())) == (5, 5 - files)
    assert isinstance(found.plan, CompactionReport)
    assert isinstance(found.report, CompactionReport)
    assert (found.plan.dry_run, len(found.report.jobs)) == (True, int(files > 0))
    assert store.scan().read_all() == before


def test_copies_for_files_that_exist(store: SlateStore) -> None:
    store.compact(full=True)
    found = explained(store, "compact", columnar=True)
    assert isinstance(found.report, CompactionReport)
    assert [copy.rows for copy in found.report.copies] == [6000]
    assert explained(store, "compact", columnar=True).report.copies == ()  # type: ignore[union-attr]


def test_a_compaction_by_several_tasks(store: SlateStore) -> None:
    store.write(rows(0, 40_000))
    found = explained(store, "compact", full=True, sstSize="100k", compression="none")
    assert found.splits > 3


def test_a_compaction_with_nothing_to_do_is_exact(store: SlateStore) -> None:
    store.compact(full=True)
    for options in ({}, {"full": True}):
        found = explained(store, "compact", **options)
        assert found.estimated.is_exact
        assert found.measured == found.planning


def test_to_explain_a_compaction_merges_nothing(store: SlateStore) -> None:
    version = store.resolve().version
    found = store.explain("compact", full=True)
    assert (found.measured, found.report, store.resolve().version) == (None, None, version)
    assert found.planning.put == 0
    assert found.estimated.low.read_bytes > 4 * found.planning.read_bytes


# --- vacuums ----------------------------------------------------------------------------------------------------------


def test_a_vacuum_deletes_what_was_said(store: SlateStore) -> None:
    store.compact(full=True)
    would = store.explain("vacuum", minAge="0s")
    assert would.planning.delete == 0
    found = explained(store, "vacuum", minAge="0s", force=True)
    assert isinstance(found.plan, VacuumReport)
    assert isinstance(found.report, VacuumReport)
    gone = len(found.plan.collected)
    assert gone > 5
    assert found.measured is not None
    assert len(found.report.collected) == gone
    assert 0 < found.measured.delete < gone  # each kind with one request
    assert found.files == len(found.plan.files) == gone + sum(found.skipped.values())


def test_a_vacuum_that_finds_nothing_is_exact(store: SlateStore) -> None:
    found = explained(store, "vacuum")
    assert found.estimated.is_exact
    assert found.skipped


def test_a_vacuum_that_releases_checkpoints(store: SlateStore, clock: FakeClock) -> None:
    store.createCheckpoint("old", "1h")
    store.write(rows(0, 10), mode="overwrite")
    clock.advance(2 * HOUR_MS)
    found = explained(store, "vacuum", minAge="0s", force=True)
    assert isinstance(found.plan, VacuumReport)
    assert len(found.plan.checkpoints_released) == 1


def test_a_vacuum_of_a_clients_table(tmp_path: Path) -> None:
    with Client.open(Location.local(tmp_path / "t"), ClientOptions(compactor=True)) as client:
        for number in range(10):
            client.write([Put(b"k%03d" % key, b"%d" % number) for key in range(50)])
            client.flush_memtable()
    store = SlateStore.open(tmp_path / "t")
    explained(store, "vacuum", minAge="0s", force=True)
    explained(store, "compact", full=True)
    explained(store, "vacuum", minAge="0s", force=True, fences=True)


# --- reaps ------------------------------------------------------------------------------------------------------------


def outlook(found: Explanation) -> tuple[int, int]:
    """Files that are dropped, and that are looked through."""
    assert isinstance(found.plan, ReapOutlook)
    return found.plan.dropped_files, found.plan.examined_files


def test_a_reap_without_retention_is_exact(tmp_path: Path) -> None:
    store = new_table(new_place())
    store.write(rows(0, 10))
    found = explained(store, "reap")
    assert outlook(found) == (0, 0)
    assert found.estimated.is_exact


def test_a_reap_of_young_rows(store: SlateStore) -> None:
    found = explained(store, "reap")
    assert (outlook(found), dict(found.skipped)) == ((0, 0), {"no row is past retention": 5})


def test_a_reap_of_old_files(store: SlateStore, clock: FakeClock) -> None:
    clock.advance(25 * HOUR_MS)
    store.write(rows(50_000, 10))
    found = explained(store, "reap")
    assert outlook(found) == (5, 0)
    assert isinstance(found.report, ReapReport)
    assert found.report.files_dropped == 5
    assert found.measured is not None
    assert found.measured.read_bytes < 200_000  # no block of rows


@pytest.mark.parametrize("part", [10, 1000])
def test_a_reap_of_mixed_files(store: SlateStore, clock: FakeClock, part: int) -> None:
    clock.advance(23 * HOUR_MS)
    store.write(rows(0, part))
    store.compact(full=True)
    clock.advance(2 * HOUR_MS)
    store.write(rows(50_000, 10))
    found = explained(store, "reap")
    assert outlook(found) == (0, 1)
    assert isinstance(found.report, ReapReport)
    assert found.report.rows == 6000 - part
    assert store.scan().read_all().num_rows == part + 10


def test_a_reap_of_a_clients_files(tmp_path: Path, clock: FakeClock) -> None:
    with Client.open(Location.local(tmp_path / "t")) as client:
        for number in range(3):
            client.write([Put(b"k%03d" % key, b"v") for key in range(number * 30, 100)])
            client.flush_memtable()
    store = SlateStore.open(tmp_path / "t")
    store.setProperties(retention="1d")
    found = explained(store, "reap", now=store.detail().clock_tick_ms)
    assert outlook(found) == (0, 3)  # nothing is known of them yet


def test_to_explain_a_reap_deletes_nothing(store: SlateStore, clock: FakeClock) -> None:
    clock.advance(25 * HOUR_MS)
    forget()
    version = store.resolve().version
    found = store.explain("reap", prices="put=1")
    assert (found.planning.put, found.measured, store.resolve().version) == (0, None, version)
    assert found.estimated_cost is not None
    assert 0 < found.estimated_cost[0] < found.estimated_cost[1]


@pytest.mark.parametrize("retention", ["1h", None])
def test_a_reap_raises_the_history_floor_first(clock: FakeClock, retention: str | None) -> None:
    """Once where no floor is stored, once where it lags far behind, and once where the step would be a small one."""
    store = new_table(new_place(), clock, history=True, retention=retention, historyRetention="1h")
    for hours in (10, 10, 0):
        store.write(rows(0, 100))
        clock.advance(hours * HOUR_MS + 1000)
        found = explained(store, "reap")
        assert isinstance(found.plan, ReapOutlook)
        assert isinstance(found.report, ReapReport)
        assert found.plan.retired_ms == found.report.reaped_through_ms
        assert outlook(found) == ((1, 0) if hours and retention else (0, 0))
        assert found.report.rows == (100 if hours and retention else 0)


def test_history_tables(tmp_path: Path, clock: FakeClock) -> None:
    store = new_table(new_place(), clock, history=True, retention="1d")
    for _ in range(4):
        store.write(pa.concat_tables([rows(0, 100)]))
        clock.advance(HOUR_MS)
    store.setHistoryFloor(clock.now_ms() - 3 * HOUR_MS)
    explained(store, "compact")
    explained(store, "reap")
    explained(store, "vacuum", minAge="0s", force=True)


# --- erasures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "files", "rows"),
    [({"keys": [1500]}, 2, 2), ({"keys": [10, 1500]}, 2, 3), ({"where": "id < 500"}, 1, 500), ({"keys": [-1]}, 0, 0)],
)
def test_an_erasure(store: SlateStore, options: dict[str, Any], files: int, rows: int) -> None:
    found = explained(store, "erase", **options)
    assert isinstance(found.plan, EraseOutlook)
    assert isinstance(found.report, AbsenceReport)
    assert (found.plan.files, found.plan.rows, found.files, sum(found.skipped.values())) == (files, rows, 5, 5 - files)
    assert (found.report.gone, sum(layer.used for layer in found.layers)) == (True, files)


def test_to_explain_an_erasure_changes_nothing(store: SlateStore) -> None:
    version, before = store.resolve().version, store.scan().read_all()
    found = store.explain("erase", keys=[1500], prices="get=1,put=1")
    assert (found.measured, found.planning.put, found.planning.delete, store.resolve().version) == (None, 0, 0, version)
    assert store.scan().read_all() == before
    assert found.estimated_cost is not None
    assert 0 < found.estimated_cost[0] < found.estimated_cost[1]


def test_flags_of_an_erasure_may_be_text(store: SlateStore) -> None:
    def estimated(given: bool | str) -> RequestRange:
        return store.explain("erase", keys=[1500], releaseVersions=given).estimated

    estimated(False)  # fills the caches
    assert estimated("false") == estimated(False) != estimated(True)


def test_an_erasure_from_kept_versions(clock: FakeClock) -> None:
    store = new_table(new_place(), clock, versionRetention="7d")
    for number in range(3):
        store.write(rows(1000 * number, 2000))
        clock.advance(1000)
    store.createCheckpoint("kept", "1h")
    kept = explained(store, "erase", keys=[1500])
    assert isinstance(kept.plan, EraseOutlook)
    assert isinstance(kept.report, AbsenceReport)
    assert (kept.plan.copies >= 2, kept.report.gone) == (True, False)
    found = explained(store, "erase", keys=[1600], releaseVersions=True)
    assert isinstance(found.report, AbsenceReport)
    assert not found.report.gone  # the checkpoint


def test_an_erasure_from_a_clients_wal(tmp_path: Path) -> None:
    client = Client.open(Location.local(tmp_path / "t"))
    client.write([Put(b"k%03d" % key, b"v") for key in range(50)])
    client.flush_wal()
    client.close(flush=False)
    found = explained(SlateStore.open(tmp_path / "t"), "erase", keys=[b"k007"])
    assert isinstance(found.plan, EraseOutlook)
    assert found.plan.wal_rows == 1


@pytest.mark.parametrize("analyze", [False, True])
@pytest.mark.parametrize("operation", ["compact", "vacuum", "reap", "erase"])
def test_the_arguments_of_a_run_are_those_of_the_operation(operation: str, *, analyze: bool) -> None:
    store = SlateStore.create(f"memory://explained/{operation}/{analyze}", retention="1h")
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    given: dict[str, Any] = {"keys": [b"a"]} if operation == "erase" else {}
    if operation != "vacuum":
        given["runner"] = None
    found = store.explain(operation, analyze=analyze, progress=False, **given)
    assert found.operation == operation
