"""A compaction that fails at any one call to the store: reads stay as they were, and the next one does the work."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from slatespark import InvalidRequestError, SlateError, SlateStore, UnavailableError
from slatespark.format.compactions import CompactionStatus
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.jobs import stores_of, table_of
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, ScanRow, read_rows
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

_names = itertools.count(1)


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with runs of ours, L0 views and a WAL of the client."""
    folder = tmp_path_factory.mktemp("layers") / "db"
    store = SlateStore.create(str(folder), mergeOperator="concat")
    for number in range(3):
        store.write(table_of([(b"%02d" % key, b"%d" % number) for key in range(number, 20)]))
    with Client.open(Location.local(folder), ClientOptions(block_bytes=1024)) as client:
        for number in range(2):
            client.write([Put(b"%02d" % key, b"client %d" % number) for key in range(5 * number, 5 * number + 9)])
            client.write([Delete(b"%02d" % (15 + number)), Merge(b"%02d" % (17 + number), b"+")])
            client.flush_memtable()
        client.put(b"wal", b"only")
        client.flush_wal()
    return folder


def compact(store: ObjectStore, seed: int = 0) -> None:
    options = WriteOptions.parse({"path": store.url, "sstSize": 200, "blockSize": 1024})
    compact_table(stores_of(store), FakeClock(seed=seed), CompactionRequest(full=True), options, range_bytes=100)


def test_a_compaction_that_goes_well(scene: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(scene, tmp_path / "db")
    before = our_rows(SlateStore.open(str(folder)))
    store = FailingStore(LocalStore(folder))
    compact(store)
    assert our_rows(SlateStore.open(str(folder))) == before == read_rows(Location.local(folder))
    assert len(SlateStore.open(str(folder)).runs()) == 2, "what was merged, and the rows of the WAL above it"
    assert store.count("put", "compacted/*") > 2
    assert store.count() < 120


@pytest.mark.parametrize(
    ("fault", "moment", "step"), [("fails once", "before", 9), ("lost answer", "after", 9), ("killed", "after", 4)]
)
def test_a_fault_at_any_call(scene: Path, fault: str, moment: Moment, step: int) -> None:
    clean, before = FailingStore(copy_of(scene)), rows_of(copy_of(scene))
    compact(clean)
    seen = set()
    for nth in range(clean.count(), 0, -step):
        store = FailingStore(copy_of(scene))
        error = KilledError() if fault == "killed" else None
        store.fail("*", nth=nth, times=10**9 if fault == "killed" else 1, moment=moment, error=error)
        try:
            compact(store)
        except (SlateError, KilledError):
            assert rows_of(store.inner) == before
            seen.add(len(fetch_latest_manifest(stores_of(store.inner))[1].l0))
            compact(store.inner, seed=1)
        assert rows_of(store.inner) == before
        statuses = [job.status for job in fetch_compactions(stores_of(store.inner))[1].jobs]
        assert CompactionStatus.RUNNING not in statuses or fault != "killed", (
            "a job of a dead process goes off the list"
        )
    assert fault != "killed" or seen == {0, 2}, "it was interrupted before its commit, and after it"


def test_a_full_disk_leaves_nothing_but_what_was_there(scene: Path) -> None:
    clean = FailingStore(copy_of(scene))
    before, objects = rows_of(clean), names(clean, "compacted/")
    clean.fail("put", "compacted/*", nth=3, times=10**9, error=UnavailableError("No space left on device."))
    with pytest.raises(UnavailableError, match="space"):
        compact(clean)
    assert rows_of(clean) == before
    assert len(names(clean, "compacted/") - objects) <= 2, "what a range had uploaded that did not come to its end"
    assert names(clean, "slatespark/leases/") == set()
    assert [job.status for job in fetch_compactions(stores_of(clean))[1].jobs] == [CompactionStatus.FAILED]


def test_files_stay_when_an_interrupted_commit_may_still_land(scene: Path) -> None:
    """The request that publishes them may be under way when its process is told to stop."""
    store = FailingStore(copy_of(scene))
    objects = names(store, "compacted/")
    store.fail("create", "manifest/*", nth=2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        compact(store)
    assert len(names(store, "compacted/") - objects) > 2


def test_files_stay_when_a_commit_was_refused_after_it_landed(scene: Path) -> None:
    store = FailingStore(copy_of(scene))
    before = rows_of(store)
    number, _ = fetch_latest_manifest(stores_of(store))
    denied = InvalidRequestError("Cannot read gc/manifest.boundary.", why="403")

    def deny() -> None:
        store.fail("get", "gc/manifest.boundary", error=denied)

    store.run(deny, "create", "manifest/*", nth=2, moment="after")
    with pytest.raises(UnavailableError, match="known"):
        compact(store)
    assert rows_of(store) == before
    assert fetch_latest_manifest(stores_of(store))[0] == number + 2, "it landed"


def names(store: ObjectStore, folder: str) -> set[str]:
    return {meta.path for meta in store.list(folder)}


def copy_of(folder: Path) -> MemoryStore:
    """The objects of a folder in memory, where a copy and a call cost little."""
    store = MemoryStore(f"compaction-faults-{next(_names)}")
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(folder)), [path.read_bytes()])
    return store


def rows_of(store: ObjectStore) -> list[ScanRow]:
    return our_rows(SlateStore(stores_of(store), FakeClock(), {"path": store.url}))
