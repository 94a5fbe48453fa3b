"""We write to every database that the real client made, and the client reads, serves and continues it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.storage import open_store
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Location, Merge, Put, ScanRow, read_rows
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.support.our_reads import our_rows

Rows: TypeAlias = dict[bytes, bytes]

DATABASES = [
    database
    for database in fixture_databases()
    if database.root == FIXTURES and not database.name.startswith("segments")
]
by_name = pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])

CLIENT = ClientOptions(compactor=True)


class Copy:
    """A copy of a fixture that both sides may write to."""

    def __init__(self, database: FixtureDatabase, folder: Path) -> None:
        # Clones need their neighbours, at the paths they were made at; those are in one folder.
        place = database.path.relative_to(FIXTURES)
        shutil.copytree(FIXTURES / place.parts[0], folder / place.parts[0])
        self.folder = folder / place
        self.location = Location(str(self.folder.relative_to(folder)), directory=folder)
        self.store = SlateStore.open(str(self.folder), root=str(folder))
        self.rows: Rows = {row[0]: row[1] for row in database.visible_rows()}

    def manifest(self) -> Manifest:
        return fetch_latest_manifest(open_stores(str(self.folder), storage={}))[1]

    def check(self) -> None:
        """Scans of both sides, and point reads of ours."""
        ours = our_rows(self.store, includeExpired=True)
        assert {row.key: row.value for row in ours} == self.rows
        assert [as_ours(row) for row in read_rows(self.location)] == [as_ours(row) for row in ours]
        for key in [*list(self.rows)[:: max(1, len(self.rows) // 10)], b"absent"]:
            found = self.store.get(key, mergeOperator="concat", includeExpired=True)
            assert (None if found is None else found["value"]) == self.rows.get(key)

    def write(self, rows: Rows, mode: str = "append") -> None:
        table = pa.table({"key": list(rows), "value": list(rows.values())})
        self.store.write(table, mode=mode)
        self.rows = dict(rows) if mode == "overwrite" else {**self.rows, **rows}

    def continue_with_client(self) -> None:
        with Client.open(self.location, CLIENT) as client:
            assert {row.key: row.value for row in client.scan()} == self.rows
            client.write([Put(b"theirs", b"1"), Merge(b"ours", b"+")])
            client.flush_wal()
            self.rows |= {b"theirs": b"1", b"ours": self.rows.get(b"ours", b"") + b"+"}
            self.check()
            compact_full(client)
            # Point reads stop at the first layer that has the key: they agree with the scan if layers are in order.
            rows = {row.key: row.value for row in client.scan()}
            assert {key: client.get(key) for key in rows} == rows
            # What is expired may be gone now, for both.
            assert rows.items() <= self.rows.items()
            self.rows = rows
            self.check()
            client.put(b"last", b"in the WAL")
            client.flush_wal()
            self.rows[b"last"] = b"in the WAL"
        self.check()


def as_ours(row: ScanRow) -> tuple[object, ...]:
    return row.key, row.value, row.seq, row.create_ts or 0, row.expire_ts


def some_rows(rows: Rows) -> Rows:
    """Changes of keys that are there and of others, in key order."""
    changed = {key: b"changed " + key for key in list(rows)[:: max(1, len(rows) // 7)]}
    return dict(sorted({**changed, b"ours": b"new", b"\0": b"lowest", b"\xff" * 40: b"highest"}.items()))


@by_name
def test_append_and_go_on(database: FixtureDatabase, tmp_path: Path) -> None:
    copy = Copy(database, tmp_path)
    copy.check()
    copy.write(some_rows(copy.rows))
    copy.check()
    manifest = copy.manifest()
    assert manifest.l0 == ()  # the client's writer stalls at eight
    assert manifest.replay_after_wal_id == manifest.wal_id_last_seen
    copy.continue_with_client()
    copy.write({b"after": b"the client", **some_rows(copy.rows)})
    copy.check()


@by_name
def test_overwrite_and_go_on(database: FixtureDatabase, tmp_path: Path) -> None:
    copy = Copy(database, tmp_path)
    before = copy.manifest()
    copy.write({b"a": b"all", b"ours": b"new"}, mode="overwrite")
    copy.check()
    after = copy.manifest()
    assert len(after.ssts) == 1
    assert all(not other.sst_ids for other in after.external_dbs)
    assert after.last_l0_seq > before.last_l0_seq
    collect_garbage(copy.location)
    copy.check()
    copy.continue_with_client()


@by_name
def test_what_was_pinned_before_stays_readable(database: FixtureDatabase, tmp_path: Path) -> None:
    copy = Copy(database, tmp_path)
    store = open_store(str(copy.folder))
    number, manifest = fetch_latest_manifest(open_stores(str(copy.folder), storage={}))
    before = our_rows(copy.store, versionAsOf=number, includeExpired=True)
    copy.write({b"a": b"all"}, mode="overwrite")
    assert our_rows(copy.store, versionAsOf=number, includeExpired=True) == before
    assert store.list("manifest/")[-1].path.endswith(f"{number + 2:020d}.manifest")
    for point in manifest.checkpoints:
        pinned = our_rows(copy.store, checkpoint=str(point.id), includeExpired=True)
        theirs = read_rows(copy.location, checkpoint=str(point.id))
        assert [as_ours(row) for row in pinned] == [as_ours(row) for row in theirs]
