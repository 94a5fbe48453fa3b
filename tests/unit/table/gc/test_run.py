"""Deleted and kept objects of a vacuum, case by case; races and faults are in `tests/faults`."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore, TableNotFoundError
from slatespark.errors import CommitConflictError, HistoryTrimmedError, UnsupportedFormatError
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    Subcompaction,
    TieredContext,
    TieredSpec,
    WorkerSpec,
    encode_compactions,
)
from slatespark.format.manifest import encode_manifest
from slatespark.format.paths import MANIFEST_DIR, manifest_path, sst_path, wal_path
from slatespark.format.references import BytesRange
from slatespark.format.ulid import make_ulid
from slatespark.ranges import ALL_KEYS
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.table.commit.active_jobs import is_own_job
from slatespark.table.commit.claim import claim_epochs
from slatespark.table.commit.definition_run import publish_creation
from slatespark.table.commit.hold import HOLD_WORKER, NEVER_STALE_MS
from slatespark.table.commit.job import begin_write
from slatespark.table.compaction.job import listed_job
from slatespark.table.gc import survey as gc_survey
from slatespark.table.gc.report import VacuumReport
from slatespark.table.gc.run import vacuum_table
from slatespark.table.gc.survey import batched_numbers, list_workers
from slatespark.table.log.compactions import compactions_log, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, list_manifests
from slatespark.table.log.versioned_object import Version
from slatespark.table.records import commit_batches
from slatespark.table.records.commit_batches import SMALL_SUFFIX, batch_commit_records, list_batches
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR, CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.leases import (
    LEASE_LIFETIME_MS,
    lease_path,
    publish_lease,
    renew_lease,
    task_mark_path,
)
from slatespark.table.records.operations import Operation
from slatespark.table.records.workers import publish_worker
from slatespark.table.stores import TableStores
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.client import Client, Location, Put
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
_names = itertools.count()


class Place:
    """A raw table in memory, whose objects have the times of its clock."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(f"gc-run-{next(_names)}/db", self.clock.now_ms)
        self.stores = stores_of(self.store)
        given = {"versionRetention": "none", "autoCompact": False, **properties}
        self.table = SlateStore.create(self.store.url, clock=self.clock, **given)

    def write(self, *keys: bytes, **options: Any) -> int:
        self.clock.advance(MINUTE_MS)
        return self.table.write(table_of([(key, b"x") for key in keys]), **options)

    def vacuum(self, min_age: str = "1h", **options: Any) -> VacuumReport:
        return self.table.vacuum(min_age, force=True, **options)

    def ssts(self) -> set[str]:
        return {meta.path for meta in self.store.list("compacted/")}

    def batches(self) -> set[str]:
        return {meta.path for meta in self.store.list(BATCHES_DIR)}

    def put_sst(self, made_ms: int) -> str:
        """An unreferenced file."""
        path = sst_path(make_ulid(made_ms, self.clock.random_bits(80)))
        self.store.put(path, [b"a file"])
        return path

    def list_jobs(self, *jobs: Compaction) -> None:
        number, state = fetch_compactions(self.stores)
        log = compactions_log(self.stores)
        log.create(number + 1, encode_compactions(Compactions(state.compactor_epoch, jobs)))

    def reason(self, report: VacuumReport, path: str) -> str:
        return next(file.reason for file in report.files if file.path == path)


def job_of(made_ms: int, worker: WorkerSpec | None, status: CompactionStatus = CompactionStatus.RUNNING) -> Compaction:
    return Compaction(make_ulid(made_ms, 1), TieredSpec((), (0,), 0), status, worker=worker)


def actions(report: VacuumReport, paths: Sequence[str]) -> list[str]:
    by_path = {file.path: file.action for file in report.files}
    return [by_path[path] for path in paths]


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


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_files_of_a_job_are_kept_until_its_lease_expires() -> None:
    place = Place()
    place.write(b"a")
    job = Job(place.store, place.clock).upload(table_of([(b"late", b"x")]))
    place.clock.advance(2 * HOUR_MS)
    (path,) = [path for path in place.ssts() if path not in {sst_path(ulid) for ulid in _shown(place)}]
    assert job.plan.write_id in place.reason(place.vacuum(), path)
    job.commit()
    assert place.table.get(b"late") is not None
    killed = Job(place.store, place.clock).upload(table_of([(b"never", b"x")]))
    place.store.put(task_mark_path(killed.plan.write_id, 3), [b""])
    place.clock.advance(LEASE_LIFETIME_MS - 1)
    assert place.vacuum().counts["lease"] == 0
    place.clock.advance(1)
    gone = {file.path for file in place.vacuum().collected}
    assert {lease_path(killed.plan.write_id), task_mark_path(killed.plan.write_id, 3)} <= gone
    assert place.ssts() == {sst_path(ulid) for ulid in _shown(place)}


