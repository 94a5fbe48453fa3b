"""Tables that cannot be read, or not be written: each has its own error, and stays as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from slatedb import uniffi

from slatespark import (
    CorruptDataError,
    InvalidRequestError,
    SlateError,
    SlateStore,
    SnapshotExpiredError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.storage.remote_store import RemoteStore
from slatespark.table.records.operations import Operation
from tests.faults.busy_database import check_serves_on, make_busy
from tests.faults.jobs import Job, Pair, store_on, table_of
from tests.support.client import Client, ClientOptions, EventLoopThread, Location
from tests.support.fixture_databases import FIXTURES

ROWS: list[Pair] = [(b"a", b"1"), (b"b", b"2")]


def contents(folder: Path) -> dict[str, bytes]:
    """Every object, without what we note beside the client's."""
    files = (path for path in folder.rglob("*") if path.is_file() and "slatespark" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def scan(path: Path | str, **storage: Any) -> list[Pair]:
    rows = SlateStore.open(str(path), **storage).scan(mergeOperator="concat").read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]


def refused(error: type[SlateError], match: str, *calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(error, match=match) as caught:
            call()
        assert type(caught.value) is error


# --- no database ----------------------------------------------------------------------------------------------------


def missing(folder: Path) -> None:
    pass


def empty(folder: Path) -> None:
    folder.mkdir()


def a_file(folder: Path) -> None:
    folder.write_bytes(b"no folder")


def other_files(folder: Path) -> None:
    (folder / "manifest").mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"PAR1")
    (folder / "manifest" / "00000000000000000001.manifest.tmp").write_bytes(b"x")
    (folder / "manifest" / "README").write_bytes(b"x")


@pytest.mark.parametrize("make", [missing, empty, a_file, other_files])
def test_places_without_a_database(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "db")
    before = contents(tmp_path)
    refused(TableNotFoundError, f"{tmp_path}/db", lambda: SlateStore.open(str(tmp_path / "db")))
    assert contents(tmp_path) == before


def test_a_file_where_a_table_should_be_created(tmp_path: Path) -> None:
    a_file(tmp_path / "db")
    refused(InvalidRequestError, f"{tmp_path}/db", lambda: SlateStore.create(str(tmp_path / "db")))
    assert contents(tmp_path) == {"db": b"no folder"}


def test_remains_of_a_database_are_not_written_over(tmp_path: Path) -> None:
    make_busy(tmp_path / "db")
    shutil.rmtree(tmp_path / "db" / "manifest")
    before = contents(tmp_path / "db")
    refused(InvalidRequestError, "manifest", lambda: Job(tmp_path / "db"))
    assert contents(tmp_path / "db") == before


# --- objects that are missing, empty, or of another time --------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    make_busy(tmp_path / "db")
    return tmp_path / "db"


def newest_manifest(folder: Path) -> Path:
    return max((folder / "manifest").iterdir())


def both(folder: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """A read and a write."""
    return lambda: scan(folder), lambda: Job(folder).upload(table_of(ROWS)).commit()


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\1", b"\0\2", b"\0\2" + b"\0" * 100, b"<html>The page of a proxy.</html>"]
)
def test_a_newest_manifest_that_is_none(data: bytes, database: Path) -> None:
    path = newest_manifest(database)
    path.write_bytes(data)
    before = contents(database)
    refused(CorruptDataError, path.name, *both(database))
    assert contents(database) == before


@pytest.mark.parametrize("version", [3, 255])
def test_a_manifest_of_another_release(version: int, database: Path) -> None:
    path = newest_manifest(database)
    path.write_bytes(version.to_bytes(2, "big") + path.read_bytes()[2:])
    before = contents(database)
    refused(UnsupportedFormatError, f"{path.name}.*version {version}", *both(database))
    assert contents(database) == before


def test_a_missing_sst(database: Path) -> None:
    for path in (database / "compacted").iterdir():
        path.unlink()
    refused(SnapshotExpiredError, r"compacted/\w{26}\.sst", lambda: scan(database))
    refused(SnapshotExpiredError, r"compacted/\w{26}\.sst", lambda: SlateStore.open(str(database)).get(b"k001"))


def test_a_boundary_that_is_no_number(database: Path) -> None:
    (database / "gc").mkdir()
    (database / "gc" / "manifest.boundary").write_bytes(b"-1")
    refused(CorruptDataError, "gc/manifest.boundary", *both(database))


def test_ids_up_to_the_boundary_are_dead(database: Path) -> None:
    number = int(newest_manifest(database).stem)
    (database / "gc").mkdir(exist_ok=True)
    boundary = database / "gc" / "manifest.boundary"
    boundary.write_bytes(b"%d" % number)
    refused(TableNotFoundError, database.name, lambda: scan(database))
    boundary.write_bytes(b"%d" % (number - 1))
    assert scan(database)


