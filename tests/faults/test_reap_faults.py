"""A reaping that fails at any one call to the store: no young row is lost, nothing comes back, the next one ends it."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from slatespark import SlateError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_run import reap_table
from tests.faults.jobs import stores_of, table_of
from tests.support.client import Client, ClientOptions, Location, Merge, Put, ScanRow, read_rows
from tests.support.effort import points
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

HOUR_MS = 3_600_000
CLIENT = ClientOptions(block_bytes=1024)
_names = itertools.count(1)


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


@dataclass(frozen=True)
class Scene:
    """A table with rows of every age, in files that go as a whole, are rewritten, or get tombstones; and a WAL.

    Attributes
    ----------
    now_ms : the instant of reaping
    old, young : keys that are past retention then, and those that are not
    """

    folder: Path
    now_ms: int
    old: frozenset[bytes]
    young: frozenset[bytes]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("aged") / "db"
    clock = FakeClock()
    clock.advance(-20 * HOUR_MS)
    store = SlateStore.create(str(folder), clock=clock, retention="10h", versionRetention="none")
    store.write(table_of([(b"drop%02d" % number, b"old") for number in range(20)]))
    clock.advance(HOUR_MS)
    store.write(table_of([(b"mix%02d" % number, b"old") for number in range(4)]))
    store.write(table_of([(b"op%02d" % number, b"old") for number in range(4)]))
    clock.advance(15 * HOUR_MS)
    store.write(table_of([(b"mix%02d" % number, b"new") for number in range(2, 12)]))
    store.write(table_of([(b"op00", b"+")]), operation="merge")
    clock.advance(4 * HOUR_MS)
    with Client.open(Location.local(folder), CLIENT) as client:
        client.write([Put(b"wal", b"new"), Merge(b"op01", b"+")])
        client.flush_wal()
    rows = our_rows(store, includeExpired=True)
    now_ms = max(row.create_ts or 0 for row in rows)
    old = {row.key for row in rows if row.create_ts is not None and row.create_ts + 10 * HOUR_MS <= now_ms}
    assert old == {b"drop%02d" % number for number in range(20)} | {b"mix00", b"mix01", b"op02", b"op03"}
    return Scene(folder, now_ms, frozenset(old), frozenset(row.key for row in rows) - old)


def reap(store: ObjectStore, scene: Scene, seed: int = 0) -> None:
    clock = FakeClock(scene.now_ms + 1000, seed=seed)
    reap_table(stores_of(store), clock, now_ms=scene.now_ms, limits=ReapLimits(2))


def test_a_reaping_that_goes_well(scene: Scene, tmp_path: Path) -> None:
    folder = shutil.copytree(scene.folder, tmp_path / "db")
    before = {row.key: row for row in our_rows(SlateStore.open(str(folder)), includeExpired=True)}
    store = FailingStore(LocalStore(folder))
    reap(store, scene)
    kept = [before[key] for key in sorted(scene.young)]
    assert our_rows(SlateStore.open(str(folder)), includeExpired=True) == kept
    assert read_rows(Location.local(folder)) == kept, "the real client sees the same"
    assert 40 < store.count() < 400


@pytest.mark.parametrize(("fault", "moment"), [("fails once", "before"), ("killed", "after")])
def test_a_fault_at_any_call(scene: Scene, fault: str, moment: Moment) -> None:
    clean = FailingStore(copy_of(scene.folder))
    before = {row.key: row for row in rows_of(copy_of(scene.folder))}
    reap(clean, scene)
    kept, calls = [before[key] for key in sorted(scene.young)], clean.count()
    seen: set[int] = set()
    for nth in points(calls, 2 if fault == "killed" else 5):
        store = FailingStore(copy_of(scene.folder))
        error = KilledError() if fault == "killed" else None
        store.fail("*", nth=nth, times=1 if fault == "fails once" else 10**9, moment=moment, error=error)
        try:
            reap(store, scene)
        except (SlateError, KilledError):
            rows = rows_of(store.inner)
            assert [row for row in rows if row.key in scene.young] == kept
            assert all(row == before[row.key] for row in rows), "what is not gone yet is as it was"
            seen.add(len(rows))
            reap(store.inner, scene, seed=1)
        assert rows_of(store.inner) == kept
    assert len(seen) > 2, "it was interrupted between its passes"


def copy_of(folder: Path) -> MemoryStore:
    """The objects of a folder in memory, where a copy and a call cost little."""
    store = MemoryStore(f"reap-faults-{next(_names)}")
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(folder)), [path.read_bytes()])
    return store


def rows_of(store: ObjectStore) -> list[ScanRow]:
    return our_rows(SlateStore(stores_of(store), FakeClock(), {"path": store.url}), includeExpired=True)
