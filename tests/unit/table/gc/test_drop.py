"""Drops: what goes, what stays, who is asked first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from slatespark import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    SlateStore,
    TableNotFoundError,
)
from slatespark.display.drop_text import drop_text
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import compactions_path, manifest_path, wal_path
from slatespark.format.row import Row
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import SystemClock, new_ulid
from slatespark.table.commit.hold import NEVER_STALE_MS
from slatespark.table.gc.drop import drop_table
from slatespark.table.gc.drop_plan import DropReport
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.leases import publish_lease
from slatespark.table.records.workers import publish_worker, worker_path
from slatespark.table.stores import TableStores, open_stores
from tests.faults.jobs import Job, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal
from tests.unit.table.gc.place import HOUR_MS, MINUTE_MS, Place

_names = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory://drops/{next(_names)}/db"


def of(url: str) -> TableStores:
    return open_stores(url, storage={})


def objects(url: str) -> list[str]:
    return [meta.path for meta in of(url).main.list_below("")]


def busy_table(url: str, **properties: str) -> SlateStore:
    """A table with objects of every kind."""
    table = SlateStore.create(url, versionRetention="1h", **properties)
    for number in range(3):
        table.write(table_of([(b"a", b"%d" % number)]), txnAppId="some/app", txnVersion=number)
    table.compact(full=True)
    table.vacuum("0s", force=True)
    return table


def names(report: DropReport) -> list[tuple[str, str]]:
    return [(blocker.kind, blocker.name) for blocker in report.blockers]


# --- what goes ------------------------------------------------------------------------------------------------------


def test_all_objects_of_a_table_go(url: str) -> None:
    busy_table(url)
    before = objects(url)
    assert {path.rpartition("/")[0].split("/")[0] for path in before} >= {"manifest", "wal", "compacted", "slatespark"}
    plan = SlateStore.drop(url, dryRun=True)
    assert objects(url) == before
    report = SlateStore.drop(url)
    assert objects(url) == []
    assert (plan.dry_run, report.dry_run) == (True, False)
    assert report.objects == plan.objects
    assert sum(report.objects.values()) == len(before)
    assert (report.version, report.kept, report.released) == (plan.version, (), ())
    with pytest.raises(TableNotFoundError):
        SlateStore.drop(url)
    again = SlateStore.create(url)
    assert again.detail().version == 1, "the place can be used again"


def test_nothing_else_goes(tmp_path: Path) -> None:
    busy_table(str(tmp_path / "db"))
    foreign = ["notes.txt", "wal/x", "wal/7.sst", "compacted/readme", "manifest/x", "gc/other", "mine/deep/file"]
    for path in foreign:
        (tmp_path / "db" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "db" / path).write_bytes(b"x")
    (tmp_path / "db" / "mine" / "empty").mkdir()
    (tmp_path / "db" / "compacted" / ".slatespark-x.tmp").write_bytes(b"left by a killed process")
    report = SlateStore.drop(str(tmp_path / "db"))
    left = [path.relative_to(tmp_path / "db").as_posix() for path in (tmp_path / "db").rglob("*") if path.is_file()]
    assert sorted(left) == sorted(foreign)
    assert list(report.kept) == sorted(set(foreign) - {"mine/deep/file"}), "other folders are not looked at"
    assert (tmp_path / "db" / "mine" / "empty").is_dir()


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_another_table_below_our_own_folder_stays(url: str, tmp_path: Path, kind: str) -> None:
    place = url if kind == "memory" else str(tmp_path / "db")
    inner = SlateStore.create(f"{place}/slatespark/orders")  # before the outer one: later it is refused
    inner.write(table_of([(b"x", b"1")]))
    busy_table(place)
    foreign = ["notes.txt", "claims/notes.txt", "columns/notes.txt", "columns/deep/x", "txn/1.json", "commits/a/1.json"]
    foreign += ["leases/0011223344556677 copy.txt"]
    for name in foreign:
        of(place).main.put(f"slatespark/{name}", [b"mine"])
    before = [f"slatespark/orders/{path}" for path in objects(inner.url)]
    report = SlateStore.drop(place)
    kept = sorted([*before, *(f"slatespark/{name}" for name in foreign)])
    assert objects(place) == list(report.kept) == kept
    assert inner.scan().read_all().num_rows == 1


def test_uploads_to_another_table_below_our_own_folder_stay(tmp_path: Path) -> None:
    SlateStore.create(str(tmp_path / "db/slatespark/orders"))
    busy_table(str(tmp_path / "db"))
    upload = tmp_path / "db/slatespark/orders/manifest/.slatespark-x.tmp"
    upload.write_bytes(b"of a writer that is running")
    (tmp_path / "db/slatespark/commits/.slatespark-x.tmp").write_bytes(b"left by a killed process")
    assert SlateStore.drop(str(tmp_path / "db")).objects["unfinished"] == 1
    assert upload.exists()


def test_every_kind_of_record_goes(url: str) -> None:
    busy_table(url)
    records = [
        "identity.json",
        "claims/worker-00112233445566778899aabbccddeeff.json",
        "columns/01M7YRCVEB9T5DR5R9WRNDXZHY.parquet",
        "commits/batches/00000000000000000007.10.json",
        "filtered/01M7YRCVEB9T5DR5R9WRNDXZHY-0011223344556677.json",
        "leases/0011223344556677-3",
        "leases/0011223344556677-conditional-write",
        "loads/00000000000000000007-01M7YRCVEB9T5DR5R9WRNDXZHY.json",
        "streams/every=20day.json",
    ]
    for name in records:
        of(url).main.put(f"slatespark/{name}", [b"{}"])
    report = SlateStore.drop(url, force=True)
    assert (objects(url), report.kept) == ([], ())


def test_no_empty_folder_stays(tmp_path: Path) -> None:
    busy_table(str(tmp_path / "db"))
    SlateStore.drop(str(tmp_path / "db"))
    assert list(tmp_path.iterdir()) == []


def test_a_wal_apart(tmp_path: Path) -> None:
    place, logs = str(tmp_path / "db"), tmp_path / "logs"
    table = SlateStore.create(place, walPath=str(logs))
    table.write(table_of([(b"a", b"1")]))
    SlateStore.create(str(tmp_path / "other"))
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.drop(place)
    with pytest.raises(InvalidRequestError, match="database of its own"):
        SlateStore.drop(place, walPath=str(tmp_path / "other"), force=True)
    (tmp_path / "wrong" / "wal").mkdir(parents=True)
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.drop(place, walPath=str(tmp_path / "wrong"), force=True)
    (logs / "mine").write_bytes(b"x")
    SlateStore.drop(place, walPath=str(logs))
    assert [path.name for path in logs.iterdir()] == ["mine"]
    assert not Path(place).exists()


def test_a_lost_wal_is_passed_over_by_force(url: str) -> None:
    busy_table(url)
    stores = of(url)
    for meta in stores.wal.list("wal/"):
        stores.wal.delete(meta.path)
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.drop(url)
    SlateStore.drop(url, force=True)
    assert objects(url) == []


def test_a_table_that_cannot_be_read_goes_by_force(url: str) -> None:
    busy_table(url)
    stores = of(url)
    number, _ = fetch_latest_manifest(stores)
    stores.main.put(manifest_path(number), [b"\0\2damaged"])
    before = objects(url)
    with pytest.raises(CorruptDataError):
        SlateStore.drop(url)
    assert objects(url) == before
    assert SlateStore.drop(url, force=True).version is None
    assert objects(url) == []


def test_a_list_of_compactions_that_cannot_be_read_is_passed_over_by_force(url: str) -> None:
    busy_table(url)
    stores = of(url)
    number = fetch_compactions(stores).number
    stores.main.put(compactions_path(number + 1), [b"\0\2damaged"])
    before = objects(url)
    with pytest.raises(CorruptDataError):
        SlateStore.drop(url)
    assert objects(url) == before
    SlateStore.drop(url, force=True)
    assert objects(url) == []


DAMAGED: Final = ("gc/manifest.boundary", "gc/compactions.boundary", worker_path(f"slatespark-{'c' * 16}"))


def damage(url: str, path: str) -> None:
    """A compaction of a table with held history is listed; its worker's record is damaged, or another object."""
    stores, now_ms = of(url), SystemClock().now_ms()
    worker = WorkerSpec(publish_worker(stores.main, "c" * 16, now_ms), NEVER_STALE_MS)
    job = Compaction(new_ulid(SystemClock()), TieredSpec((), (0,), 0), CompactionStatus.RUNNING, worker=worker)
    number, listed = fetch_compactions(stores)
    create_compactions(stores, Version(number + 1, replace(listed, jobs=(job,))))
    stores.main.put(path, [b"damaged"])


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("path", DAMAGED)
def test_damaged_objects_are_passed_over_by_force(url: str, path: str, is_local: bool, tmp_path: Path) -> None:
    place = str(tmp_path / "t") if is_local else url
    busy_table(place)
    damage(place, path)
    SlateStore.drop(place, force=True)
    assert objects(place) == []
    clone = busy_table(place).clone(f"{place}-clone")
    damage(place, path)
    with pytest.raises(InvalidRequestError, match="slatespark/clone/"):
        SlateStore.drop(place, force=True)
    assert clone.get(b"a") is not None


