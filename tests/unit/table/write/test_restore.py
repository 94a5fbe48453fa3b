"""Restores: the edit of the manifest, the restored rows, and refused calls."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from slatespark import (
    CommitConflictError,
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SlateStore,
    UnsupportedFormatError,
)
from slatespark.format.info import SstInfo
from slatespark.format.manifest import ExternalDb, Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.references import SortedRun, SstHandle, SstMap, SstView
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.checkpoints.store import create_checkpoint, delete_checkpoint
from slatespark.table.commit.publication import without_l0
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.restore import plan_restore, restore_to_version
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
_names = itertools.count()


def place() -> str:
    return f"restores/{next(_names)}"


# --- the plan ---------------------------------------------------------------------------------------------------------


def ulid(number: int) -> Ulid:
    return make_ulid(1_000, number)


def view(number: int, sst: int | None = None) -> SstView:
    return SstView(ulid(number), ulid(number if sst is None else sst))


def ssts(*numbers: int) -> SstMap:
    info = SstInfo(first_entry=b"a", last_entry=b"z", index_offset=0, index_len=0, filter_offset=0, filter_len=0)
    return SstMap(SstHandle(ulid(number), info) for number in numbers)


def new_id(view: SstView) -> Ulid:
    return make_ulid(view.sst_id.timestamp_ms, 99)


def test_layers_are_restored_as_runs_with_new_ids() -> None:
    source = Manifest(
        ssts=ssts(1, 2, 3, 4),
        l0=(view(4), view(3)),
        compacted=(SortedRun(7, (view(2),)), SortedRun(5, ()), SortedRun(0, (view(1),))),
        last_compacted_l0_sst_view_id=ulid(2),
    )
    base = Manifest(
        ssts=ssts(8, 9), l0=(view(9),), compacted=(SortedRun(11, (view(8),)),), last_compacted_l0_sst_view_id=ulid(3)
    )
    restored = plan_restore(source, (), new_id).apply(without_l0(base))
    assert restored.compacted == (
        SortedRun(16, (view(4),)),
        SortedRun(15, (view(3),)),
        SortedRun(14, (view(2),)),
        SortedRun(13, (view(1),)),
    )
    assert (restored.l0, restored.ssts) == ((), source.ssts)
    assert restored.last_compacted_l0_sst_view_id == ulid(9)  # and not of the version that comes back


def test_a_duplicate_view_id_stays_with_the_older_view() -> None:
    source = Manifest(ssts=ssts(1), l0=(view(5, 1),), compacted=(SortedRun(0, (view(5, 1),)),))
    restored = plan_restore(source, (), new_id).apply(Manifest())
    assert [run.views[0].id for run in restored.compacted] == [make_ulid(1_000, 99), ulid(5)]


def test_databases_that_own_files_are_restored() -> None:
    one = ExternalDb("one", UUID(int=1), UUID(int=2), (ulid(1), ulid(2)))
    released = ExternalDb("released", UUID(int=3), UUID(int=4), ())
    gone = ExternalDb("gone", UUID(int=5), UUID(int=6), (ulid(3),))
    source = Manifest(ssts=ssts(1, 2, 3), l0=(view(1), view(2), view(3)), external_dbs=(one, released, gone))
    base = Manifest(external_dbs=(replace(one, sst_ids=(ulid(7), ulid(1))), released))
    restored = plan_restore(source, (), new_id).apply(base)
    assert restored.external_dbs == (replace(one, sst_ids=(ulid(7), ulid(1), ulid(2))), released, gone)


# --- tables -----------------------------------------------------------------------------------------------------------


class Table:
    """A raw table of four versions in memory."""

    def __init__(self) -> None:
        self.inner = FailingStore(MemoryStore(place()))
        self.stores, self.clock = stores_of(self.inner), FakeClock(NOW_MS)
        Job(self.inner, self.clock, operation=Operation.CREATE).commit()
        self.store = store_on(self.inner, self.clock)
        self.first = self.store.write(table_of([(b"a", b"1"), (b"b", b"1")]))
        self.second = self.store.write(table_of([(b"a", b"2")]), mode="overwrite")

    def rows(self, **options: Any) -> dict[bytes, bytes]:
        return {row["key"]: row["value"] for row in self.store.scan(**options).read_all().to_pylist()}


@pytest.fixture
def table() -> Table:
    return Table()


def test_any_version_can_be_restored(table: Table) -> None:
    for version, rows in ((1, {}), (table.first, {b"a": b"1", b"b": b"1"}), (table.second, {b"a": b"2"})):
        before = fetch_latest_manifest(table.stores)[1]
        made = table.store.restoreToVersion(version)
        after = fetch_latest_manifest(table.stores)[1]
        assert table.rows() == table.rows(versionAsOf=made) == rows
        assert after.last_l0_seq == before.last_l0_seq + 1
        assert table.store.history(1)[0].operation == "restore"
    last = table.store.write(table_of([(b"c", b"3")]))
    assert table.rows() == {b"a": b"2", b"c": b"3"}
    assert table.rows(versionAsOf=last) == table.rows()


def test_a_version_that_is_kept_needs_no_other_checkpoint(table: Table) -> None:
    create_checkpoint(table.stores, table.clock, name="x", manifest_id=table.first)
    number = fetch_latest_manifest(table.stores)[0]
    assert restore_to_version(table.stores, table.clock, table.first).manifest_id == number + 2  # a claim in between


def test_a_failed_restore_releases_the_version(table: Table) -> None:
    rival = store_on(table.inner.inner, FakeClock(NOW_MS, seed=1))

    def overtake() -> None:
        rival.write(table_of([(b"r", b"9")]))

    table.inner.run(overtake, "create", "slatespark/leases/*", moment="after")
    with pytest.raises(CommitConflictError, match="sequence"):
        table.store.restoreToVersion(table.first)
    assert table.rows() == {b"a": b"2", b"r": b"9"}
    assert fetch_latest_manifest(table.stores)[1].checkpoints == ()


def test_invalid_restores_are_refused(table: Table) -> None:
    number = fetch_latest_manifest(table.stores)[0]
    with pytest.raises(InvalidRequestError, match=str(number + 1)):
        table.store.restoreToVersion(number + 1)
    for wrong in (0, -1, "x", True):
        with pytest.raises(OptionError):
            table.store.restoreToVersion(wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="future"):
        table.store.restoreToTimestamp(NOW_MS + 3_600_000)
    with pytest.raises(OptionError, match="instant"):
        table.store.restoreToTimestamp("noon")
    with pytest.raises(HistoryTrimmedError):
        table.store.restoreToTimestamp(NOW_MS - 1)
    with pytest.raises(OptionError, match="Unknown"):
        table.store.restoreToVersion(table.first, force=True)
    table.inner.put(manifest_path(number + 1), [encode_manifest(Manifest(initialized=False))])
    with pytest.raises(UnsupportedFormatError, match="clone"):
        table.store.restoreToVersion(table.first)


def test_to_a_timestamp(table: Table) -> None:
    table.clock.advance(60_000)
    third = table.store.write(table_of([(b"c", b"3")]))
    table.clock.advance(60_000)
    table.store.restoreToTimestamp(NOW_MS + 59_999)
    assert table.rows() == {b"a": b"2"}
    table.store.restoreToTimestamp(NOW_MS + 60_000)
    assert table.rows() == table.rows(versionAsOf=third) == {b"a": b"2", b"c": b"3"}


def test_a_changed_schema_stays() -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.string()), pa.field("b", pa.int32())]
    )
    store = SlateStore.create(f"memory://{place()}", schema, "id")
    ids = pa.array([1], pa.int64())
    first = store.write(pa.table({"id": ids, "a": ["x"], "b": pa.array([7], pa.int32())}))
    store.write(pa.table({"id": ids, "a": ["y"], "b": pa.array([8], pa.int32()), "c": [1.5]}), mergeSchema=True)
    store.dropColumns("a")
    store.restoreToVersion(first)
    assert store.scan().read_all().to_pylist() == [{"id": 1, "b": 7, "c": None}]


def test_a_table_with_its_own_clock() -> None:
    store = SlateStore.create(f"memory://{place()}", clock="custom")
    first = store.write(table_of([(b"a", b"1")]), timestamp=5)
    store.write(table_of([(b"a", b"2")]), timestamp=70, ttl=10)
    store.restoreToVersion(first)
    assert store.get(b"a", metadataColumns="create_ts")["_create_ts"].timestamp() == 0.005  # type: ignore[index]
    with pytest.raises(InvalidRequestError, match="clock"):
        store.write(table_of([(b"a", b"3")]), timestamp=69)


def test_files_that_a_parent_no_longer_keeps_are_refused() -> None:
    folder = place()
    parent = SlateStore.create(f"memory://{folder}/parent")
    parent.write(table_of([(b"a", b"1")]))
    clone = parent.clone(f"memory://{folder}/clone")
    overwritten = clone.write(table_of([(b"b", b"2")]), mode="overwrite")
    assert clone.restoreToVersion(2) > overwritten
    assert clone.get(b"a") == {"key": b"a", "value": b"1"}
    clone.restoreToVersion(overwritten)
    stores: TableStores = open_stores(f"memory://{folder}/parent", storage={})
    delete_checkpoint(stores, FakeClock(), "slatespark/clone/clone")
    with pytest.raises(HistoryTrimmedError, match="clone"):
        clone.restoreToVersion(2)
    assert clone.get(b"b") == {"key": b"b", "value": b"2"}


def test_a_version_of_a_clone_that_needs_released_files() -> None:
    parent = SlateStore.create(f"memory://{place()}")
    parent.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    clone = parent.clone(f"memory://{place()}")
    clone.write(pa.table({"key": [b"b"], "value": [b"1"]}))
    version = clone.detail().version
    clone.compact(full=True, force=True)
    clone.createCheckpoint("sound", version=version)
    for point in parent.checkpoints():
        parent.deleteCheckpoint(point.id)
    with pytest.raises(HistoryTrimmedError):
        clone.createCheckpoint("empty", version=version)
    with pytest.raises(HistoryTrimmedError):
        clone.restoreToVersion(version)
    target = f"memory://{place()}"
    with pytest.raises(HistoryTrimmedError):
        clone.clone(target, version=version)
    assert not [*open_stores(target, storage={}).main.list("")]
    clone.createCheckpoint("newest", version=clone.detail().version)


def test_a_clone_that_no_longer_names_its_parent() -> None:
    """The collector of a client removes the entry of a parent whose files the newest version does not show."""
    parent = SlateStore.create(f"memory://{place()}")
    parent.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    path = place()
    clone = parent.clone(f"memory://{path}")
    version = clone.write(pa.table({"key": [b"b"], "value": [b"1"]}))
    clone.compact(full=True, force=True)
    for point in parent.checkpoints():
        parent.deleteCheckpoint(point.id)
    stores = open_stores(f"memory://{path}", storage={})
    number, newest = fetch_latest_manifest(stores)
    stores.main.create(manifest_path(number + 1), encode_manifest(replace(newest, external_dbs=())))
    before = clone.checkpoints()
    with pytest.raises(HistoryTrimmedError):
        clone.createCheckpoint("empty", version=version)
    with pytest.raises(HistoryTrimmedError):
        clone.scan(versionAsOf=version, pin="1h")
    assert clone.checkpoints() == before
    assert clone.createCheckpoint("newest", version=number).version == number
