"""Proof that keys are gone: every object that may hold a row is searched, and no other."""

from __future__ import annotations

import gc
import itertools
import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, InvalidRequestError, OptionError, SlateStore
from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path
from slatespark.format.ulid import make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.gc import absence
from slatespark.table.gc.absence_report import AbsenceReport
from slatespark.table.records.named_keys import find_named
from tests.faults.jobs import Job, store_on, table_of
from tests.support.client import Client, Location, Put
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

HOUR_MS: Final = 3_600_000
_names = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(clock: FakeClock) -> SlateStore:
    store = MemoryStore(f"absence-{next(_names)}/db", clock.now_ms)
    table = SlateStore.create(store.url, clock=clock, versionRetention="none", autoCompact=False)
    table.write(table_of([(b"k%d" % number, b"x") for number in range(5)]))
    return table


def kinds(report: AbsenceReport) -> dict[str, int]:
    total: dict[str, int] = {}
    for location in report.found:
        for kind, count in location.rows.items():
            total[kind] = total.get(kind, 0) + count
    return total


def test_a_row_is_found_until_it_is_gone_from_everything(table: SlateStore, clock: FakeClock) -> None:
    (place,) = table.proveAbsent(b"k2").found
    assert place.is_current
    assert (place.first_key, place.rows, place.newest_seq) == (b"k2", {"put": 1}, 1)
    table.write(table_of([(b"k2", b"")]), operation="delete")
    assert table.get(b"k2") is None
    assert kinds(table.proveAbsent(b"k2")) == {"put": 1, "delete": 1}, "the row hidden by the tombstone still exists"
    table.compact(full=True)
    report = table.proveAbsent(b"k2")
    assert not any(place.is_current for place in report.found)
    assert len([place for place in report.found if place.rows]) == 2, "older versions have it"
    clock.advance(2 * HOUR_MS)
    table.vacuum("1h")
    report = table.proveAbsent(b"k2")
    assert report.gone
    assert report.found == ()
    assert report.version in report.versions
    assert not table.proveAbsent(b"k3").gone


def test_rows_hidden_by_a_cut_are_found(table: SlateStore, clock: FakeClock) -> None:
    table.deleteRange(startKey=b"k1", endKey=b"k3")
    clock.advance(2 * HOUR_MS)
    table.vacuum("1h")
    (place,) = [place for place in table.proveAbsent(b"k1").found if place.rows]
    assert place.is_current
    assert table.get(b"k1") is None
    table.compact(full=True)
    clock.advance(2 * HOUR_MS)
    table.vacuum("1h")
    report = table.proveAbsent(startKey=b"k1", endKey=b"k3")
    assert (report.rows, [(place.kind, place.first_key) for place in report.found]) == (0, [("commit record", b"k1")])
    assert table.proveAbsent(b"k2").gone


def test_a_name_in_a_batch_of_commit_records_stays(table: SlateStore, clock: FakeClock) -> None:
    """No vacuum deletes the batches that readers use; an erasure takes the name out of them."""
    table.deleteRange(startKey=b"k1", endKey=b"k3")
    for number in range(12):
        table.write(table_of([(b"z%d" % number, b"x")]))
    table.compact(full=True)
    clock.advance(2 * HOUR_MS)
    table.vacuum("1h")
    single, batch = table.proveAbsent(startKey=b"k1", endKey=b"k3").found
    assert "/batches/" in batch.url
    assert (single.is_kept, batch.is_kept, batch.until_ms) == (True, True, None)
    assert (single.reason, batch.reason) == (
        "it is the only record of the commit",
        "it holds the records of many commits",
    )
    assert table.erase(startKey=b"k1", endKey=b"k3").gone


def test_a_pinning_checkpoint_is_named(table: SlateStore, clock: FakeClock) -> None:
    table.createCheckpoint("before")
    table.write(table_of([(b"a", b"x")]), mode="overwrite")
    clock.advance(2 * HOUR_MS)
    table.vacuum("1h")
    (place,) = table.proveAbsent(b"k2").found
    assert (place.checkpoints, place.is_current) == (("before",), False)
    table.deleteCheckpoint("before")
    table.vacuum("1h")
    clock.advance(2 * HOUR_MS)
    table.vacuum("1h")
    assert table.proveAbsent(b"k2").gone


def test_unreferenced_files_are_searched(table: SlateStore, clock: FakeClock) -> None:
    store = table._stores.main
    Job(store, clock).upload(table_of([(b"lost", b"x")]))
    (place,) = table.proveAbsent(b"lost").found
    assert (place.versions, place.checkpoints, place.is_current) == ((), (), False)
    clock.advance(48 * HOUR_MS)
    table.vacuum()
    assert table.proveAbsent(b"lost").gone