def test_a_damaged_worker_record_stops_nobody(url: str) -> None:
    table = busy_table(url)
    damage(url, DAMAGED[-1])
    table.write(table_of([(b"b", b"1")]))
    damage(url, DAMAGED[-1])
    table.compact(full=True, force=True)
    damage(url, DAMAGED[-1])
    table.vacuum()
    SlateStore.drop(url, force=True)


def test_where_there_is_no_table(url: str) -> None:
    of(url).main.put("important.txt", [b"x"])
    with pytest.raises(TableNotFoundError):
        SlateStore.drop(url, force=True)
    assert objects(url) == ["important.txt"]


# --- who may need it ------------------------------------------------------------------------------------------------


def test_a_clone_needs_its_parent_whatever_is_forced(url: str) -> None:
    parent = busy_table(url)
    clone = parent.clone(f"{url}-clone")
    for force in (False, True):
        with pytest.raises(InvalidRequestError, match="slatespark/clone/"):
            SlateStore.drop(url, force=force)
    assert parent.get(b"a") == clone.get(b"a")
    report = SlateStore.drop(clone.url)
    assert report.released == (parent.url,)
    assert not [point for point in parent.checkpoints() if (point.name or "").startswith("slatespark/clone/")]
    SlateStore.drop(url, force=True)  # the clone's source was pinned for five minutes
    assert objects(url) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_clone_that_is_made_while_a_drop_plans_keeps_its_parent(force: bool) -> None:
    """The listings of a large table take long."""
    place = Place()
    place.write(b"a")
    clones: list[SlateStore] = []
    slow = FailingStore(place.store)
    slow.run(lambda: clones.append(place.table.clone(f"{place.store.url}-clone")), "list", "gc/")
    with pytest.raises(InvalidRequestError, match="slatespark/clone/"):
        drop_table(stores_of(slow), place.clock, force=force)
    assert clones[0].scan().read_all() == place.table.scan().read_all()
    assert not clones[0].verify().has_damage


