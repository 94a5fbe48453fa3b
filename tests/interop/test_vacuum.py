"""Our vacuum and the real client on one database: they agree on what may go, and each goes on after the other."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slatespark import SlateStore
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec, encode_compactions
from slatespark.format.paths import numbered, sst_id
from slatespark.options import ReadOptions
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock, new_ulid
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.compactions import compactions_log, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.reader import fetch_read_plan, run_read
from slatespark.table.stores import open_stores
from tests.faults.busy_database import CLIENT, check_serves_on, client_pairs, our_pairs
from tests.faults.jobs import table_of
from tests.support.client import Client, Delete, Location, Merge, Put, read_rows
from tests.support.client_admin import (
    clone_database,
    collect_garbage,
    compact_full,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
)
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import fixture_cases, fixture_databases
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server

pytestmark = pytest.mark.slow
HOUR_MS = 3_600_000


def objects(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that the client wrote, compacted and wrote again, with a checkpoint in between, and a clone of it."""
    folder = tmp_path_factory.mktemp("used") / "db"
    location = Location(folder.name, directory=folder.parent)
    with Client.open(location, CLIENT) as client:
        for number in range(4):
            client.write([Put(b"k%d" % (number + each), b"%d" % number) for each in range(3)])
            client.flush_memtable()
        compact_full(client)
        kept = create_checkpoint(location, "kept")
        client.write([Delete(b"k1"), Merge(b"k2", b"+"), Put(b"k9", b"new")])
        client.flush_memtable()
        compact_full(client)
        client.write([Put(b"k8", b"L0")])
        client.flush_memtable()
        client.write([Put(b"k7", b"WAL")])
        client.flush_wal()
    for point in list_checkpoints(location):  # a compaction leaves one for a quarter of an hour
        if point.id != kept.id:
            delete_checkpoint(location, point.id)
    return folder


@pytest.fixture
def folder(used: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(used, tmp_path / "db"))


def vacuum(folder: Path, *, later_ms: int = 0) -> set[str]:
    clock = FakeClock(seed=7)
    clock.advance(later_ms)
    stores = open_stores(str(folder), storage={})
    return {file.path for file in vacuum_table(stores, clock, min_age_ms=0).collected}


def test_both_agree_on_what_may_go(folder: Path, tmp_path: Path) -> None:
    theirs = Path(shutil.copytree(folder, tmp_path / "theirs"))
    before = objects(folder)
    collect_garbage(Location.local(theirs))
    by_client, by_us = before - objects(theirs), vacuum(folder, later_ms=HOUR_MS)
    assert by_us == before - objects(folder)
    assert any(sst_id(path) for path in by_client)
    assert by_client <= by_us
    # A collection of ours at rest publishes nothing, so the same versions are old; of SSTs it may take younger ones.
    assert {path for path in by_us - by_client if not path.startswith(("compacted/", "slatespark/"))} == set()
    assert {path for path in by_us if numbered(path, "manifest")} == {path for path in by_client if "manifest/" in path}
    assert vacuum(theirs, later_ms=HOUR_MS) | by_client == by_us
    assert objects(theirs) - objects(folder) == set()


def test_the_client_goes_on_after_ours(folder: Path) -> None:
    rows = client_pairs(folder)
    kept = our_at(folder, "kept")
    vacuum(folder, later_ms=HOUR_MS)
    assert our_pairs(folder) == client_pairs(folder) == rows
    assert our_at(folder, "kept") == kept
    (point,) = list_checkpoints(Location.local(folder))
    assert [(row.key, row.value) for row in read_rows(Location.local(folder), checkpoint=point.id)] == kept
    collect_garbage(Location.local(folder))
    assert our_pairs(folder) == client_pairs(folder) == rows
    check_serves_on(folder, rows)
    collect_garbage(Location.local(folder))
    vacuum(folder, later_ms=HOUR_MS)
    assert our_pairs(folder) == client_pairs(folder)
    assert our_at(folder, "kept") == kept
    assert not SlateStore.open(str(folder)).verify(allVersions=True).findings


def our_at(folder: Path, checkpoint: str) -> list[tuple[bytes, bytes]]:
    table = SlateStore.open(str(folder))
    rows = table.scan(mergeOperator="concat", includeExpired=True, checkpoint=checkpoint).read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]


def test_a_client_at_work_notices_nothing(folder: Path) -> None:
    location = Location.local(folder)
    rows = dict(client_pairs(folder))
    with Client.open(location, CLIENT) as client:
        for number in range(12):
            key = b"n%d" % (number % 5)
            client.write([Put(key, b"%d" % number)])
            client.flush_wal()
            rows[key] = b"%d" % number
            if number % 3 == 0:
                client.flush_memtable()
            if number % 5 == 0:
                compact_full(client)
            vacuum_table(open_stores(str(folder), storage={}), SystemClock(), min_age_ms=0, fences=number == 7)
            assert {row.key: row.value for row in client.scan()} == rows
    assert dict(client_pairs(folder)) == dict(our_pairs(folder)) == rows


