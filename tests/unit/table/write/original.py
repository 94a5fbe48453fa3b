"""A table to be cloned or copied: it has files, and a row that is only in the WAL."""

from __future__ import annotations

import itertools

from slatespark import SlateStore
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores, open_stores
from tests.faults.jobs import table_of
from tests.support.wal_files import encode_wal, forget_own_commits

_names = itertools.count()


class Original:
    """A raw table `p` in memory, of two files; the row of `wal_key` is only in the WAL."""

    def __init__(self, wal_key: bytes) -> None:
        self.folder = f"memory://originals/{next(_names)}"
        self.table = SlateStore.create(self.at("p"), versionRetention="1h")
        self.first = self.table.write(table_of([(b"a", b"1")]))
        self.second = self.table.write(table_of([(b"b", b"2")]))
        self.stores = self.of("p")
        manifest = fetch_latest_manifest(self.stores)[1]
        row = Row(wal_key, manifest.last_l0_seq + 1, value=b"3", create_ts_ms=manifest.last_l0_clock_tick)
        self.wal_id = manifest.wal_id_last_seen + 1
        self.stores.main.put(wal_path(self.wal_id), [encode_wal([row])])
        forget_own_commits(self.table)

    def at(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def of(self, name: str) -> TableStores:
        return open_stores(self.at(name), storage={})


def rows(store: SlateStore) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in store.scan().read_all().to_pylist()}