def test_a_clone_whose_parent_is_gone(url: str) -> None:
    parent = busy_table(url)
    clone = parent.clone(f"{url}-clone")
    for path in objects(url):
        of(url).main.delete(path)
    assert SlateStore.drop(clone.url).released == ()
    assert objects(clone.url) == []


def test_a_checkpoint_without_a_name_may_be_that_of_a_clone(url: str) -> None:
    table = busy_table(url)
    made = table.createCheckpoint()
    assert names(SlateStore.drop(url, dryRun=True)) == [("clone", made.id)]
    with pytest.raises(InvalidRequestError, match=made.id):
        SlateStore.drop(url, force=True)
    table.deleteCheckpoint(made.id)
    SlateStore.drop(url)


def test_checkpoints_of_others(url: str) -> None:
    table = busy_table(url)
    clock = FakeClock(SystemClock().now_ms())
    table.createCheckpoint("monday")
    short = table.createCheckpoint(lifetime="10m")
    table.scan(pin="1h").close()
    plan = drop_table(of(url), clock, dry_run=True)
    assert names(plan) == [("checkpoint", "monday"), ("checkpoint", short.id), ("checkpoint", "slatespark/pin")]
    assert "monday" in drop_text(plan)
    with pytest.raises(InvalidRequestError, match=r"monday.*forever.*until") as caught:
        drop_table(of(url), clock)
    assert "force" in str(caught.value)
    clock.advance(2 * 3_600_000)
    assert names(drop_table(of(url), clock, dry_run=True)) == [("checkpoint", "monday")]
    drop_table(of(url), clock, force=True)
    assert objects(url) == []


def test_a_checkpoint_counts_until_the_moment_when_it_expires(url: str) -> None:
    made = busy_table(url).createCheckpoint(lifetime="10m")
    assert made.expires_ms is not None
    clock = FakeClock(made.expires_ms - 1)
    assert names(drop_table(of(url), clock, dry_run=True)) == [("checkpoint", made.id)]
    clock.advance(1)
    assert names(drop_table(of(url), clock, dry_run=True)) == []


def test_a_client_counts_for_a_minute_after_its_last_write() -> None:
    """It opened the table long before."""
    place = Place()
    place.write(b"a")
    number, manifest = fetch_latest_manifest(place.stores)
    opened = replace(manifest, writer_epoch=manifest.writer_epoch + 1, nonce=0)
    place.store.create(manifest_path(number + 1), encode_manifest(opened))
    place.clock.advance(HOUR_MS)
    row = Row(b"b", manifest.last_l0_seq + 1, create_ts_ms=place.clock.now_ms())
    place.store.put(wal_path(manifest.wal_id_last_seen + 1), [encode_wal([row])])
    place.clock.advance(MINUTE_MS - 1)
    assert names(drop_table(place.stores, place.clock, dry_run=True)) == [("client", str(opened.writer_epoch))]
    with pytest.raises(InvalidRequestError):
        drop_table(place.stores, place.clock)
    place.clock.advance(1)
    assert names(drop_table(place.stores, place.clock)) == []