def test_a_commit_late_in_the_life_of_its_lease_renews_it() -> None:
    place = Place()
    place.write(b"a")

    def vacuum_later() -> None:
        clock = FakeClock(place.clock.now_ms() + HOUR_MS, seed=5)
        store_on(place.store, clock).vacuum("0s", force=True)

    store = FailingStore(place.store).run(vacuum_later, "create", "manifest/*", nth=2)
    job = Job(store, place.clock).upload(table_of([(b"late", b"x")]))
    place.clock.advance(LEASE_LIFETIME_MS - 1)
    job.commit()
    assert place.table.get(b"late") is not None
    assert not place.table.verify().findings


LAPSED = "lease"


def test_a_job_with_an_expired_lease_publishes_no_deleted_file() -> None:
    place = Place()
    place.write(b"a")
    job = Job(place.store, place.clock, gcMinAge="7d").upload(table_of([(b"late", b"x")]))
    txn, prepared, reading = (place.table.begin(gcMinAge="7d") for _ in range(3))
    for each in (txn, prepared, reading):
        each.write(table_of([(b"late", b"x")]))
    prepared.prepare()
    place.clock.advance(LEASE_LIFETIME_MS)
    place.vacuum()
    acts: list[Callable[[], object]] = [job.commit, txn.commit, prepared.commit, reading.read]
    for act in acts:
        with pytest.raises(CommitConflictError, match=LAPSED):
            act()
    assert [each.state for each in (txn, prepared, reading)] == ["failed"] * 3
    for each in (txn, prepared, reading):
        each.rollback()
    assert place.table.get(b"late") is None
    assert not place.table.verify().findings


def test_an_expired_lease_is_harmless_before_a_vacuum() -> None:
    place = Place()
    job = Job(place.store, place.clock, gcMinAge="7d").upload(table_of([(b"job", b"x")]))
    txn = place.table.begin(gcMinAge="7d")
    txn.write(table_of([(b"txn", b"x")]))
    place.clock.advance(3 * LEASE_LIFETIME_MS)
    job.commit()
    txn.commit()
    place.vacuum()
    assert place.table.scan().read_all()["key"].to_pylist() == [b"job", b"txn"]
    assert not place.table.verify().findings


def test_a_commit_during_the_vacuum_that_deletes_its_lease() -> None:
    place = Place()
    place.write(b"a")
    job = Job(place.store, place.clock, gcMinAge="7d").upload(table_of([(b"late", b"x")]))
    place.clock.advance(LEASE_LIFETIME_MS)
    store = FailingStore(place.store).run(job.commit, "delete", "compacted/*")
    assert store_on(store, place.clock).vacuum("0s", force=True).counts["sst"] == 1
    assert place.table.get(b"late") is not None
    assert not place.table.verify().findings


def test_the_record_of_a_new_worker_is_kept() -> None:
    place = Place()
    place.write(b"a")
    place.write(b"a")
    began = []

    def begin() -> None:
        job = begin_write(
            place.stores, place.clock, operation=Operation.COMPACT, found=fetch_latest_manifest(place.stores)
        )
        spec = TieredSpec((), (0, 1), 0)
        context = listed_job(place.stores, place.clock, spec, job.write_id, is_held=False)
        context.__enter__()
        began.append(context)

    place.clock.advance(MINUTE_MS)
    store_on(FailingStore(place.store).run(begin, "get", "manifest/*"), place.clock).vacuum("0s", force=True)
    for nth in range(1, 4):
        place.clock.advance(MINUTE_MS)
        store_on(FailingStore(place.store).run(begin, "list", "slatespark/*", nth=nth), place.clock).vacuum(
            "0s", force=True
        )
    active = fetch_compactions(place.stores)[1].active_jobs()
    assert [is_own_job(place.stores, job) for job in active] == [True]
    for context in began:
        context.__exit__(None, None, None)


