"""Restores under the eyes of the real client: it reads, serves, compacts and collects what we restored."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from slatespark.table.write.restore import restore_to_version
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.fixture_databases import FIXTURES, fixture_databases
from tests.support.our_reads import our_rows

COMPACTING = ClientOptions(compactor=True)
CHOSEN = {"wal_only", "l0_basic", "merge", "compacted", "checkpoints", "cut_views", "moved_cut_views", "many_runs"}
CHOSEN |= {"restored", "history", "empty_run", "clone-child", "clone-proj"}
DATABASES = [database for database in fixture_databases() if database.name in CHOSEN]

Rows: TypeAlias = dict[bytes, bytes]


class Table:
    """A database that both sides write to."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.location = Location(str(folder.relative_to(root)), directory=root)
        self.store = SlateStore.open(str(folder), root=str(root))
        self.stores = open_stores(str(folder), storage={"root": str(root)})

    def ours(self, **options: Any) -> Rows:
        return {row.key: row.value for row in our_rows(self.store, includeExpired=True, **options)}

    def theirs(self) -> Rows:
        return {row.key: row.value for row in read_rows(self.location)}

    def manifest(self) -> Manifest:
        return fetch_latest_manifest(self.stores)[1]

    def restore(self, version: int) -> int:
        """Restore, and check that both sides see it."""
        before, rows = self.manifest(), self.ours(versionAsOf=version)
        made = restore_to_version(self.stores, SystemClock(), version).manifest_id
        assert (self.ours(), self.theirs()) == (rows, rows)
        after = self.manifest()
        assert (after.l0, after.replay_after_wal_id) == ((), after.wal_id_last_seen)
        assert after.last_l0_seq > before.last_l0_seq
        assert after.compacted == () or min(after.run_ids()) > max(before.run_ids(), default=-1)
        return made


@pytest.fixture(params=DATABASES, ids=[database.name for database in DATABASES])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    source = request.param.path
    case = source if source.parent == FIXTURES else source.parent  # clones need their neighbours
    shutil.copytree(case, tmp_path / case.name)
    return Table(tmp_path / source.relative_to(FIXTURES), tmp_path)


def test_versions_of_a_client_come_back_and_it_goes_on(table: Table) -> None:
    latest, before = table.store.detail().version, table.ours()
    version = latest - 2
    then = table.ours(versionAsOf=version)
    made = table.restore(version)
    with Client.open(table.location, COMPACTING) as client:
        client.put(b"theirs", b"1")
        client.flush_memtable()
        compact_full(client)
        now = {row.key: row.value for row in client.scan()}
        assert {key: client.get(key) for key in now} == now
        assert now.items() <= (then | {b"theirs": b"1"}).items()  # what has expired may be gone
    collect_garbage(table.location)
    assert table.theirs() == table.ours() == now
    assert table.ours(versionAsOf=made - 1) == before
    table.restore(made - 1)
    assert table.ours() == before