def test_what_commits_keep_blocks_nobody(url: str) -> None:
    table = SlateStore.create(url, versionRetention="30d")
    first = table.write(table_of([(b"a", b"1")]), txnAppId="app", txnVersion=1)
    table.write(table_of([(b"a", b"2")]))
    table.restoreToVersion(first)
    assert len(table.checkpoints()) > 3
    assert SlateStore.drop(url, dryRun=True).blockers == ()


def test_running_jobs(url: str) -> None:
    busy_table(url)
    publish_lease(of(url).main, "0123456789abcdef", SystemClock().now_ms())
    with pytest.raises(InvalidRequestError, match="0123456789abcdef"):
        SlateStore.drop(url)
    later = FakeClock(SystemClock().now_ms() + 2 * 86_400_000)
    assert drop_table(of(url), later, dry_run=True).blockers == ()
    SlateStore.drop(url, force=True)
    assert objects(url) == []


def test_a_clone_in_the_making(url: str) -> None:
    of(url).main.put(manifest_path(1), [encode_manifest(Manifest(initialized=False))])
    with pytest.raises(InvalidRequestError, match="being created"):
        SlateStore.drop(url)
    SlateStore.drop(url, force=True)
    assert objects(url) == []


def test_a_job_that_did_not_notice_brings_nothing_back(url: str) -> None:
    busy_table(url)
    main: ObjectStore = of(url).main
    job = Job(main).upload(table_of([(b"b", b"1")]))
    SlateStore.drop(url, force=True)
    with pytest.raises(TableNotFoundError):
        job.commit()
    assert not [path for path in objects(url) if path.startswith("manifest/")]


def test_a_place_that_is_being_dropped_is_no_place_for_a_table(url: str) -> None:
    busy_table(url)
    main = of(url).main
    for meta in main.list("manifest/"):
        main.delete(meta.path)
    main.put(".deleting", [b""])
    other = busy_table(f"{url}-other")
    calls: list[Callable[[], object]] = [
        lambda: SlateStore.create(url),
        lambda: other.clone(url),
        lambda: other.copyTo(url),
        lambda: vacuum_table(of(url), SystemClock()),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError):
            call()
    with pytest.raises(TableNotFoundError):
        SlateStore.open(url)
    assert SlateStore.drop(url).version is None
    assert objects(url) == []


@pytest.mark.parametrize("folder", ["manifest/", "compacted/", "slatespark/commits/"])
def test_a_drop_leaves_a_table_alone_that_is_created_after_another_drop(folder: str) -> None:
    place = Place()
    place.write(b"old")

    def drop_and_create() -> None:
        drop_table(place.stores, FakeClock(place.clock.now_ms(), seed=1))
        place.table = SlateStore.create(place.store.url, clock=FakeClock(place.clock.now_ms(), seed=2))
        place.table.write(table_of([(b"new", b"x")]))

    slow = FailingStore(place.store).run(drop_and_create, "delete", f"{folder}*")
    with suppress(TableNotFoundError):
        drop_table(stores_of(slow), place.clock)
    assert place.table.get(b"new") == {"key": b"new", "value": b"x"}
    assert not place.table.verify().has_damage


def test_a_clone_of_a_damaged_table_is_dropped(tmp_path: Path) -> None:
    """What remains to be done at the parent must not leave the clone half deleted, for good."""
    parent = SlateStore.create(tmp_path / "parent")
    parent.write(table_of([(b"a", b"x")]))
    parent.clone(tmp_path / "clone")
    newest = max((tmp_path / "parent" / "manifest").iterdir())
    newest.write_bytes(b"\0\2 damaged")
    assert drop_table(of(str(tmp_path / "clone")), SystemClock()).released == ()
    assert not (tmp_path / "clone").exists()


@pytest.mark.parametrize("rows", [0, 3])
def test_a_drop_leaves_a_table_alone_that_is_created_while_it_plans(rows: int) -> None:
    place = Place()
    place.write(b"old")

    def drop_and_create() -> None:
        drop_table(place.stores, FakeClock(place.clock.now_ms(), seed=1))
        place.table = SlateStore.create(place.store.url, clock=FakeClock(place.clock.now_ms(), seed=2))
        for number in range(rows):
            place.table.write(table_of([(b"%d" % number, b"x")]))

    slow = FailingStore(place.store).run(drop_and_create, "list", "compacted/")
    with pytest.raises(ConflictError):
        drop_table(stores_of(slow), place.clock)
    assert place.table.scan().read_all().num_rows == rows
    assert not place.table.verify().has_damage
