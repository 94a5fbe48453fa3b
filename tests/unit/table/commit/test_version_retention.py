"""The versions that commits keep, for how long, and how they are thinned."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import SnapshotExpiredError
from slatespark.format.manifest import Checkpoint
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.row import Row
from slatespark.table.checkpoints.store import LAST_S, create_checkpoint, delete_checkpoint
from slatespark.table.commit import version_retention
from slatespark.table.commit.version_retention import (
    UNDO_LIFETIME_MS,
    UNDO_NAMES,
    find_replaced,
    is_retained,
    retained,
)
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores, open_stores
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal, forget_own_commits

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
DAY_MS = 86_400_000
WEEK_S = 7 * 86_400
_names = itertools.count()


def counted() -> Callable[[], UUID]:
    numbers = itertools.count(1)
    return lambda: UUID(int=next(numbers))


def keep(points: Sequence[Checkpoint], *versions: int, age_s: int = 0, limit: int = 1000) -> tuple[Checkpoint, ...]:
    """The checkpoints after a commit at `age_s` that keeps versions for a week."""
    return retained(points, versions, WEEK_S * 1000, NOW_MS + age_s * 1000, counted(), limit=limit)


def test_names_identify_our_checkpoints() -> None:
    (point,) = keep((), 5)
    assert point == Checkpoint(UUID(int=1), 5, NOW_S + WEEK_S, NOW_S, "slatespark/version/5")
    assert is_retained(point.name)
    assert not any(map(is_retained, (None, "monday", "slatespark/pin", "slatespark/clone/x")))


def test_expired_checkpoints_go_and_those_of_others_stay() -> None:
    theirs = Checkpoint(UUID(int=90), 3, NOW_S - 1, NOW_S - 10, "monday")  # left to the client's collector
    nameless = Checkpoint(UUID(int=91), 3, 0, NOW_S - 10)
    lasting = Checkpoint(UUID(int=92), 4, 0, NOW_S - 10, "slatespark/version/4")  # somebody refreshed it for ever
    pin = Checkpoint(UUID(int=93), 2, NOW_S, NOW_S - 10, "slatespark/pin")
    clone = Checkpoint(UUID(int=94), 2, 0, NOW_S - 10, "slatespark/clone/x")
    assert [point.manifest_id for point in keep((clone, pin), 5)] == [2, 5]
    points = keep((theirs, nameless, lasting), 5)
    assert [point.manifest_id for point in points] == [3, 3, 4, 5]
    later = keep(points, 7, age_s=WEEK_S - 1)
    assert [point.manifest_id for point in later] == [3, 3, 4, 5, 7]
    assert [point.manifest_id for point in keep(later, 9, age_s=WEEK_S)] == [3, 3, 4, 7, 9]


def test_a_version_kept_already_lasts_longer() -> None:
    points = keep((), 5)
    (again,) = keep(points, 5, age_s=100)
    assert again == Checkpoint(points[0].id, 5, NOW_S + 100 + WEEK_S, NOW_S, points[0].name)
    (shorter,) = retained((again,), (5,), 1, NOW_MS, counted())
    assert shorter.expire_time_s == again.expire_time_s


def test_what_does_not_change_is_not_made_again() -> None:
    """A commit may carry a thousand of them."""
    points = keep((), 5, 6)
    later = keep(points, 6, 7, age_s=100)
    assert later[0] is points[0]
    assert later[1] == replace(points[1], expire_time_s=NOW_S + 100 + WEEK_S)


def test_times_beyond_the_limit_of_the_format() -> None:
    (point,) = retained((), (5,), 1 << 60, NOW_MS, counted())
    assert point.expire_time_s == LAST_S


def test_old_versions_are_thinned_to_the_limit() -> None:
    points: tuple[Checkpoint, ...] = ()
    for second in range(400):
        points = keep(points, second + 1, age_s=second, limit=40)
        assert len(points) <= 40
    versions = [point.manifest_id for point in points]
    assert (versions[0], versions[-1]) == (1, 400)
    assert versions == sorted(versions)
    ages = [400 - version for version in versions]
    recent, old = sum(age < 50 for age in ages), sum(200 <= age < 250 for age in ages)
    assert recent > 2 * old > 0


@pytest.mark.parametrize(
    ("typed", "text", "wanted"),
    [
        (True, None, WEEK_S * 1000),
        (False, None, None),
        (True, "none", None),
        (False, "2h", 7_200_000),
        (True, "0", None),
    ],
)
def test_the_property(typed: bool, text: str | None, wanted: int | None) -> None:
    properties = {} if text is None else {"versionRetention": text}
    keys = {"key_columns": ("id",), "schema": pa.schema([("id", pa.int64())])} if typed else {}
    assert TableDefinition(properties=properties, **keys).version_retention_ms == wanted


class Table:
    """A typed table in memory."""

    def __init__(self, **properties: str) -> None:
        self.clock = FakeClock(NOW_MS)
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
        url = f"memory://version-retention/{next(_names)}"
        self.store = SlateStore.create(url, schema, "id", clock=self.clock, **properties)
        self.stores: TableStores = open_stores(url, storage={})

    def write(self, name: str, **options: Any) -> int:
        return self.store.write(pa.table({"id": pa.array([1], pa.int64()), "name": [name]}), **options)

    def name(self, version: int) -> str:
        return str(self.store.scan(versionAsOf=version).read_all()["name"][0].as_py())

    def kept(self) -> dict[int, int]:
        """Version and second of expiry of each kept version."""
        return {point.manifest_id: point.expire_time_s for point in self.points() if is_retained(point.name)}

    def points(self) -> tuple[Checkpoint, ...]:
        return fetch_latest_manifest(self.stores)[1].checkpoints


def test_each_commit_keeps_the_version_before_it_and_itself() -> None:
    table = Table(versionRetention="1h")
    first = table.write("a")
    table.clock.advance(10_000)
    second = table.write("b")
    assert table.kept() == {1: NOW_S + 3600, first: NOW_S + 3610, second: NOW_S + 3610}
    table.clock.advance(3_600_000)
    third = table.write("c")
    assert table.kept() == {second: NOW_S + 10 + 7200, third: NOW_S + 10 + 7200}
    assert {number: table.name(number) for number in (first, second)} == {first: "a", second: "b"}


def test_a_table_without_retention_releases_kept_versions() -> None:
    table = Table(versionRetention="1h")
    first = table.write("a")
    table.store.setProperties(versionRetention="none")
    table.write("b")
    assert set(table.kept()) == {1, first}
    table.clock.advance(3_600_000)
    table.write("c")
    assert table.kept() == {}
    table.store.setProperties(versionRetention="7d")
    assert len(table.kept()) == 0
    table.write("d")
    assert len(table.kept()) == 2


@pytest.mark.parametrize(("text", "wanted_s"), [("none", 900), ("1m", 900), ("1h", 3600)])
def test_the_version_before_a_compaction_is_kept_for_running_reads(text: str, wanted_s: int) -> None:
    table = Table(versionRetention=text, autoCompact="false")
    table.write("a")
    before = table.write("b")
    table.store.compact(full=True)
    assert table.kept()[before] == NOW_S + wanted_s


def test_versions_without_row_changes_are_skipped() -> None:
    table = Table()
    first = table.write("a")
    create_checkpoint(table.stores, table.clock, name="x")
    delete_checkpoint(table.stores, table.clock, "x")
    latest = fetch_latest_manifest(table.stores)
    assert (latest.number, find_replaced(table.stores, latest)) == (first + 2, first)
    bare = Version(latest.number, replace(latest.value, checkpoints=()))
    assert find_replaced(table.stores, bare) == latest.number  # nothing keeps the first
    second = table.write("b")
    assert set(table.kept()) == {1, first, second}


def test_the_search_ends_where_versions_were_collected() -> None:
    table = Table()
    first = table.write("a")
    create_checkpoint(table.stores, table.clock, name="x")
    table.stores.main.delete(manifest_path(first))
    latest = fetch_latest_manifest(table.stores)
    assert find_replaced(table.stores, latest) == latest.number == first + 1


def test_a_table_that_nobody_writes_for_long_keeps_its_version_until_it_is_replaced() -> None:
    clock = FakeClock()
    store = SlateStore.create("memory://idle", clock=clock, versionRetention="7d")
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    version = store.write(pa.table({"key": [b"a"], "value": [b"2"]}))
    for _ in range(10):
        clock.advance(DAY_MS)
        store.vacuum(minAge="1h")
    store.createCheckpoint(lifetime="1h")
    clock.advance(DAY_MS)
    store.vacuum(minAge="1h")
    replaced = store.write(pa.table({"key": [b"a"], "value": [b"3"]}))
    clock.advance(6 * DAY_MS)
    store.vacuum(minAge="1h")
    assert store.get(b"a", versionAsOf=version) == {"key": b"a", "value": b"2"}
    clock.advance(DAY_MS + 1000)
    store.vacuum(minAge="1h")
    with pytest.raises(SnapshotExpiredError):
        store.get(b"a", versionAsOf=version)
    assert [point.version for point in store.checkpoints()] == [replaced]


def test_rows_that_are_only_in_the_wal_are_kept_with_the_claim() -> None:
    table = Table()
    first = table.write("a")
    manifest = fetch_latest_manifest(table.stores)[1]
    row = Row(b"\x15\x02", manifest.last_l0_seq + 1, value=b"", create_ts_ms=NOW_MS)  # the key of id 2
    table.stores.main.put(wal_path(manifest.wal_id_last_seen + 1), [encode_wal([row])])
    forget_own_commits(table.store)
    second = table.write("b", ifClientActive="fence")
    assert set(table.kept()) == {1, first, second - 1, second}
    rows = table.store.scan(versionAsOf=second - 1, metadataColumns="seq", columns="id").read_all().to_pylist()
    assert [row["id"] for row in rows] == [1, 2]


def test_a_restore_can_be_undone_in_any_table() -> None:
    table = Table(versionRetention="none")
    first, second = table.write("a"), table.write("b")
    made = table.store.restoreToVersion(first)
    undo_s = NOW_S + UNDO_LIFETIME_MS // 1000
    assert {(point.name, point.manifest_id, point.expire_time_s) for point in table.points()} == {
        (f"slatespark/restore/{first}", first, NOW_S + 7200),
        (f"slatespark/undo/{second + 1}", second + 1, undo_s),  # with the checkpoint on the first one
        (f"slatespark/undo/{made - 1}", made - 1, undo_s),
    }
    assert (table.name(made), table.name(made - 1)) == ("a", "b")


def test_versions_replaced_by_restores_are_not_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_retention, "MAX_RETAINED", 5)
    table = Table()
    first = table.write("a")
    for number in range(8):
        table.clock.advance(10_000)
        table.write(f"b{number}")
    table.clock.advance(10_000)
    restored = table.store.restoreToVersion(first)
    for number in range(12):
        table.clock.advance(10_000)
        table.write(f"c{number}")
    points = table.points()
    undo = {point.manifest_id: point.expire_time_s for point in points if (point.name or "").startswith(UNDO_NAMES)}
    assert undo[restored - 1] >= NOW_S + WEEK_S
    assert table.name(restored - 1) == "b7"
    assert sum(is_retained(point.name) for point in points) <= 5


def test_a_hold_on_an_old_version_does_not_thin_later_ones() -> None:
    points: tuple[Checkpoint, ...] = ()
    for second in range(60):
        points = keep(points, second + 1, age_s=second, limit=20)
    middle = points[10].manifest_id
    held = Checkpoint(UUID(int=99), middle, NOW_S + WEEK_S, NOW_S + 60, f"slatespark/restore/{middle}")
    without = points
    for second in range(60, 70):
        points = keep((*points, held) if held not in points else points, second + 1, age_s=second, limit=20)
        without = keep(without, second + 1, age_s=second, limit=20)
    assert [point for point in points if point != held] == list(without)
    assert held in points
