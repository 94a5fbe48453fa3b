"""Databases in memory whose `.compactions` a test writes by hand, as a coordinator would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slatespark.format.codecs import Compression
from slatespark.format.compactions import Compaction, Compactions, CompactionSpec, CompactionStatus, WorkerSpec
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.references import SortedRun, SstHandle, SstMap, SstView
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores

MADE_MS = 1_000_000


def sst(number: int, *, at_ms: int = MADE_MS, first: bytes = b"a", last: bytes = b"z") -> SstHandle:
    """An SST that nobody reads."""
    info = SstInfo(
        first_entry=first,
        last_entry=last,
        index_offset=10,
        index_len=10,
        filter_offset=10,
        filter_len=0,
        compression=Compression.NONE,
    )
    return SstHandle(make_ulid(at_ms, number), info)


def job_id(number: int, at_ms: int = MADE_MS) -> Ulid:
    return make_ulid(at_ms, number)


def manifest(*, l0: int = 0, runs: tuple[int, ...] = ()) -> Manifest:
    """L0 views 1, 2, ... from the newest on, and runs of a file each."""
    handles = [sst(number) for number in range(1, l0 + len(runs) + 1)]
    views = [SstView(handle.id, handle.id) for handle in handles]
    compacted = tuple(SortedRun(run, (view,)) for run, view in zip(runs, views[l0:], strict=True))
    return Manifest(ssts=SstMap(handles), l0=tuple(views[:l0]), compacted=compacted)


def view_ids(*numbers: int) -> tuple[Ulid, ...]:
    return tuple(sst(number).id for number in numbers)


def job(
    number: int,
    spec: CompactionSpec,
    status: CompactionStatus = CompactionStatus.SCHEDULED,
    worker: str | None = None,
    at_ms: int = MADE_MS,
) -> Compaction:
    """A job, with a worker if it has a name."""
    return Compaction(job_id(number, at_ms), spec, status, worker=None if worker is None else WorkerSpec(worker, 5))


def database(name: str, shown: Manifest, *jobs: Compaction) -> TableStores:
    """A database of one version, and one list of jobs."""
    store = MemoryStore(name)
    stores = TableStores(main=store, wal=store)
    publish(stores, 1, shown)
    create_compactions(stores, Version(1, Compactions(compactor_epoch=3, jobs=jobs)))
    return stores


def publish(stores: TableStores, number: int, shown: Manifest) -> None:
    stores.main.create(manifest_path(number), encode_manifest(shown))


def change(stores: TableStores, changed: Callable[[Compaction], Compaction | None]) -> None:
    """Publish the next list, as another process: each job changed, or left out."""
    number, listed = fetch_compactions(stores)
    jobs = [changed(entry) for entry in listed.jobs]
    kept = tuple(entry for entry in jobs if entry is not None)
    create_compactions(stores, Version(number + 1, replace(listed, jobs=kept)))
