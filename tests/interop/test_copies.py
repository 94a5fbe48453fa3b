"""Copies under the eyes of the real client: they open without the original, show the same rows, and go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import collect_garbage, compact_full, create_checkpoint, seq_for_time
from tests.support.fixture_databases import FIXTURES, NEWER_FIXTURES
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server
from tests.support.segments import FixedPrefix

COMPACTING = ClientOptions(compactor=True)

Rows = dict[bytes, bytes]


def place(root: Path, name: str) -> Location:
    return Location(name, directory=root)


def ours(store: SlateStore) -> Rows:
    rows = store.scan(mergeOperator="concat", includeExpired=True).read_all().to_pylist()
    return {row["key"]: row["value"] for row in rows}


def theirs(location: Location) -> Rows:
    return {row.key: row.value for row in read_rows(location)}


def test_the_client_goes_on_with_a_copy(tmp_path: Path) -> None:
    """Rows in L0, in a run and only in the WAL, deletions too; the original is gone before the client looks."""
    with Client.open(place(tmp_path, "db"), COMPACTING) as client:
        for number in range(5):
            client.put(b"k%d" % number, b"first")
        client.flush_memtable()
        compact_full(client)
        client.put(b"k1", b"in L0")
        client.flush_memtable()
        client.put(b"k3", b"in the WAL")
        client.delete(b"k4")
        client.flush_wal()
    store = SlateStore.open(str(tmp_path / "db"))
    before, time_s = theirs(place(tmp_path, "db")), fetch_latest_manifest(store._stores)[1].sequence_tracker.points
    copy = store.copyTo(tmp_path / "copy")
    shutil.rmtree(tmp_path / "db")
    location = place(tmp_path, "copy")
    assert theirs(location) == ours(copy) == before
    assert [seq_for_time(location, point[1]) for point in time_s] == [point[0] for point in time_s]
    with Client.open(location, COMPACTING) as client:
        client.put(b"k0", b"of the copy")
        client.delete(b"k1")
        client.flush_memtable()
        compact_full(client)
        client.put(b"more", b"1")
        client.flush_wal()
    collect_garbage(location)
    expected = {**before, b"k0": b"of the copy", b"more": b"1"}
    del expected[b"k1"]
    assert theirs(location) == ours(copy) == expected
    assert copy.verify().findings == ()


def test_a_version_at_a_checkpoint_of_the_client(tmp_path: Path) -> None:
    with Client.open(place(tmp_path, "db")) as client:
        client.put(b"a", b"1")
        client.flush_memtable()
    made = create_checkpoint(place(tmp_path, "db"), "monday")
    with Client.open(place(tmp_path, "db")) as client:
        client.put(b"a", b"2")
        client.flush_memtable()
        store = SlateStore.open(str(tmp_path / "db"))
        store.copyTo(tmp_path / "then", checkpoint="monday")
        store.copyTo(tmp_path / "by-id", versionAsOf=made.manifest_id)
        store.copyTo(tmp_path / "now")
        client.put(b"b", b"3")  # an open writer is not fenced
        client.flush_memtable()
    assert theirs(place(tmp_path, "then")) == theirs(place(tmp_path, "by-id")) == {b"a": b"1"}
    assert theirs(place(tmp_path, "now")) == {b"a": b"2"}
    assert theirs(place(tmp_path, "db")) == {b"a": b"2", b"b": b"3"}


@pytest.mark.parametrize(
    "case",
    [
        *(
            FIXTURES / name
            for name in ("cut_views", "history", "wal_only", "no_wal", "empty_run", "merge", "many_runs")
        ),
        NEWER_FIXTURES / "aligned",
    ],
    ids=lambda case: case.name,
)
def test_of_what_the_client_made(case: Path, tmp_path: Path) -> None:
    shutil.copytree(case, tmp_path / "db")
    store = SlateStore.open(str(tmp_path / "db"))
    before = ours(store)
    copy = store.copyTo(tmp_path / "copy")
    shutil.rmtree(tmp_path / "db")
    assert ours(copy) == before
    with Client.open(place(tmp_path, "copy")) as client:
        client.put(b"zzz new", b"1")
        client.flush_wal()
    assert ours(copy) == {**before, b"zzz new": b"1"}


def test_a_segmented_database(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "segments", tmp_path / "db")
    options = ClientOptions(segments=FixedPrefix(3, "fixed3"))
    with Client.open(place(tmp_path, "db"), options) as client:
        for key in (b"aaa in the WAL", b"zzz in the WAL"):
            client.put(key, b"1")
        client.flush_wal()
    store = SlateStore.open(str(tmp_path / "db"))
    with pytest.raises(InvalidRequestError, match="needs a new segment"):
        store.copyTo(tmp_path / "refused")
    store.setProperties(**FixedPrefix(3, "fixed3").options)
    copy = store.copyTo(tmp_path / "copy")
    assert copy.scan(now=0).read_all() == store.scan(now=0).read_all()
    with Client.open(place(tmp_path, "copy"), options) as client:
        assert {row.key: row.value for row in client.scan()} == ours(copy)
        assert client.get(b"aaa in the WAL") == client.get(b"zzz in the WAL") == b"1"


@pytest.mark.s3
def test_between_stores(moto_server: MotoServer, tmp_path: Path) -> None:
    """From a folder to a bucket, from there to another bucket with its own credentials, and back."""
    local = SlateStore.create(str(tmp_path / "db"))
    local.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    remote = local.copyTo(f"{moto_server.create_bucket('one')}/db", storage=moto_server.options)
    again = remote.copyTo(f"{moto_server.create_bucket('other')}/some/db", storage=moto_server.options)
    with Client.open(moto_server.location(again.url)) as client:
        client.put(b"b", b"2")
        client.flush_wal()
    back = again.copyTo(tmp_path / "back")
    assert theirs(place(tmp_path, "back")) == ours(back) == {b"a": b"1", b"b": b"2"}
    same = remote.copyTo("s3a://one/same")
    assert ours(same) == {b"a": b"1"}