def test_a_concurrently_renewed_lease_is_kept() -> None:
    place = Place()
    place.write(b"a")
    began_ms = place.clock.now_ms()
    publish_lease(place.store, "00000000000000dd", began_ms)
    place.clock.advance(LEASE_LIFETIME_MS)

    def renew() -> None:
        place.clock.advance(1000)
        renew_lease(place.store, "00000000000000dd", began_ms, place.clock.now_ms())

    store = FailingStore(place.store).run(renew, "list", "compactions/", nth=1)
    store_on(store, place.clock).vacuum("1h")
    assert place.store.head(lease_path("00000000000000dd")).size > 0


def test_older_orphans_are_deleted_while_a_job_is_running() -> None:
    place = Place()
    place.write(b"a")
    orphan = place.put_sst(place.clock.now_ms())
    place.clock.advance(2 * HOUR_MS)
    publish_lease(place.store, "00000000000000aa", place.clock.now_ms())
    young = place.put_sst(place.clock.now_ms())
    assert actions(place.vacuum("0s"), [orphan, young]) == ["deleted", "kept"]


def test_an_unreadable_lease_protects_files_for_its_lifetime() -> None:
    place = Place()
    place.write(b"a")
    orphan = place.put_sst(place.clock.now_ms())
    place.store.put(lease_path("00000000000000bb"), [b"damaged"])
    place.clock.advance(2 * HOUR_MS)
    assert actions(place.vacuum(), [orphan]) == ["kept"]
    place.clock.advance(LEASE_LIFETIME_MS)
    assert actions(place.vacuum(), [orphan, lease_path("00000000000000bb")]) == ["deleted", "deleted"]


def test_young_files_are_kept_by_id_or_upload_time() -> None:
    place = Place()
    place.write(b"a")
    now_ms = place.clock.now_ms()
    old_name, young = place.put_sst(now_ms - 50 * HOUR_MS), place.put_sst(now_ms)
    assert actions(place.vacuum(), [old_name, young]) == ["kept", "kept"]
    place.clock.advance(HOUR_MS - 1)
    assert actions(place.vacuum(), [old_name, young]) == ["kept", "kept"]
    place.clock.advance(1)
    future = place.put_sst(place.clock.now_ms() + HOUR_MS)
    assert actions(place.vacuum(), [old_name, young, future]) == ["deleted", "deleted", "kept"]


@pytest.mark.parametrize("is_held", [False, True])
def test_abandoned_compactions_of_ours_are_removed_at_once(is_held: bool) -> None:
    """A job that holds history has a heartbeat that is never stale; only its worker record reveals that it is dead."""
    place = Place()
    place.write(b"a")
    worker = publish_worker(place.store, "00000000000000cc", place.clock.now_ms())
    place.list_jobs(
        job_of(place.clock.now_ms(), WorkerSpec(worker, NEVER_STALE_MS if is_held else place.clock.now_ms()))
    )
    assert not place.vacuum("0s").jobs_dropped, "its heartbeat is fresh"
    place.clock.advance(MINUTE_MS)
    assert place.vacuum("24h").jobs_dropped
    assert not fetch_compactions(place.stores)[1].active_jobs()
    place.clock.advance(2 * HOUR_MS)
    assert place.vacuum().counts["claim"] >= 1, "the record of the worker, too"
    assert not [meta for meta in place.store.list("slatespark/claims/") if "worker" in meta.path]


