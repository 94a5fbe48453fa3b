"""Versions and places: what a vacuum deletes and keeps; races and faults are in `tests/faults`."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore, TableNotFoundError
from slatespark.errors import ConflictError, HistoryTrimmedError, UnsupportedFormatError
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.ulid import make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer
from slatespark.table.commit.definition_run import publish_creation
from slatespark.table.gc.drop import drop_table
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.manifests import fetch_latest_manifest, list_manifests
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from slatespark.table.records.operations import Operation
from tests.faults.jobs import Job, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.gc.place import HOUR_MS, MINUTE_MS, Place, _names, actions

# --- versions --------------------------------------------------------------------------------------------------------


def test_recently_newest_versions_are_kept_with_their_files() -> None:
    place = Place()
    first = place.write(b"a")
    place.clock.advance(10 * HOUR_MS)
    second = place.write(b"b", mode="overwrite")
    place.clock.advance(30 * MINUTE_MS)
    assert not [file for file in place.vacuum("1h").collected if file.kind in ("manifest", "sst") and file.size > 400]
    assert place.table.scan(versionAsOf=first).read_all().num_rows == 1, "a read that began 31 minutes ago can finish"
    report = place.vacuum("29m")
    assert report.counts["sst"] == 1
    assert list_manifests(place.stores) == [second]
    with pytest.raises(HistoryTrimmedError):
        place.table.scan(versionAsOf=first).read_all()
    assert place.table.scan().read_all().num_rows == 1


def test_a_checkpoint_keeps_its_version_until_it_expires() -> None:
    place = Place()
    place.write(b"a")
    kept = place.table.createCheckpoint("soon over", lifetime="2h")
    place.write(b"b", mode="overwrite")
    place.clock.advance(HOUR_MS + MINUTE_MS)
    report = place.vacuum("1h")
    assert kept.version in list_manifests(place.stores)
    assert "checkpoint soon over" in place.reason(report, manifest_path(kept.version))
    assert place.table.scan(checkpoint="soon over").read_all()["key"].to_pylist() == [b"a"]
    place.clock.advance(HOUR_MS)
    released = place.vacuum("1h").checkpoints_released
    assert [point.name for point in released] == ["soon over"]
    assert len(place.ssts()) == 1


def test_versions_are_kept_if_the_store_cannot_move_the_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    first = place.write(b"a")
    place.write(b"b", mode="overwrite")
    orphan = place.put_sst(place.clock.now_ms())
    place.clock.advance(2 * HOUR_MS)

    def refuse(store: MemoryStore, path: str, data: Buffer) -> None:
        if path.startswith("gc/"):
            raise InvalidRequestError("No object can be replaced on a condition.")
        create(store, path, data)

    create = MemoryStore.create
    monkeypatch.setattr(MemoryStore, "create", refuse)
    report = place.vacuum()
    assert actions(report, [orphan]) == ["deleted"]
    assert report.counts == {"sst": 1}
    assert "dead" in place.reason(report, manifest_path(first))
    assert place.table.scan(versionAsOf=first).read_all()["key"].to_pylist() == [b"a"], "with all that it shows"
    monkeypatch.undo()
    assert place.vacuum().counts["sst"] == 1


def test_a_dry_run_reports_what_the_store_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with conditional create, but without conditional replace: its boundary is put once."""
    place = Place()

    def refuse(store: MemoryStore, path: str, data: Buffer, expected: Buffer) -> None:
        raise InvalidRequestError("No object can be replaced on a condition.")

    def later() -> None:
        for key in (b"a", b"b"):
            place.write(key, mode="overwrite")
            place.list_jobs()
        place.clock.advance(2 * HOUR_MS)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "replace", refuse)
        for may_go in (True, False):
            later()
            would = place.vacuum(dryRun=True)
            done = place.vacuum()
            assert would.counts == done.counts
            assert (done.counts["manifest"] > 0, done.counts["compactions"] > 0) == (may_go, may_go)
        assert any("dead" in file.reason for file in would.files)
    boundary = place.store.get("gc/manifest.boundary")
    assert place.vacuum(dryRun=True).counts["manifest"]
    assert place.store.get("gc/manifest.boundary") == boundary
    assert place.vacuum().counts["manifest"]


