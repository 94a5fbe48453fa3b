"""What a vacuum keeps of jobs at work: leases, uploads, compactions of every state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.compactions import (
    CompactionStatus,
    Subcompaction,
    TieredContext,
    TieredSpec,
    WorkerSpec,
)
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, sst_path
from slatespark.format.references import BytesRange
from slatespark.format.ulid import make_ulid
from slatespark.ranges import ALL_KEYS
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectMeta
from slatespark.table.commit.active_jobs import is_own_job
from slatespark.table.commit.hold import HOLD_WORKER, NEVER_STALE_MS
from slatespark.table.commit.job import begin_write
from slatespark.table.compaction.job import listed_job
from slatespark.table.gc import survey as gc_survey
from slatespark.table.gc.survey import list_workers
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, list_manifests
from slatespark.table.records.leases import LEASE_LIFETIME_MS, lease_path, publish_lease, renew_lease, task_mark_path
from slatespark.table.records.operations import Operation
from slatespark.table.records.workers import publish_worker, worker_path
from slatespark.table.stores import TableStores
from tests.faults.jobs import Job, store_on, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.gc.place import HOUR_MS, MINUTE_MS, Place, actions, job_of


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
    _open_as_client(place)
    flushed = place.put_sst(place.clock.now_ms())
    later = place.put_sst(place.clock.now_ms() + MINUTE_MS)
    place.clock.advance(5 * MINUTE_MS - 1)
    report = place.vacuum("0s")
    assert "client" in place.reason(report, flushed)
    assert {file.path: file.until_ms for file in report.files}[flushed] == place.clock.now_ms() + 1
    place.clock.advance(1)
    assert actions(place.vacuum("0s"), [flushed, later]) == ["deleted", "kept"]
    place.write(b"b", ifClientActive="fence")  # a fenced client publishes nothing any more
    assert actions(place.vacuum("0s"), [later]) == ["deleted"]


def test_a_client_flushes_no_file_that_is_older_than_its_newest() -> None:
    """Files of one time may be flushed together, one for each segment."""
    place = Place()
    place.write(b"a")
    _open_as_client(place, has_flushed=True)
    (newest,) = fetch_latest_manifest(place.stores)[1].ssts
    same, older = place.put_sst(newest.timestamp_ms), place.put_sst(newest.timestamp_ms - 1)
    assert actions(place.vacuum("0s"), [same, older]) == ["kept", "deleted"]


def _open_as_client(place: Place, *, has_flushed: bool = False) -> None:
    number, manifest = fetch_latest_manifest(place.stores)
    opened = replace(manifest, writer_epoch=manifest.writer_epoch + 1, nonce=0)
    if has_flushed:
        (tree,) = manifest.trees()
        opened = opened.with_trees([replace(tree, l0=tree.compacted[0].views, compacted=())])
    place.store.create(manifest_path(number + 1), encode_manifest(opened))


def test_a_young_file_says_until_when_it_is_kept() -> None:
    place = Place()
    place.write(b"a")
    young = place.put_sst(place.clock.now_ms())
    place.clock.advance(MINUTE_MS)
    report = place.vacuum("1h")
    assert {file.path: file.until_ms for file in report.files}[young] == place.clock.now_ms() + 59 * MINUTE_MS


def test_of_several_jobs_the_last_to_end_keeps_a_file_and_the_first_to_begin_keeps_versions() -> None:
    """Their leases are listed by id, which says nothing of their times."""
    place = Place()
    versions, began_ms = [], []
    for _ in range(3):
        versions.append(place.write(b"a", mode="overwrite"))
        place.clock.advance(HOUR_MS)
        began_ms.append(place.clock.now_ms())
    for write_id, job in (("00000000000000aa", 1), ("00000000000000bb", 0), ("00000000000000cc", 2)):
        publish_lease(place.store, write_id, began_ms[job])
    file = place.put_sst(place.clock.now_ms())
    report = place.vacuum("0s")
    until_ms = {each.path: each.until_ms for each in report.files}
    assert until_ms[file] == began_ms[2] + LEASE_LIFETIME_MS
    assert [number for number in versions if number in list_manifests(place.stores)] == versions[1:]
    assert until_ms[manifest_path(versions[1])] == began_ms[2] + LEASE_LIFETIME_MS


def test_the_record_of_a_worker_is_kept_while_its_job_has_a_lease() -> None:
    """The job puts both before it lists its compaction."""
    place = Place()
    place.write(b"a")
    publish_lease(place.store, "00000000000000aa", place.clock.now_ms())
    running, ended = (
        worker_path(publish_worker(place.store, write_id, place.clock.now_ms()))
        for write_id in ("00000000000000aa", "00000000000000bb")
    )
    assert actions(place.vacuum("0s"), [running, ended]) == ["kept", "deleted"]


@pytest.mark.parametrize("is_dry", [True, False])
def test_a_clock_ahead_of_the_store_ends_no_lease(is_dry: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run puts no object, so it cannot ask a store for its time."""
    place = Place()
    place.write(b"a")
    job = Job(place.store, place.clock).upload(table_of([(b"late", b"x")]))
    ahead = FakeClock(place.clock.now_ms() + LEASE_LIFETIME_MS, seed=5)
    monkeypatch.setattr(MemoryStore, "is_remote", True)
    report = store_on(place.store, ahead).vacuum("0s", force=True, dryRun=is_dry)
    assert actions(report, [lease_path(job.plan.write_id)]) == ["would delete" if is_dry else "kept"]
    if not is_dry:
        job.commit()
        assert place.table.get(b"late") is not None


def _shown(place: Place) -> set[Any]:
    return set(fetch_latest_manifest(place.stores)[1].ssts)
