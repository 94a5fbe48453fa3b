"""Which two versions a change feed compares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, InvalidRequestError, OptionError, SlateStore
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.row import Row
from slatespark.options import ReadOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.changes.bounds import resolve_bounds
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.records.commit_record import CLIENT_EPOCH, commit_path
from slatespark.table.records.commits import fetch_commit_record, publish_commit_record
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal, forget_own_commits

DAY_MS = 86_400_000


class Table:
    """Version 1 is empty; versions 3, 5 and 7 each bring a row, a day apart; 2, 4 and 6 are claims."""

    def __init__(self, name: str) -> None:
        self.clock = FakeClock()
        self.clock.advance(-10 * DAY_MS)
        self.path = f"memory://{name}"
        self.store = SlateStore.create(self.path, clock=self.clock)
        self.times_ms = {1: self.clock.now_ms()}
        for number in (3, 5, 7):
            self.clock.advance(DAY_MS)
            assert self.store.write(pa.table({"key": [b"%d" % number], "value": [b"v"]})) == number
            self.times_ms[number] = self.clock.now_ms()

    def bounds(self, **options: Any) -> tuple[int, int]:
        parsed = ReadOptions.parse({"path": self.path, "readChangeFeed": True, **options})
        found = resolve_bounds(self.store._stores, parsed, self.clock)
        assert found.committed_ms == self.times_ms.get(found.after, found.committed_ms)
        return found.before, found.after


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    return Table(f"bounds-{request.node.name}")


def test_versions(table: Table) -> None:
    assert table.bounds(startingVersion=5) == (4, 7)
    assert table.bounds(startingVersion=1) == (0, 7)
    assert table.bounds(startingVersion=3, endingVersion=5) == (2, 5)
    assert table.bounds(startingVersion=3, endingVersion=5, startingBoundInclusive=False) == (3, 5)
    assert table.bounds(startingVersion=3, endingVersion=5, endingBoundInclusive=False) == (2, 4)
    assert table.bounds(startingVersion=5, endingVersion=5, startingBoundInclusive=False) == (5, 5)


def test_instants(table: Table) -> None:
    third, fifth = table.times_ms[3], table.times_ms[5]
    assert table.bounds(startingTimestamp=fifth)[0] in (3, 4)
    assert table.bounds(startingTimestamp=fifth, startingBoundInclusive=False) == (5, 7)
    assert table.bounds(startingTimestamp=third - DAY_MS) == (0, 7)
    assert table.bounds(startingTimestamp=0, endingTimestamp=fifth) == (0, 5)
    assert table.bounds(startingTimestamp=0, endingTimestamp=fifth, endingBoundInclusive=False)[1] in (3, 4)
    assert table.bounds(startingVersion=3, endingTimestamp=fifth + 1) == (2, 5)


def test_instants_around_the_first_version(table: Table) -> None:
    created = table.times_ms[1]
    assert table.bounds(startingTimestamp=created) == (0, 7)
    assert table.bounds(startingTimestamp=created, startingBoundInclusive=False) == (1, 7)
    assert table.bounds(startingTimestamp=created + 1) == (1, 7)
    assert table.bounds(startingTimestamp=0, endingTimestamp=created) == (0, 1)
    with pytest.raises(HistoryTrimmedError):
        table.bounds(startingTimestamp=0, endingTimestamp=created - 1)


def test_the_record_of_the_first_version_tells_when_there_was_none() -> None:
    clock = FakeClock()
    clock.advance(-10 * DAY_MS)
    store = SlateStore.create("memory://bounds/first-collected", clock=clock)
    created = clock.now_ms()
    for key in (b"a", b"b"):
        clock.advance(DAY_MS)
        newest = store.write(pa.table({"key": [key], "value": [b"v"]}))
    store._stores.main.delete(manifest_path(1))

    def before(time_ms: int) -> int:
        options = ReadOptions.parse({"path": store.url, "readChangeFeed": True, "startingTimestamp": time_ms})
        found = resolve_bounds(store._stores, options, clock)
        assert found.after == newest
        return found.before

    assert before(created) == 0
    with pytest.raises(HistoryTrimmedError):
        before(created + 1)
    store._stores.main.delete(commit_path(1))
    with pytest.raises(HistoryTrimmedError):
        before(created)


def test_nothing_yet(table: Table) -> None:
    """A consumer that has the newest version asks for the one after it."""
    assert table.bounds(startingVersion=8) == (7, 7)
    assert table.bounds(startingVersion=7, startingBoundInclusive=False) == (7, 7)


@pytest.mark.parametrize(
    "options",
    [
        {"startingVersion": 5, "endingVersion": 5, "startingBoundInclusive": False, "endingBoundInclusive": False},
        {"startingVersion": 8, "endingTimestamp": 0},
        {"startingTimestamp": 9_000_000_000_000},
    ],
)
def test_a_start_after_the_end_or_in_the_future(table: Table, options: dict[str, Any]) -> None:
    with pytest.raises((OptionError, HistoryTrimmedError)):
        table.bounds(**options)


@pytest.mark.parametrize("options", [{"startingVersion": 9}, {"startingVersion": 3, "endingVersion": 8}])
def test_versions_to_come(table: Table, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        table.bounds(**options)


def test_a_version_that_was_collected_is_refused(table: Table) -> None:
    delete(table, 5)
    with pytest.raises(HistoryTrimmedError, match="startingVersion=6, startingBoundInclusive=false"):
        table.bounds(startingVersion=5, startingBoundInclusive=False)
    with pytest.raises(HistoryTrimmedError):
        table.bounds(startingVersion=3, endingVersion=5)
    assert table.bounds(startingVersion=5) == (4, 7)


def test_without_its_claim_a_commit_starts_from_the_version_before(table: Table) -> None:
    delete(table, 4)
    assert table.bounds(startingVersion=5) == (3, 7)
    delete(table, 3)
    with pytest.raises(HistoryTrimmedError):
        table.bounds(startingVersion=5)


def test_a_version_of_a_client_starts_from_the_one_before_alone(table: Table) -> None:
    """No record tells that nothing was in between."""
    table.store._stores.main.delete(commit_path(5))
    delete(table, 4)
    with pytest.raises(HistoryTrimmedError):
        table.bounds(startingVersion=5)


def test_a_commit_of_a_client_for_us_starts_from_the_version_before_alone(table: Table) -> None:
    """We did not claim the version before: a segment that the client dropped there took no number."""
    main = table.store._stores.main
    record = fetch_commit_record(main, 5)
    assert record is not None
    main.delete(commit_path(5))
    publish_commit_record(main, replace(record, compactor_epoch=CLIENT_EPOCH))
    assert table.bounds(startingVersion=5) == (4, 7)
    delete(table, 4)
    with pytest.raises(HistoryTrimmedError):
        table.bounds(startingVersion=5)


def test_a_claim_that_counts_rows_of_a_client_is_not_passed_over(table: Table) -> None:
    main = table.store._stores.main
    latest = fetch_latest_manifest(table.store._stores).value
    row = Row(b"w", latest.last_l0_seq + 1, value=b"v", create_ts_ms=table.clock.now_ms())
    main.put(wal_path(latest.wal_id_last_seen + 1), [encode_wal([row])])
    forget_own_commits(table.store)
    version = table.store.write(pa.table({"key": [b"9"], "value": [b"v"]}))
    assert version == 9
    assert table.bounds(startingVersion=9) == (8, 9)
    delete(table, 8)
    with pytest.raises(HistoryTrimmedError):
        table.bounds(startingVersion=9)


def test_instants_of_a_table_with_its_own_time_are_those_of_its_clock() -> None:
    store = SlateStore.create("memory://bounds/own-time", clock="custom", autoCompact=False)
    written = [store.write(pa.table({"key": [b"k"], "value": [b"v"]}), timestamp=time_ms) for time_ms in (10, 20)]

    def before(time_ms: int) -> int:
        options = ReadOptions.parse({"path": store.url, "readChangeFeed": True, "startingTimestamp": time_ms})
        found = resolve_bounds(store._stores, options, FakeClock())
        assert found.after == written[1]
        return found.before

    created_ms = fetch_manifest(store._stores, 1).last_l0_clock_tick
    assert before(created_ms) == 0
    assert written[0] <= before(11) < written[1]
    store._stores.main.delete(manifest_path(1))  # its record has the time of another clock
    assert written[0] <= before(11) < written[1]


def delete(table: Table, version: int) -> None:
    table.store._stores.main.delete(manifest_path(version))


def test_of_our_commits_only_the_last_record_is_read(table: Table) -> None:
    for _ in range(20):
        table.store.write(pa.table({"key": [b"k"], "value": [b"v"]}))
    newest = table.store.resolve().version
    store = FailingStore(MemoryStore(table.path.removeprefix("memory://")))
    options = {
        "path": table.path,
        "readChangeFeed": True,
        "startingVersion": newest - 3,
        "startingBoundInclusive": False,
    }
    found = resolve_bounds(TableStores(main=store, wal=store), ReadOptions.parse(options), table.clock)
    assert (found.before, found.after, found.committed_ms) == (newest - 3, newest, table.clock.now_ms())
    assert store.count("get", "slatespark/commits/*") == 1


def test_a_commit_without_rows_starts_from_the_version_before_too() -> None:
    clock = FakeClock()
    store = SlateStore.create("memory://bounds/no-rows", clock=clock, versionRetention="7d", autoCompact=False)
    for key in (b"a", b"b"):
        store.write(pa.table({"key": [key], "value": [b"v"]}))
        clock.advance(DAY_MS // 24)
    deleted = store.deleteRange(startKey=b"b", endKey=b"c")
    clock.advance(DAY_MS // 24)
    store.write(pa.table({"key": [b"d"], "value": [b"v"]}))
    store.vacuum(minAge="0s", force=True)
    found = store.changes(startingVersion=deleted).read_all().to_pylist()
    assert [(row["_change_type"], row["key"]) for row in found] == [("delete", b"b"), ("insert", b"d")]


def test_up_to_nothing(table: Table) -> None:
    nothing: dict[str, Any] = {"startingVersion": 1, "endingVersion": 1, "endingBoundInclusive": False}
    assert table.bounds(**nothing) == (0, 0)
    assert table.store.changes(**nothing).read_all().num_rows == 0