def test_rows_of_the_wal(tmp_path: Any) -> None:
    with Client.open(Location.local(tmp_path / "db")) as client:
        client.write([Put(b"a", b"1"), Put(b"c", b"1")])
        client.flush_wal()
        client.write([Put(b"b", b"1")])
        client.flush_wal()
    table = SlateStore.open(str(tmp_path / "db"))
    (place,) = table.proveAbsent(b"c").found
    assert "/wal/" in place.url
    assert place.is_current
    assert kinds(table.proveAbsent(keyPrefix=b"")) == {"put": 3}
    assert table.proveAbsent(b"d").gone
    table.write(table_of([(b"c", b"")]), operation="delete")
    table.compact(full=True)
    assert {"/wal/" in place.url for place in table.proveAbsent(b"c").found} == {True, False}


def test_files_of_the_parent_of_a_clone(table: SlateStore) -> None:
    clone = table.clone(f"{table.url.removesuffix('/db')}/clone")
    (place,) = clone.proveAbsent(b"k2").found
    assert place.url.startswith(f"{table.url}/compacted/")
    clone.write(table_of([(b"a", b"x")]), mode="overwrite")
    assert not clone.proveAbsent(b"k2").gone, "an older version reads it"
    clone.createCheckpoint("kept", lifetime="30d", version=2)
    (place,) = [each for each in clone.proveAbsent(b"k2").found if each.rows]
    assert place.is_kept
    assert place.checkpoints == ("kept",)


def test_typed_keys_and_ranges(clock: FakeClock) -> None:
    schema = pa.schema([("shop", pa.string()), ("id", pa.int64()), ("x", pa.int64())])
    url = f"memory://absence-{next(_names)}"
    table = SlateStore.create(url, schema, ["shop", "id"], clock=clock)
    table.write(pa.table({"shop": ["a", "a", "b"], "id": [1, 2, 1], "x": [1, 2, 3]}))
    assert not table.proveAbsent("a", 2).gone
    assert table.proveAbsent("a", 3).gone
    assert kinds(table.proveAbsent(where="shop = 'a'")) == {"put": 2}
    assert table.proveAbsent(where="shop = 'c'").gone


def test_partial_objects_of_a_killed_writer_are_unread(table: SlateStore, tmp_path: Any) -> None:
    place = SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    place.write(table_of([(b"a", b"x")]))
    (tmp_path / "db" / "compacted" / ".slatespark-1-2.tmp").write_bytes(b"perhaps")
    report = place.proveAbsent(b"b")
    assert not report.gone
    assert report.found == ()
    assert report.unread[0].endswith(".slatespark-1-2.tmp")


@pytest.mark.parametrize("folder", ["slatespark", "compacted", "wal"])
def test_partial_objects_of_a_table_below_its_folders_are_not_its_own(folder: str, tmp_path: Path) -> None:
    inner = SlateStore.create(str(tmp_path / "db" / folder / "orders"))  # before the outer one: later it is refused
    place = SlateStore.create(str(tmp_path / "db"), versionRetention="none", autoCompact=False)
    place.write(table_of([(b"k", b"x")]))
    upload = Path(inner.url.removeprefix("file://")) / "manifest" / ".slatespark-x.tmp"
    upload.write_bytes(b"of a writer that is running")
    os.utime(upload, (0, 0))
    assert place.proveAbsent(b"other").gone
    assert place.vacuum("0s", force=True).counts["unfinished"] == 0
    assert inner.vacuum("0s", force=True).counts["unfinished"] == 1


def test_partial_objects_of_a_killed_client_are_unread_until_vacuumed(tmp_path: Path) -> None:
    """A whole file with the name of an upload holds rows like any other."""
    place = SlateStore.create(str(tmp_path / "db"), versionRetention="none", autoCompact=False)
    place.write(table_of([(b"k", b"x")]))
    (file,) = (tmp_path / "db" / "compacted").iterdir()
    staged = file.with_name("01ARZ3NDEKTSV4RRFFQ69G5FAV.sst#1")
    staged.write_bytes(file.read_bytes())
    place.write(table_of([(b"other", b"x")]), mode="overwrite")
    report = place.vacuum("0s", force=True)
    assert not file.exists()
    assert [found.path for found in report.files if "#" in found.path] == [f"compacted/{staged.name}"]
    assert place.proveAbsent(b"k").unread == (f"file://{staged}",)
    assert not place.proveAbsent(b"k").gone
    now_s = place.vacuum("0s", dryRun=True).now_ms / 1000
    os.utime(staged, (now_s - 7200, now_s - 7200))
    assert place.vacuum("0s", force=True).counts["unfinished"] == 1
    assert place.proveAbsent(b"k").gone


def test_objects_with_foreign_names_are_unread(table: SlateStore) -> None:
    store = table._stores.main
    assert isinstance(store, MemoryStore)
    for path in ("compacted/copy.sst", "wal/1.sst"):
        store.put(path, [b"perhaps"])
    store._bucket.objects["db/compacted/"] = (b"", 0)  # as some tools create for folders
    report = table.proveAbsent(b"b")
    assert report.unread == (f"{store.url}/compacted/copy.sst", f"{store.url}/wal/1.sst")
    assert not report.gone