def test_an_unreadable_version_protects_unreferenced_files() -> None:
    place = Place()
    place.write(b"a")
    kept = place.table.createCheckpoint("damaged").version
    place.write(b"b", mode="overwrite")
    orphan = place.put_sst(place.clock.now_ms())
    place.clock.advance(2 * HOUR_MS)
    place.store.put(manifest_path(kept), [b"\0\2 damaged"])
    report = place.vacuum()
    assert report.unknown is not None
    assert "damaged" in report.unknown
    assert not report.counts["sst"]
    assert actions(report, [orphan]) == ["kept"]
    place.store.delete(manifest_path(kept))  # as by a collector that ignores checkpoints
    report = place.vacuum()
    assert not report.counts["sst"]
    assert report.unknown is not None
    assert f"version {kept}" in report.unknown
    assert "deleteCheckpoint" in report.unknown
    place.table.deleteCheckpoint("damaged")
    assert place.vacuum().counts["sst"] == 2


def test_memory_does_not_grow_with_versions_times_files() -> None:
    place = Place()
    place.write(b"a")
    number, manifest = fetch_latest_manifest(place.stores)
    (handle,) = manifest.ssts.values()
    more = [replace(handle, id=make_ulid(handle.id.timestamp_ms, at)) for at in range(500)]
    data = encode_manifest(replace(manifest, ssts=manifest.ssts.adding(more)))
    peaks = []
    for versions in (2, 38):
        for _ in range(versions):
            number += 1
            place.store.create(manifest_path(number), data)
        tracemalloc.start()
        place.vacuum("24h", dryRun=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


def test_files_of_other_databases_are_not_touched() -> None:
    place = Place()
    place.write(b"a")
    clone = place.table.clone(f"{place.store.url.removesuffix('/db')}/clone")
    place.write(b"b", mode="overwrite")
    place.clock.advance(2 * HOUR_MS)
    place.vacuum()
    clone.vacuum("1h")
    assert clone.scan().read_all()["key"].to_pylist() == [b"a"]
    clone.write(table_of([(b"c", b"x")]), mode="overwrite")
    place.clock.advance(2 * HOUR_MS)
    clone.vacuum("1h")
    assert len(place.ssts()) == 2, "the clone's last checkpoint on it is not ours to release"


def leftover(*, definition: bool = True) -> tuple[MemoryStore, FakeClock, Job]:
    """Leftovers of a job that was killed before the first version of its table."""
    clock = FakeClock()
    store = MemoryStore(f"gc-run-{next(_names)}", clock.now_ms)
    job = Job(store, clock, operation=Operation.WRITE).upload(table_of([(b"a", b"x")]))
    if definition:
        assert job.plan.definition is not None
        publish_creation(job.stores, clock, job.plan.definition, merge=False)
    return store, clock, job


# --- no table --------------------------------------------------------------------------------------------------------


def test_leftovers_of_a_failed_creation_are_deleted_after_the_lease() -> None:
    store, clock, _ = leftover()
    clock.advance(2 * HOUR_MS)
    report = vacuum_table(stores_of(store), clock, min_age_ms=0)
    assert not report.collected
    assert report.version is None
    clock.advance(LEASE_LIFETIME_MS)
    would = vacuum_table(stores_of(store), clock, min_age_ms=0, dry_run=True)
    report = vacuum_table(stores_of(store), clock, min_age_ms=0)
    assert {file.path for file in would.collected} == {file.path for file in report.collected}
    assert report.counts == {"sst": 1, "lease": 1, "definition": 1}
    assert not store._bucket.objects
    SlateStore.create(store.url, pa.schema([("id", pa.int64()), ("x", pa.int64())]), "id", clock=clock)


def test_leftovers_of_a_live_creation_are_kept() -> None:
    store, clock, job = leftover()
    clock.advance(2 * HOUR_MS)
    vacuum_table(stores_of(store), clock, min_age_ms=0)
    job.commit()
    assert SlateStore.open(store.url, clock=clock).scan().read_all().num_rows == 1


@pytest.mark.parametrize("sign", ["wal/00000000000000000001.sst", "gc/manifest.boundary", "slatespark/commits/x.json"])
def test_a_table_without_manifests_is_not_touched(sign: str) -> None:
    store, clock, _ = leftover()
    store.put(sign, [b"1"])
    clock.advance(2 * LEASE_LIFETIME_MS)
    before = dict(store._bucket.objects)
    with pytest.raises(InvalidRequestError, match="manifest"):
        vacuum_table(stores_of(store), clock, min_age_ms=0)
    assert store._bucket.objects == before


def test_a_table_that_is_created_during_the_look_is_vacuumed() -> None:
    store, clock, job = leftover()
    store_of_table = FailingStore(store).run(job.commit, "list_below", "slatespark/")
    report = vacuum_table(stores_of(store_of_table), clock, min_age_ms=0)
    assert report.version == fetch_latest_manifest(stores_of(store)).number
    assert SlateStore.open(store.url, clock=clock).scan().read_all().num_rows == 1


def test_an_empty_location() -> None:
    store = MemoryStore(f"gc-run-{next(_names)}")
    store.put("compacted/01M800BX1R21SRVSWN3ZDQXP5Z.sst", [b"somebody's"])
    with pytest.raises(TableNotFoundError):
        vacuum_table(stores_of(store), FakeClock(), min_age_ms=0)
    assert store.get("compacted/01M800BX1R21SRVSWN3ZDQXP5Z.sst") == b"somebody's"


def test_an_unfinished_clone_is_refused() -> None:
    place = Place()
    place.write(b"a")
    number, manifest = fetch_latest_manifest(place.stores)
    place.store.create(manifest_path(number + 1), encode_manifest(replace(manifest, initialized=False)))
    with pytest.raises(UnsupportedFormatError, match="clone"):
        place.vacuum()


@pytest.mark.parametrize("min_age", ["soon", -1, "-1h", 1.5, None])
def test_invalid_ages(min_age: Any) -> None:
    with pytest.raises(OptionError, match="minAge"):
        Place().table.vacuum(min_age)


def replaced_during(folder: str, nth: int, *, writes: int) -> tuple[Place, FailingStore]:
    """A table with old versions, and its store, at whose nth such listing another table is created in its place."""
    place = Place()
    for key in (b"a", b"b", b"c"):
        place.write(key)
    place.clock.advance(2 * HOUR_MS)

    def drop_and_create() -> None:
        drop_table(place.stores, FakeClock(place.clock.now_ms(), seed=1))
        place.table = SlateStore.create(place.store.url, clock=FakeClock(place.clock.now_ms(), seed=2))
        for _ in range(writes):
            place.table.write(table_of([(b"new", b"x")]))

    return place, FailingStore(place.store).run(drop_and_create, "list", folder, nth=nth)


@pytest.mark.parametrize("writes", [1, 5])
def test_a_table_that_is_created_in_the_place_of_the_first_is_left_alone(writes: int) -> None:
    """Its versions have the numbers of those that were to go."""
    place, slow = replaced_during("slatespark/commits/", 1, writes=writes)
    with pytest.raises(ConflictError, match="created again"):
        vacuum_table(stores_of(slow), place.clock, min_age_ms=HOUR_MS)
    assert place.table.get(b"new") == {"key": b"new", "value": b"x"}
    assert not place.table.verify().has_damage


def test_the_same_at_any_listing() -> None:
    for nth in range(1, 40):
        place, slow = replaced_during("*", nth, writes=1)
        with suppress(ConflictError, TableNotFoundError):
            vacuum_table(stores_of(slow), place.clock, min_age_ms=HOUR_MS)
        if slow.count("list") < nth:  # nothing was created
            assert nth > 10
            return
        assert place.table.get(b"new") == {"key": b"new", "value": b"x"}, nth
        assert not place.table.verify().has_damage, nth
    raise AssertionError("The vacuum lists folders without end.")
