"""A database in the worst state for a commit: a run, L0 files, rows only in the WAL, and a compaction under way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from slatespark import SlateStore
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    TieredSpec,
    WorkerSpec,
    encode_compactions,
)
from slatespark.format.paths import sst_path
from slatespark.format.ulid import make_ulid
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.compactions import compactions_log, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores
from tests.faults.jobs import Pair, stores_of, table_of
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, read_rows
from tests.support.client_admin import compact_full

CLIENT: Final = ClientOptions(compactor=True, block_bytes=1024)


@dataclass(frozen=True)
class Contents:
    """What a table may show before and after one write."""

    before: list[Pair] | None  # None: there is no table
    after: list[Pair]


def make_busy(folder: Path, *, compacting: bool = True) -> list[Pair]:
    """Make the database with the real client, and return its rows; leave out the compaction if it is not wanted."""
    location = Location.local(folder)
    with Client.open(location, CLIENT) as client:
        client.write([Put(b"k%03d" % number, b"run " * 10) for number in range(40)])
        compact_full(client)
        client.write([Put(b"k%03d" % number, b"older L0") for number in range(5, 25)])
        client.flush_memtable()
        client.write([Delete(b"k010"), Put(b"k011", b"newer L0"), Merge(b"k012", b"+"), Put(b"only", b"L0")])
        client.flush_memtable()
        client.write([Put(b"k001", b"WAL"), Merge(b"k012", b"-"), Delete(b"k030")])
        client.flush_wal()
        client.write([Put(b"k001", b"later WAL"), Put(b"z", b"WAL")])
        client.flush_wal()
    if compacting:
        start_compactions(stores_of(LocalStore(folder)))
    return client_pairs(folder)


def start_compactions(stores: TableStores, *, heartbeat_ms: int = 1) -> None:
    """Leave two jobs of a compactor that died: one with its output ready to be committed, one running."""
    number, state = fetch_compactions(stores)
    _, manifest = fetch_latest_manifest(stores)
    moved = manifest.l0[-1]  # the output of a job that takes the oldest L0 alone is a copy of it
    output = replace(manifest.ssts[moved.sst_id], id=make_ulid(moved.id.timestamp_ms, 7))
    stores.main.copy(sst_path(moved.sst_id), sst_path(output.id))
    worker = WorkerSpec("a worker that died", heartbeat_ms)
    ready = Compaction(
        id=make_ulid(moved.id.timestamp_ms, 8),
        spec=TieredSpec((moved.id,), (), max(manifest.run_ids(), default=-1) + 1),
        status=CompactionStatus.COMPACTED,
        output_ssts=(output,),
        worker=worker,
    )
    running = Compaction(
        id=make_ulid(moved.id.timestamp_ms, 9),
        spec=TieredSpec((), manifest.run_ids(), min(manifest.run_ids())),
        status=CompactionStatus.RUNNING,
        worker=worker,
    )
    jobs = Compactions(state.compactor_epoch, (*state.jobs, ready, running))
    compactions_log(stores).create(number + 1, encode_compactions(jobs))


def client_pairs(folder: Path) -> list[Pair]:
    """What the real client's reader shows."""
    return [(row.key, row.value) for row in read_rows(Location.local(folder))]


def our_pairs(folder: Path) -> list[Pair]:
    """What a fresh `SlateStore` shows."""
    rows = SlateStore.open(str(folder)).scan(mergeOperator="concat", includeExpired=True).read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]


def upserted(rows: list[Pair], changes: list[Pair]) -> list[Pair]:
    """The rows after an upsert."""
    return sorted({**dict(rows), **dict(changes)}.items())


def check_serves_on(folder: Path, rows: list[Pair]) -> None:
    """Both sides read `rows`, write in turn, compact, and still agree."""
    assert our_pairs(folder) == rows
    assert client_pairs(folder) == rows
    SlateStore.open(str(folder)).write(table_of([(b"next", b"ours"), (b"k002", b"ours")]))
    rows = upserted(rows, [(b"next", b"ours"), (b"k002", b"ours")])
    assert our_pairs(folder) == rows
    with Client.open(Location.local(folder), CLIENT) as client:
        assert [(row.key, row.value) for row in client.scan()] == rows
        client.write([Put(b"k003", b"theirs"), Put(b"next", b"theirs"), Merge(b"k012", b"!")])
        folded = dict(rows).get(b"k012", b"") + b"!"
        rows = upserted(rows, [(b"k003", b"theirs"), (b"next", b"theirs"), (b"k012", folded)])
        client.flush_wal()
        assert our_pairs(folder) == rows
        compact_full(client)
        assert [(row.key, row.value) for row in client.scan()] == rows
        assert [client.get(key) for key, _ in rows] == [value for _, value in rows]
    assert our_pairs(folder) == rows
    _, state = fetch_compactions(stores_of(LocalStore(folder)))
    assert not state.active_jobs()