@pytest.fixture
def apart(tmp_path: Path) -> tuple[Path, Path]:
    """A database with a separate WAL, as the client creates it."""
    with Client.open(Location.local(tmp_path / "db")) as client:
        for key in (b"a", b"secret"):
            client.write([Put(key, b"1")])
            client.flush_wal()
    (tmp_path / "apart").mkdir()
    (tmp_path / "db" / "wal").rename(tmp_path / "apart" / "wal")
    return tmp_path / "db", tmp_path / "apart"


def test_nothing_is_proven_without_the_wal(apart: tuple[Path, Path], tmp_path: Path) -> None:
    database, wal = apart
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.open(str(database)).proveAbsent(b"secret")
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.open(str(database), walPath=str(tmp_path / "none")).proveAbsent(b"secret")
    (place,) = SlateStore.open(str(database), walPath=str(wal)).proveAbsent(b"secret").found
    assert place.url.startswith(f"file://{wal}/wal/")


def test_wal_files_beside_a_separate_wal(apart: tuple[Path, Path]) -> None:
    database, wal = apart
    table = SlateStore.open(str(database), walPath=str(wal))
    assert table.proveAbsent(b"x").gone
    half = wal / "wal" / ".slatespark-1-2.tmp"
    half.write_bytes(b"x")
    assert table.proveAbsent(b"x").unread == (f"file://{half}",)
    half.unlink()
    (database / "wal").mkdir()
    unseen = database / "wal" / "00000000000000000001.sst"
    unseen.write_bytes(b"rows, perhaps")
    assert table.proveAbsent(b"x").unread == (f"file://{unseen}",)


def test_an_unreadable_file_raises(table: SlateStore) -> None:
    path = sst_path(make_ulid(1, 1))
    table._stores.main.put(path, [b"no SST"])
    with pytest.raises(CorruptDataError, match=path):
        table.proveAbsent(b"b")


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_row_that_moves_concurrently_is_found(nth: int, table: SlateStore, clock: FakeClock) -> None:
    """A compaction and a vacuum at any call move the row to another file."""
    inner = table._stores.main

    def move() -> None:
        other = store_on(inner, FakeClock(clock.now_ms() + HOUR_MS, seed=9))
        other.compact(full=True)
        other.vacuum("0s", force=True)

    table.write(table_of([(b"k2", b"y")]))
    store = FailingStore(inner).run(move, "*", nth=nth)
    report = store_on(store, clock).proveAbsent(b"k2")
    there = {f"{inner.url}/{meta.path}" for meta in inner.list("compacted/")}
    assert report.found
    assert {place.url for place in report.found if place.rows} <= there


@pytest.mark.parametrize(
    ("key", "options"), [((), {}), ((b"a",), {"startKey": b"b"}), ((), {"startKey": b"b", "where": "key > X'00'"})]
)
def test_the_keys_to_prove_must_be_unambiguous(key: tuple[bytes, ...], options: Any, table: SlateStore) -> None:
    with pytest.raises(OptionError):
        table.proveAbsent(*key, **options)
    with pytest.raises(OptionError, match="startKey"):
        table.proveAbsent(startkeys=b"a")


def test_manifests_are_not_held(table: SlateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of versions, of thousands of files."""

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, Manifest) for each in gc.get_objects())

    for number in range(50):
        table.write(table_of([(b"k%d" % number, b"y")]))
    table = SlateStore.open(table.url)
    before, during = alive(), 0

    def counting(*args: Any) -> Any:
        nonlocal during
        during = alive()
        return find_named(*args)

    monkeypatch.setattr(absence, "find_named", counting)
    report = table.proveAbsent(b"k7")
    assert len(report.versions) > 50
    [place] = [place for place in report.found if place.kind == "sst"]
    assert 50 < len(place.versions) < len(report.versions)
    assert during - before < 5


@pytest.mark.parametrize("columnar", ["false", "true"])
def test_many_keys_take_few_requests(columnar: str) -> None:
    store = MemoryStore(f"absence-{next(_names)}/db")
    table = SlateStore.create(store.url, "id BIGINT", "id", versionRetention="none", columnar=columnar)
    table.write(pa.table({"id": range(0, 40_000, 2)}))
    table.compact(full=True, force=True)
    table.vacuum("0s", force=True)
    counted = FailingStore(store)
    searched = store_on(counted)
    assert searched.proveAbsent(keys=[(number,) for number in range(1, 40_000, 40)]).gone
    assert counted.count("get_range", "compacted/*") < 20
    wanted = [(number,) for number in (0, 1, 2, 18_000, 39_998, 40_000)]
    found = searched.proveAbsent(keys=[*wanted, *((number,) for number in range(4001, 5000, 2))])
    rows = {place.kind: place.rows for place in found.found if place.rows}
    assert rows == {kind: {"put": 4} for kind in ("sst", *(["columns"] if columnar == "true" else []))}