def test_a_damaged_compactions_file_stops_a_write_before_its_claim(database: Path) -> None:
    path = max((database / "compactions").iterdir())
    path.write_bytes(path.read_bytes()[:20])
    before = contents(database)
    refused(CorruptDataError, path.name, lambda: Job(database).upload(table_of(ROWS)).commit())
    after = contents(database)
    assert {name: after[name] for name in before} == before
    assert [name for name in after if name not in before and "compacted/" not in name] == []


def test_a_damaged_wal_file_stops_a_write_and_nothing_is_lost(database: Path) -> None:
    path = sorted((database / "wal").iterdir())[-1]
    sound = path.read_bytes()
    path.write_bytes(sound[:5] + b"?" + sound[6:])
    refused(CorruptDataError, f"{path.name} at byte 0: .*checksum", *both(database))
    path.write_bytes(sound)
    rows = scan(database)
    check_serves_on(database, rows)


# --- what is only read ------------------------------------------------------------------------------------------------


def test_rows_of_no_segment(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    shutil.copytree(FIXTURES / "segments", folder)
    rows, before = scan(folder), contents(folder)
    assert rows
    calls = [
        lambda mode=mode: SlateStore.open(str(folder)).write(table_of(ROWS), mode=mode)
        for mode in ("append", "overwrite")
    ]
    refused(InvalidRequestError, "segment", *calls)
    assert contents(folder) == before


def test_a_clone_that_is_still_being_made(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "clone", tmp_path / "clone")
    child = tmp_path / "clone" / "child"
    for path in (child / "manifest").iterdir():
        if path.stem != "00000000000000000001":
            path.unlink()
    before = contents(child)
    refused(UnsupportedFormatError, "clone", lambda: Job(child).upload(table_of(ROWS)).commit())
    # Its WAL is copied last: as long as files are missing, no read shows a part of it.
    (child / "wal" / "00000000000000000004.sst").unlink()
    refused(InvalidRequestError, r"wal/00000000000000000004\.sst", lambda: scan(child, root=str(tmp_path)))
    del before["wal/00000000000000000004.sst"]
    assert contents(child) == before


def test_a_clone_whose_parent_is_not_found(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "clone" / "child", tmp_path / "child")
    refused(TableNotFoundError, r"storage\.root", lambda: scan(tmp_path / "child"))


def test_a_store_without_atomic_create_is_only_read(database: Path) -> None:
    """The memory file system of fsspec stands for all drivers that look first and then write."""
    files = fsspec.filesystem("memory")
    for name, data in contents(database).items():
        files.pipe_file(f"/careless/db/{name}", data)
    before = set(files.find("/careless"))
    store = RemoteStore("memory://careless/db")
    theirs, ours = store_on(store), SlateStore.open(str(database))
    assert theirs.scan(mergeOperator="concat").read_all().equals(ours.scan(mergeOperator="concat").read_all())
    assert theirs.get(b"k001") == ours.get(b"k001")
    refused(
        InvalidRequestError,
        "memory://",
        lambda: theirs.write(table_of(ROWS)),
        lambda: Job(store),
        lambda: Job(RemoteStore("memory://careless/new"), operation=Operation.CREATE),
    )
    assert set(files.find("/careless")) == before


# --- a WAL of its own place -------------------------------------------------------------------------------------------


def open_with_wal(location: Location, wal: Location) -> Client:
    """A client that keeps its WAL in another store."""
    options = ClientOptions()
    builder = uniffi.DbBuilder(location.path, location.object_store())
    builder.with_settings(options.to_settings())
    builder.with_wal_object_store(wal.object_store())
    loop = EventLoopThread("slatedb client with a WAL of its own")
    try:
        return Client(location, options, loop, loop.wait(builder.build()))
    except BaseException:
        loop.stop()
        raise


@pytest.mark.parametrize("flushed", [False, True], ids=["rows in the WAL", "all rows in L0"])
def test_a_wal_kept_elsewhere(flushed: bool, tmp_path: Path) -> None:
    location, wal = Location.local(tmp_path / "data" / "db"), Location.local(tmp_path / "wals" / "db")
    with open_with_wal(location, wal) as client:
        client.put(b"a", b"1")
        client.flush_memtable() if flushed else client.flush_wal()
        client.close(flush=flushed)
    assert not (location.folder / "wal").exists()
    before = contents(location.folder)
    refused(InvalidRequestError, "walPath", *both(location.folder))
    assert contents(location.folder) == before
    store = SlateStore.open(str(location.folder), walPath=str(wal.folder))
    assert store.get(b"a") == {"key": b"a", "value": b"1"}
    store.write(table_of([(b"b", b"2")]))
    assert not (location.folder / "wal").exists()
    with open_with_wal(location, wal) as client:
        assert [(row.key, row.value) for row in client.scan()] == ROWS
        client.put(b"c", b"3")
        client.flush_wal()
        store.write(table_of([(b"d", b"4")]))
    assert [row["key"] for row in store.scan().read_all().to_pylist()] == [b"a", b"b", b"c", b"d"]