def test_a_client_at_work_goes_on_when_a_dead_job_is_dropped(folder: Path) -> None:
    location, stores = Location.local(folder), open_stores(str(folder), storage={})
    with Client.open(location, CLIENT) as client:
        rows = {row.key: row.value for row in client.scan()}
        number, state = fetch_compactions(stores)
        runs = fetch_latest_manifest(stores)[1].run_ids()
        worker = WorkerSpec("a worker that died", 1)
        dead = Compaction(
            new_ulid(SystemClock()), TieredSpec((), runs, min(runs)), CompactionStatus.RUNNING, worker=worker
        )
        compactions_log(stores).create(number + 1, encode_compactions(replace(state, jobs=(*state.jobs, dead))))
        assert vacuum_table(stores, SystemClock(), min_age_ms=0).jobs_dropped == (str(dead.id),)
        client.write([Put(b"y", b"later")])
        client.flush_memtable()
        compact_full(client)
        assert {row.key: row.value for row in client.scan()} == {**rows, b"y": b"later"}
    assert dict(our_pairs(folder)) == {**rows, b"y": b"later"}


def test_a_read_goes_on_whose_wal_was_drained_since_it_began(tmp_path: Path) -> None:
    """By the first commit after a client that was killed, whose newest version does not tell of its last WAL files."""
    original, folder = tmp_path / "db", tmp_path / "killed"
    SlateStore.create(str(original), versionRetention="none", autoCompact=False)
    with Client.open(Location.local(original), CLIENT) as client:
        client.write([Put(b"k%d" % number, b"v") for number in range(5)])
        client.flush_wal()
        shutil.copytree(original, folder)
    before_s = (SystemClock().now_ms() - 3 * HOUR_MS) / 1000
    for path in objects(folder):
        os.utime(folder / path, (before_s, before_s))
    plan = fetch_read_plan(open_stores(str(folder), storage={}), ReadOptions(path=str(folder)), SystemClock())
    store = SlateStore.open(str(folder))
    store.write(table_of([(b"z", b"v")]), ifClientActive="fence")
    store.vacuum("1h", force=True)
    assert sum(batch.num_rows for batch in run_read(open_stores(str(folder), storage={}), plan)) == 5


def test_what_a_clone_of_the_client_needs_stays(folder: Path) -> None:
    location = Location(folder.name, directory=folder.parent)
    clone_database(location, "copy")
    rows = client_pairs(folder)
    with Client.open(location, CLIENT) as client:
        client.write([Delete(key) for key, _ in rows])
        compact_full(client)
    vacuum(folder, later_ms=HOUR_MS)
    vacuum(folder.parent / "copy", later_ms=HOUR_MS)
    copy = Location("copy", directory=folder.parent)
    assert [(row.key, row.value) for row in read_rows(copy)] == rows
    with Client.open(copy, CLIENT) as client:
        compact_full(client)
        assert [(row.key, row.value) for row in client.scan()] == rows
    collect_garbage(copy)
    vacuum(folder.parent / "copy", later_ms=HOUR_MS)
    assert [(row.key, row.value) for row in read_rows(copy)] == rows


def test_where_only_we_wrote_the_client_takes_nothing_and_ours_does(tmp_path: Path) -> None:
    """No job is recorded there, nor an L0: the client's collector has nothing to go by."""
    table = SlateStore.create(str(tmp_path / "db"), versionRetention="none", autoCompact=False)
    for number in range(3):
        table.write(table_of([(b"k", b"%d" % number)]), mode="overwrite")
    collect_garbage(Location.local(tmp_path / "db"))
    store = LocalStore(tmp_path / "db")
    assert len(store.list("compacted/")) == 3
    vacuum(tmp_path / "db", later_ms=HOUR_MS)
    assert len(store.list("compacted/")) == 1
    check_serves_on(tmp_path / "db", [(b"k", b"2")])


@pytest.mark.parametrize("case", fixture_cases(), ids=lambda case: case.name)
def test_every_kind_of_database_reads_as_before(case: Path, tmp_path: Path) -> None:
    """Also segmented ones, clones, and manifests of older writers; whatever went, nothing was needed of it."""
    root = Path(shutil.copytree(case, tmp_path / case.name))
    names = [
        database.path.relative_to(case)
        for database in fixture_databases()
        if case in (database.path, *database.path.parents)
    ]
    before = {name: shown_at(root, name) for name in names}
    for name in names:
        stores = open_stores(str(root / name), storage={"root": str(tmp_path)})
        report = vacuum_table(stores, FakeClock(seed=7), min_age_ms=0)
        assert report.unknown is None
    assert {name: shown_at(root, name) for name in names} == before


def shown_at(root: Path, name: Path) -> dict[Any, Any]:
    """Every stored version, of the newest state and of each checkpoint that has not expired."""
    table = SlateStore.open(str(root / name), root=str(root.parent))
    now_ms = SystemClock().now_ms()
    points = [point.id for point in table.checkpoints() if point.expires_ms is None or point.expires_ms > now_ms]
    return {point: table.scan(readVersions="all", checkpoint=point).read_all().to_pylist() for point in (None, *points)}


@pytest.mark.s3
def test_both_move_one_boundary_on_s3(moto_server: MotoServer) -> None:
    url = f"{moto_server.create_bucket('vacuum')}/db"
    location, options = moto_server.location(url), dict[str, Any](moto_server.options)
    boundaries, rows = [], {}
    for number in range(4):
        with Client.open(location, CLIENT) as client:
            client.write([Put(b"k%d" % number, b"x")])
            client.flush_memtable()
        rows[b"k%d" % number] = b"x"
        table = SlateStore.open(url, **options)
        if number % 2:
            assert table.vacuum("0s", force=True).counts["manifest"]
        else:
            collect_garbage(location)
        boundaries.append(int(bytes(table._stores.main.get("gc/manifest.boundary"))))
        assert {row.key: row.value for row in read_rows(location)} == rows
    assert boundaries == sorted(set(boundaries))
