"""A vacuum that dies at any call, or meets others at any call: nothing that anybody needs ever goes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from slatespark import SlateError, SlateStore
from slatespark.errors import ConflictError, HistoryTrimmedError
from slatespark.format.paths import manifest_path, sst_path
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.gc.report import VacuumReport
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, list_manifests
from tests.faults.busy_database import CLIENT
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.client import Client, Delete, Location, Put
from tests.support.client_admin import compact_full
from tests.support.effort import THOROUGH, points
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock
from tests.support.stepping import ALWAYS, interleave, preempted

HOUR_MS: Final = 3_600_000
REPOSITORY: Final = Path(__file__).parents[2]
KILLS = 100 if THOROUGH else 6
_names = itertools.count()

Rows = dict[bytes, bytes]


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


@dataclass(frozen=True)
class Scene:
    """A table with something of everything that a vacuum takes, and that it leaves.

    Attributes
    ----------
    objects : by path
    now_ms : when it is vacuumed
    old : a version that nothing keeps
    pinned : a version with a checkpoint
    shown : rows of versions; under 0 those of the newest one
    """

    objects: dict[str, bytes]
    now_ms: int
    old: int
    pinned: int
    shown: dict[int, Rows]

    def lend(self) -> MemoryStore:
        """The table in a store of its own, in a folder so that clones can lie beside it."""
        store = MemoryStore(f"vacuum-{next(_names)}/db", lambda: self.now_ms - HOUR_MS)
        for path, data in self.objects.items():
            store.put(path, [data])
        store._bucket.clock_ms = lambda: self.now_ms
        return store

    def clock(self, seed: int) -> FakeClock:
        return FakeClock(self.now_ms, seed=seed)

    def open(self, store: ObjectStore, seed: int = 0) -> SlateStore:
        return store_on(store, self.clock(seed))

    def vacuum(self, store: ObjectStore, seed: int = 50) -> VacuumReport:
        return self.open(store, seed).vacuum(minAge="0s", force=True)

    def check(self, store: ObjectStore) -> None:
        """Check that everything that is kept can be read, and is what it was."""
        table = self.open(store)
        assert rows_at(table) == self.shown[0]
        assert not table.verify().findings
        for point in fetch_latest_manifest(stores_of(store))[1].checkpoints:
            if point.manifest_id in self.shown:
                assert rows_at(table, versionAsOf=point.manifest_id) == self.shown[point.manifest_id]
            fetch_manifest(stores_of(store), point.manifest_id)


def rows_at(table: SlateStore, **options: Any) -> Rows:
    found = table.scan(includeExpired=True, mergeOperator="concat", **options).read_all().to_pylist()
    return {row["key"]: row["value"] for row in found}


def objects_of(store: MemoryStore) -> dict[str, bytes]:
    prefix = store._prefix
    found = {path: data for path, (data, _) in store._bucket.objects.items() if path.startswith(prefix)}
    return {path.removeprefix(prefix): data for path, data in found.items()}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("used") / "db"
    clock = FakeClock()
    clock.advance(-50 * HOUR_MS)
    table = SlateStore.create(str(folder), clock=clock, versionRetention="none", autoCompact=False)
    table.write(table_of([(b"k%d" % number, b"first") for number in range(6)]))
    old = table.write(table_of([(b"k1", b"old"), (b"only", b"old")]))
    shown = {old: rows_at(table)}
    table.deleteRange(startKey=b"k0", endKey=b"k3")
    killed = Job(folder, clock).upload(table_of([(b"lost", b"x")]))  # its lease is over by the time of the vacuum
    assert killed.outputs
    table.createCheckpoint("over", lifetime="1h")
    table.write(table_of([(b"k1", b"pinned")]), mode="overwrite")
    pinned = table.createCheckpoint("keep").version
    shown[pinned] = rows_at(table)
    table.write(table_of([(b"k2", b"later")]), txnAppId="app", txnVersion=1)
    with Client.open(Location.local(folder), CLIENT) as client:
        client.write([Put(b"k3", b"theirs"), Delete(b"k2")])
        client.flush_memtable()
        client.write([Put(b"k4", b"theirs")])
        client.flush_memtable()
        compact_full(client)
        client.write([Put(b"k5", b"WAL")])
        client.flush_wal()
    shown[0] = rows_at(table)
    objects = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return Scene(objects, FakeClock().now_ms() + HOUR_MS, old, pinned, shown)


def test_what_a_vacuum_takes(scene: Scene) -> None:
    store = scene.lend()
    before = objects_of(store)
    would = scene.open(store).vacuum(minAge="0s", dryRun=True)
    assert objects_of(store) == before
    report = scene.vacuum(store)
    left = objects_of(store)
    scene.check(store)
    gone = {file.path for file in report.collected}
    assert gone == before.keys() - left.keys()
    assert {file.path for file in would.collected} == gone
    assert report.bytes == sum(len(before[path]) for path in gone)
    assert {point.name for point in report.checkpoints_released} >= {"over"}
    latest_id, latest = fetch_latest_manifest(stores_of(store))
    assert list_manifests(stores_of(store)) == [scene.pinned, latest_id - 1, latest_id], "it released checkpoints"
    needed = {*latest.ssts, *fetch_manifest(stores_of(store), scene.pinned).ssts}
    assert {path for path in left if path.startswith("compacted/")} == {sst_path(ulid) for ulid in needed}
    assert not [path for path in left if path.startswith("slatespark/leases/")]
    assert scene.open(store).write(table_of([(b"x", b"x")]), txnAppId="app", txnVersion=1) == latest_id, "it is noted"
    assert [file.path for file in scene.vacuum(store, 51).collected] == [manifest_path(latest_id - 1)]
    assert not scene.vacuum(store, 52).collected
    with pytest.raises(HistoryTrimmedError):
        rows_at(scene.open(store), versionAsOf=scene.old)


@pytest.mark.parametrize(("fault", "moment"), [("fails once", "before"), ("killed", "before"), ("killed", "after")])
def test_a_vacuum_that_dies_at_any_call(scene: Scene, fault: str, moment: Moment) -> None:
    clean = FailingStore(scene.lend())
    scene.vacuum(clean)
    assert isinstance(clean.inner, MemoryStore)
    calls = clean.count()
    scene.vacuum(clean.inner, 52)
    left = objects_of(clean.inner).keys()
    for nth in points(calls, 10, first=len(fault + moment)):
        inner = scene.lend()
        error = KilledError() if fault == "killed" else None
        store = FailingStore(inner).fail("*", nth=nth, times=1 if error is None else ALWAYS, moment=moment, error=error)
        with pytest.raises((SlateError, KilledError)):
            scene.vacuum(store)
        scene.check(inner)
        scene.vacuum(inner, 51)
        scene.check(inner)
        scene.vacuum(inner, 53)
        assert objects_of(inner).keys() == left
    assert calls > 50


@pytest.mark.slow
def test_a_vacuum_that_is_killed(scene: Scene, tmp_path: Path) -> None:
    """By SIGKILL at a call, or at any moment: what it leaves on a disk is sound, and the next vacuum leaves nothing."""
    clean = scene.lend()
    counted = FailingStore(clean)
    scene.vacuum(counted)
    calls = counted.count()
    scene.vacuum(clean, 54)
    moments = [str(1 + nth * calls // KILLS) for nth in range(KILLS // 2)]
    moments += [f"+{2000 + nth * 60_000 // KILLS}" for nth in range(KILLS // 2)]
    folders = [tmp_path / str(number) for number in range(len(moments))]
    for folder in folders:
        for path, data in scene.objects.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    cues = [f"{folder}:{moment}" for folder, moment in zip(folders, moments, strict=True)]
    command = [sys.executable, "-m", "tests.faults.dying_vacuum", str(scene.now_ms), *cues]
    subprocess.run(command, check=True, timeout=300, cwd=REPOSITORY)
    for folder in folders:
        store = LocalStore(folder)
        scene.check(store)
        scene.open(store, 51).vacuum(minAge="0s", force=True)
        store_on(store, FakeClock(scene.now_ms + HOUR_MS, seed=52)).vacuum(
            minAge="0s", force=True
        )  # temporary files are an hour old
        scene.check(store)
        left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert left == objects_of(clean).keys()


# --- others ---------------------------------------------------------------------------------------------------------


def keep_old(table: SlateStore, scene: Scene) -> None:
    table.createCheckpoint("mine", version=scene.old)


def restore_old(table: SlateStore, scene: Scene) -> None:
    table.restoreToVersion(scene.old)


def clone_old(table: SlateStore, scene: Scene) -> None:
    table.clone(f"{table.url.removesuffix('/db')}/clone", version=scene.old)


def clone_newest(table: SlateStore, scene: Scene) -> None:
    table.clone(f"{table.url.removesuffix('/db')}/clone")


def clone_kept(table: SlateStore, scene: Scene) -> None:
    table.clone(f"{table.url.removesuffix('/db')}/clone", checkpoint="keep")


def pin_old(table: SlateStore, scene: Scene) -> None:
    assert rows_at(table, versionAsOf=scene.old, pin="2h") == scene.shown[scene.old]


def pin_newest(table: SlateStore, scene: Scene) -> None:
    assert rows_at(table, pin="2h") == scene.shown[0]


def write_more(table: SlateStore, scene: Scene) -> None:
    table.write(table_of([(b"more", b"x")]))


def compact(table: SlateStore, scene: Scene) -> None:
    table.compact(full=True, mergeOperator="concat")


def vacuum_too(table: SlateStore, scene: Scene) -> None:
    table.vacuum(minAge="0s", force=True)


OTHERS: Final[tuple[Callable[[SlateStore, Scene], None], ...]] = (
    keep_old,
    restore_old,
    clone_old,
    clone_newest,
    clone_kept,
    pin_old,
    pin_newest,
    vacuum_too,
    write_more,
    compact,
)


def some_calls(other: Callable[[SlateStore, Scene], None], count: int) -> range:
    """The calls at which somebody else comes in."""
    stride = 1 if THOROUGH else 3 if other is write_more else 15
    return range(1 + OTHERS.index(other) % stride, count + 1, stride)


def run_both(scene: Scene, other: Callable[[SlateStore, Scene], None], schedule: Iterator[int]) -> None:
    inner = scene.lend()
    if other is write_more:  # under an epoch of ours nothing is spared for a client
        scene.open(inner, 59).write(table_of([(b"before", b"x")]))

    def act(store: ObjectStore) -> None:
        other(scene.open(store, 60), scene)

    collected, outcome = interleave(inner, [lambda store: scene.vacuum(store), act], schedule)
    assert isinstance(collected, VacuumReport), collected
    done = not isinstance(outcome, BaseException)
    if not done:  # only what nothing kept may be gone
        assert other in (keep_old, restore_old, clone_old, pin_old), outcome
        assert isinstance(outcome, HistoryTrimmedError | FileNotFoundError), outcome
    for seed in (51, 52):
        table, stores = scene.open(inner), stores_of(inner)
        added = {b"more": b"x", b"before": b"x"} if other is write_more else {}
        assert rows_at(table) == {**scene.shown[scene.old if done and other is restore_old else 0], **added}
        assert not table.verify().findings
        for point in fetch_latest_manifest(stores)[1].checkpoints:
            fetch_manifest(stores, point.manifest_id)
            rows_at(table, versionAsOf=point.manifest_id)
        if done and other is keep_old:
            assert rows_at(table, checkpoint="mine") == scene.shown[scene.old]
        if done and other in (clone_old, clone_newest, clone_kept):
            version = {clone_old: scene.old, clone_kept: scene.pinned}.get(other, 0)
            clone = SlateStore.open(f"{table.url.removesuffix('/db')}/clone", clock=scene.clock(61))
            assert rows_at(clone) == scene.shown[version]
            assert not clone.verify().findings
        scene.vacuum(inner, seed)


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
def test_others_at_any_call_of_a_vacuum(scene: Scene, other: Callable[[SlateStore, Scene], None]) -> None:
    clean = FailingStore(scene.lend())
    scene.vacuum(clean)
    for nth in some_calls(other, clean.count()):
        run_both(scene, other, preempted(nth, ALWAYS))


def test_a_write_that_begins_at_any_call_of_a_vacuum(scene: Scene) -> None:
    """And ends after it: the files that it has uploaded are kept for it, or it does not take them."""

    def lend() -> MemoryStore:
        inner = scene.lend()
        scene.open(inner, 59).write(table_of([(b"before", b"x")]))  # fences the client, for which much would be spared
        return inner

    clean = FailingStore(lend())
    scene.vacuum(clean)
    for nth in range(1, clean.count() + 1):
        inner = lend()
        begun: list[Job] = []

        def begin(store: MemoryStore = inner, jobs: list[Job] = begun) -> None:
            jobs.append(Job(store, scene.clock(60)).upload(table_of([(b"more", b"x")])))

        scene.vacuum(FailingStore(inner).run(begin, "*", nth=nth))
        for job in begun:
            job.commit()
        assert rows_at(scene.open(inner)) == {**scene.shown[0], b"before": b"x", b"more": b"x"}, f"call {nth}"


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
def test_a_vacuum_at_any_call_of_others(scene: Scene, other: Callable[[SlateStore, Scene], None]) -> None:
    clean = FailingStore(scene.lend())
    other(scene.open(clean, 60), scene)
    for nth in some_calls(other, clean.count()):
        run_both(scene, other, itertools.chain([1] * nth, [0] * 1000))


@pytest.mark.slow
def test_the_checkpoint_that_a_restore_goes_by_is_deleted_meanwhile(scene: Scene) -> None:
    clean = FailingStore(scene.lend())
    scene.open(clean, 60).restoreToVersion(scene.pinned)
    outcomes = set()
    for nth in {*points(clean.count(), 8), clean.count()}:
        inner = scene.lend()

        def release(store: ObjectStore = inner) -> None:
            scene.open(store, 61).deleteCheckpoint("keep")
            scene.vacuum(store, 62)

        store, restored = FailingStore(inner).run(release, "*", nth=nth), True
        try:
            scene.open(store, 60).restoreToVersion(scene.pinned)
        except (ConflictError, HistoryTrimmedError):
            restored = False
        outcomes.add(restored)
        table = scene.open(inner, 63)
        assert rows_at(table) == scene.shown[scene.pinned if restored else 0]
        assert not table.verify().findings
    assert outcomes == {True, False}