@pytest.mark.parametrize(("reports", "dropped"), [(True, 0), (False, 1)])
def test_the_time_counts_at_which_the_list_is_read(
    reports: bool, dropped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listings before take 31 s; a compaction of ours goes on meanwhile, or has died before."""
    place = Place()
    place.write(b"a")
    worker = publish_worker(place.store, "00000000000000cc", place.clock.now_ms())
    place.list_jobs(job_of(place.clock.now_ms(), WorkerSpec(worker, place.clock.now_ms())))

    def slow(stores: TableStores) -> list[ObjectMeta]:
        place.clock.advance(31_000)
        if reports:
            place.list_jobs(job_of(place.clock.now_ms(), WorkerSpec(worker, place.clock.now_ms())))
        return list_workers(stores)

    monkeypatch.setattr(gc_survey, "list_workers", slow)
    assert len(place.vacuum("24h").jobs_dropped) == dropped


def test_silent_compactions_of_other_clients_are_removed() -> None:
    place = Place()
    place.write(b"a")
    began_ms = place.clock.now_ms()
    place.list_jobs(job_of(began_ms, WorkerSpec("theirs", began_ms)))
    before, after = place.put_sst(began_ms - HOUR_MS), place.put_sst(began_ms)
    place.store._bucket.objects[f"db/{before}"] = (b"a file", began_ms - HOUR_MS)
    place.clock.advance(HOUR_MS - 1)
    assert actions(place.vacuum(), [before, after]) == ["deleted", "kept"]
    place.clock.advance(1)
    report = place.vacuum()
    assert len(report.jobs_dropped) == 1
    assert actions(report, [after]) == ["deleted"]


@pytest.mark.parametrize("status", [CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED, CompactionStatus.COMPACTED])
def test_listed_outputs_of_a_compaction_are_kept(status: CompactionStatus) -> None:
    place = Place()
    place.write(b"a")
    _, manifest = fetch_latest_manifest(place.stores)
    (handle,) = manifest.ssts.values()
    done, partly = (replace(handle, id=make_ulid(handle.id.timestamp_ms, number)) for number in (7, 8))
    paths = [sst_path(done.id), sst_path(partly.id)]
    for path in paths:
        place.store.put(path, [b"a file"])
    context = TieredContext((Subcompaction(BytesRange.of(ALL_KEYS), (partly,)),), 0)
    place.list_jobs(replace(job_of(handle.id.timestamp_ms, None, status), output_ssts=(done,), context=context))
    other = place.put_sst(place.clock.now_ms())
    place.clock.advance(50 * HOUR_MS)
    assert actions(place.vacuum(), [*paths, other]) == ["kept", "kept", "deleted"]
    place.list_jobs()
    assert actions(place.vacuum(), paths) == ["deleted", "deleted"]


def test_a_hold_stays_and_protects_no_file() -> None:
    place = Place()
    place.write(b"a")
    place.list_jobs(job_of(place.clock.now_ms(), WorkerSpec(HOLD_WORKER, NEVER_STALE_MS)))
    orphan = place.put_sst(place.clock.now_ms())
    place.clock.advance(50 * HOUR_MS)
    assert actions(place.vacuum(), [orphan]) == ["deleted"]
    assert len(fetch_compactions(place.stores)[1].active_jobs()) == 1


def test_old_compactions_files_are_deleted() -> None:
    place = Place()
    place.write(b"a")
    for _ in range(3):
        place.list_jobs()
    place.clock.advance(2 * HOUR_MS)
    assert place.vacuum().counts["compactions"] == 2
    assert [meta.path[-14:] for meta in place.store.list("compactions/")] == ["03.compactions"]
    assert fetch_compactions(place.stores)[0] == 3
    assert place.store.get("gc/compactions.boundary") == b"2"


def test_a_file_that_a_client_may_flush_is_kept_for_five_minutes() -> None:
    place = Place()
    place.write(b"a")
    number, manifest = fetch_latest_manifest(place.stores)
    opened = replace(manifest, writer_epoch=manifest.writer_epoch + 1, nonce=0)  # as by a client
    place.store.create(manifest_path(number + 1), encode_manifest(opened))
    flushed = place.put_sst(place.clock.now_ms())
    place.clock.advance(5 * MINUTE_MS - 1)
    assert "client" in place.reason(place.vacuum("0s"), flushed)
    place.write(b"b", ifClientActive="fence")  # a fenced client publishes nothing any more
    assert actions(place.vacuum("0s"), [flushed]) == ["deleted"]


# --- the WAL and what we noted ---------------------------------------------------------------------------------------


def test_fences_are_deleted_on_demand_but_never_the_last() -> None:
    place = Place()
    for key in (b"a", b"b", b"c"):
        place.write(key)
    place.clock.advance(2 * HOUR_MS)
    assert place.vacuum().counts["wal"] == 0
    assert place.vacuum(fences=True).counts["wal"] == 2
    assert [meta.path[-6:] for meta in place.store.list("wal/")] == ["03.sst"]
    place.write(b"d")
    assert place.table.scan().read_all().num_rows == 4


def test_a_separate_wal() -> None:
    place = Place()
    wal = MemoryStore(f"gc-run-{next(_names)}", place.clock.now_ms)
    place.stores = TableStores(place.store, wal, wal_is_apart=True)
    table = SlateStore(place.stores, place.clock, {"path": place.store.url})
    for key in (b"a", b"b"):
        place.clock.advance(MINUTE_MS)
        table.write(table_of([(key, b"x")]))
    place.clock.advance(2 * HOUR_MS)
    assert place.store.list("wal/") == []
    assert table.vacuum("1h", fences=True).counts["wal"] == 1
    assert [meta.path[-6:] for meta in wal.list("wal/")] == ["02.sst"]
    assert table.scan().read_all().num_rows == 2


@pytest.fixture
def elsewhere(tmp_path: Path) -> SlateStore:
    """A table in files whose WAL has a high number."""
    table = SlateStore.create(str(tmp_path / "t"), autoCompact=False, walPath=str(tmp_path / "wal of t"))
    for number in range(8):
        table.write(table_of([(b"k%d" % number, b"x")]))
    return table


@pytest.mark.parametrize("has_manifests", [True, False])
def test_the_wal_of_another_database_is_not_touched(has_manifests: bool, elsewhere: SlateStore, tmp_path: Path) -> None:
    """A wrong `walPath` leads to a WAL with other numbers, whose rows are in no SST."""
    with Client.open(Location.local(tmp_path / "other")) as client:
        for number in range(3):
            client.write([Put(b"precious%d" % number, b"x")])
            client.flush_wal()
    other = tmp_path / "other"
    if not has_manifests:
        (other / "manifest").rename(tmp_path / "manifest")
    before = sorted((other / "wal").iterdir())
    wrong = SlateStore.open(str(tmp_path / "t"), walPath=str(other))
    match = "database" if has_manifests else "WAL"
    for dry_run in (True, False):
        with pytest.raises(InvalidRequestError, match=match):
            wrong.vacuum("0s", force=True, dryRun=dry_run, fences=True)
    assert sorted((other / "wal").iterdir()) == before
    assert elsewhere.vacuum("0s", force=True, fences=True).counts["wal"] == 7
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.open(str(tmp_path / "t")).vacuum("0s", force=True)


def test_an_empty_wal(tmp_path: Path) -> None:
    with Client.open(Location.local(tmp_path / "db")):
        pass
    (tmp_path / "db" / "wal").rename(tmp_path / "wal")
    table = SlateStore.open(str(tmp_path / "db"), walPath=str(tmp_path))
    table.vacuum("0s", force=True)
    table.write(table_of([(b"a", b"x")]), ifClientActive="fence")
    clone = table.clone(str(tmp_path / "clone"))
    clone.vacuum("0s", force=True)
    SlateStore.open(str(tmp_path / "clone"), walPath=str(tmp_path / "nothing yet")).vacuum("0s", force=True)
    (tmp_path / wal_path(fetch_latest_manifest(table._stores)[1].replay_after_wal_id)).unlink()
    with pytest.raises(InvalidRequestError, match="WAL"):
        table.vacuum("0s", force=True)


def test_a_claim_stays_whose_manifest_came_while_manifests_were_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.write(b"a")
    listing, written, listings = MemoryStore.list, list[int](), itertools.count(1)

    def listed_before(store: MemoryStore, prefix: str, start_after: str = "") -> Sequence[ObjectMeta]:
        found = listing(store, prefix, start_after)
        if prefix == MANIFEST_DIR and not start_after and next(listings) == 2:  # the last one that decides
            monkeypatch.undo()
            written.append(place.write(b"b"))
        return found

    monkeypatch.setattr(MemoryStore, "list", listed_before)
    place.vacuum("0s")
    [latest] = written
    claim = latest - 1
    assert place.store.get(manifest_path(claim))
    assert [meta for meta in place.store.list("slatespark/claims/") if f"{claim:020}" in meta.path]


def test_claims_and_batched_records_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batches, "BATCH_RECORDS", 10)
    place = Place()
    for number in range(13):
        place.write(b"k%d" % (number % 3))
    place.clock.advance(2 * HOUR_MS)
    before = place.table.history()
    report = place.vacuum()
    kept = list_manifests(place.stores)
    assert report.counts["claim"] == 13 - len(place.store.list("slatespark/claims/"))
    assert report.counts["commit record"] == 10
    place.write(b"later")
    place.vacuum()
    known = {version.version: version for version in before}
    assert [version for version in place.table.history() if version.version in kept] == [known[n] for n in kept]
    assert place.table.verify().findings == ()


def test_small_batches_are_deleted_once_a_large_one_has_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batches, "BATCH_RECORDS", 10)
    monkeypatch.setattr(commit_batches, "SMALL_BATCH_RECORDS", 2)
    place = Place()
    for number in range(16):
        place.write(b"k%d" % (number % 3))
    before = {version.version: version for version in place.table.history()}
    [large] = [path for path in place.batches() if not path.endswith(SMALL_SUFFIX)]
    small = {path for path in place.batches() if path.endswith(SMALL_SUFFIX)}
    unused = {path for path in small if path < large}
    assert 0 < len(unused) < len(small)
    place.vacuum()
    assert small < place.batches(), "they are young"
    place.clock.advance(2 * HOUR_MS)
    place.vacuum()
    assert small - place.batches() == unused
    assert all(version == before[version.version] for version in place.table.history() if version.version in before)


def test_a_record_must_be_in_the_batch_that_readers_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two writers may overlap; a copy in a batch that readers do not use does not count."""
    monkeypatch.setattr(commit_batches, "BATCH_RECORDS", 3)
    store, rival = (FailingStore(MemoryStore(f"gc-run-{next(_names)}")) for _ in range(2))
    for place, numbers in ((store, (10, 20, 30, 40, 55, 60)), (rival, (50, 65, 70))):
        for number in numbers:
            place.put(f"{COMMITS_DIR}{number:020d}.json", [_record_of(number)])
        batch_commit_records(place)
    store.put(f"{BATCHES_DIR}{70:020d}.json", [rival.get(f"{BATCHES_DIR}{70:020d}.json")])
    stores = stores_of(store)
    for wanted, path, found in ((15, 30, {10, 20, 30}), (50, 60, {40, 55, 60}), (65, 70, {65, 70})):
        store.calls.clear()
        assert batched_numbers(stores, list_batches(store), {wanted}) == found
        assert [call.path[-7:] for call in store.calls if call.operation == "get"] == [f"{path}.json"]
    assert batched_numbers(stores, list_batches(store), {71}) == set()


def _record_of(number: int) -> bytes:
    store = MemoryStore(f"gc-run-{next(_names)}")
    publish_commit_record(store, CommitRecord(number, "write", "a" * 16, "slatespark", number, 0, None, None))
    return bytes(store.get(store.list(COMMITS_DIR)[0].path))


def test_a_history_table_keeps_its_proof_versions() -> None:
    place = Place(history=True)
    times = pa.array([1000], pa.timestamp("us"))
    rows = table_of([(b"a", b"x")]).append_column("at", times)
    place.table.write(rows, timestampColumn="at")
    job = Job(place.store, place.clock)  # it ends right after its claim
    latest_id, latest = fetch_latest_manifest(place.stores)
    claim_epochs(place.stores, place.clock, Version(latest_id, latest), write_id=job.plan.write_id, attempt=0)
    place.table.createCheckpoint("newer")
    place.clock.advance(50 * HOUR_MS)
    report = place.vacuum()
    assert "proves" in place.reason(report, manifest_path(latest_id))
    assert place.table.scan(timestampAsOf=2000).read_all().num_rows == 1


def test_foreign_objects_are_kept() -> None:
    place = Place()
    place.write(b"a")
    names = ["compacted/README", "compacted/x.sst", "wal/notes.txt", "compactions/x", "slatespark/leases/readme"]
    for name in names:
        place.store.put(name, [b"x"])
    place.clock.advance(50 * HOUR_MS)
    assert actions(place.vacuum("0s", fences=True), names) == ["kept"] * len(names)
    assert all(place.store.get(name) == b"x" for name in names)


# --- no table --------------------------------------------------------------------------------------------------------


def leftover(*, definition: bool = True) -> tuple[MemoryStore, FakeClock, Job]:
    """Leftovers of a job that was killed before the first version of its table."""
    clock = FakeClock()
    store = MemoryStore(f"gc-run-{next(_names)}", clock.now_ms)
    job = Job(store, clock, operation=Operation.WRITE).upload(table_of([(b"a", b"x")]))
    if definition:
        assert job.plan.definition is not None
        publish_creation(job.stores, clock, job.plan.definition, merge=False)
    return store, clock, job


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


def _shown(place: Place) -> set[Any]:
    return set(fetch_latest_manifest(place.stores)[1].ssts)
