"""A restore, or a clone, that fails at any one call to the store: all of it or nothing, and the table serves on."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from slatespark import CommitConflictError, SlateError, SlateStore, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.paths import COMPACTED_DIR, sst_path
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.checkpoints.store import create_checkpoint
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, find_latest_manifest
from slatespark.table.records.operations import Operation
from slatespark.table.write import clone as clone_module
from slatespark.table.write.clone import clone_table
from slatespark.table.write.restore import restore_to_version
from tests.faults.busy_database import check_serves_on, client_pairs, make_busy, our_pairs
from tests.faults.jobs import Job, Pair, store_on, stores_of, table_of
from tests.support.client import Client, ClientOptions, Location
from tests.support.effort import points
from tests.support.failing_store import FailingStore, Moment

Fault = Literal["fails once", "stays down", "killed"]
FAULTS = pytest.mark.parametrize(
    ("fault", "moment"), [("fails once", "after"), ("stays down", "before"), ("killed", "before")]
)
CLOCK = SystemClock()


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


@dataclass(frozen=True)
class Scene:
    """A table that was replaced, and the version before that, of which rows were only in the WAL."""

    folder: Path
    version: int
    then: list[Pair]
    now: list[Pair]

    def copied(self, to: Path) -> Path:
        return Path(shutil.copytree(self.folder, to))

    def restore(self, store: ObjectStore) -> int:
        return restore_to_version(stores_of(store), CLOCK, self.version).manifest_id


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("restore") / "db"
    then = make_busy(folder)
    store = LocalStore(folder)
    made = create_checkpoint(stores_of(store), CLOCK, name="before")
    now = [(b"a", b"1"), (b"k001", b"2")]
    Job(store, operation=Operation.OVERWRITE).upload(table_of(now)).commit()
    return Scene(folder, made.version, then, now)


def cued(folder: Path, nth: int, fault: Fault, moment: Moment) -> FailingStore:
    error = KilledError() if fault == "killed" else None
    times = 1 if fault == "fails once" else 10**9
    return FailingStore(LocalStore(folder)).fail("*", nth=nth, times=times, moment=moment, error=error)


@pytest.mark.slow
@FAULTS
def test_a_restore_is_all_or_nothing(scene: Scene, fault: Fault, moment: Moment, tmp_path: Path) -> None:
    clean = FailingStore(LocalStore(scene.copied(tmp_path / "clean")))
    scene.restore(clean)
    assert our_pairs(tmp_path / "clean") == scene.then
    served: set[bool] = set()
    last = clean.count()  # after the commit
    for nth in sorted({*points(last, 3 if fault == "killed" else 6), last}):
        folder = scene.copied(tmp_path / f"{nth}")
        committed = True
        try:
            scene.restore(cued(folder, nth, fault, moment))
        except (SlateError, KilledError):
            committed = False
        rows = our_pairs(folder)
        assert rows == scene.then or (not committed and rows == scene.now)
        assert our_pairs_at(folder, scene.version) == scene.then
        if (rows == scene.then) not in served:
            served.add(rows == scene.then)
            check_serves_on(folder, rows)
        elif rows == scene.now:
            assert scene.restore(LocalStore(folder)) > 0
            assert our_pairs(folder) == scene.then
        shutil.rmtree(folder)
    assert served == {False, True}


def our_pairs_at(folder: Path, version: int) -> list[Pair]:
    rows = SlateStore.open(str(folder)).scan(mergeOperator="concat", versionAsOf=version).read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("side", ["parent", "target"])
@FAULTS
def test_a_clone_is_made_or_is_none(
    scene: Scene, side: str, fault: Fault, moment: Moment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(parent: ObjectStore, target: ObjectStore) -> None:
        monkeypatch.setattr(clone_module, "open_stores", lambda path, storage: stores_of(target))
        clone_table(stores_of(parent), CLOCK, target.url, version=scene.version)

    parent = FailingStore(LocalStore(scene.copied(tmp_path / "clean")))
    target = FailingStore(LocalStore(tmp_path / "clone"))
    clone(parent, target)
    assert our_pairs(tmp_path / "clone") == client_pairs(tmp_path / "clone") == scene.then
    for nth in points((parent if side == "parent" else target).count(), 2):
        folder, place = scene.copied(tmp_path / f"{nth}"), tmp_path / f"{nth}-clone"
        cued_side = cued(folder if side == "parent" else place, nth, fault, moment)
        made = True
        try:
            clone(*((cued_side, LocalStore(place)) if side == "parent" else (LocalStore(folder), cued_side)))
        except (SlateError, KilledError):
            made = False
        check_clone(place, scene.then, made=made)
        assert our_pairs(folder) == scene.now
        shutil.rmtree(folder)
    check_serves_on(tmp_path / "clean", scene.now)


def check_clone(place: Path, rows: list[Pair], *, made: bool) -> None:
    """It shows all rows, or is marked as unfinished, or is not there."""
    found = find_latest_manifest(stores_of(LocalStore(place)))
    if found is None:
        assert not made
    elif found[1].initialized:
        assert our_pairs(place) == rows
    else:
        assert not made
        with pytest.raises(UnsupportedFormatError, match="clone"):
            Job(LocalStore(place))


def test_who_commits_during_a_restore_wins(scene: Scene, tmp_path: Path) -> None:
    folder = scene.copied(tmp_path / "db")
    store = FailingStore(LocalStore(folder))
    store.run(lambda: rival_writes(folder), "create", "wal/*")  # it has claimed, and fences
    with pytest.raises(CommitConflictError):
        scene.restore(store)
    rows = [(b"a", b"1"), (b"k001", b"2"), (b"rival", b"3")]
    assert our_pairs(folder) == client_pairs(folder) == rows
    check_serves_on(folder, rows)


@pytest.mark.parametrize("cue", ["slatespark/leases/*", "slatespark/claims/*"])
def test_who_commits_before_its_claim_wins_too(scene: Scene, cue: str, tmp_path: Path) -> None:
    folder = scene.copied(tmp_path / "db")
    store = FailingStore(LocalStore(folder))
    operation: Literal["create", "put"] = "create" if "leases" in cue else "put"
    store.run(lambda: rival_writes(folder), operation, cue)
    with pytest.raises(CommitConflictError):
        scene.restore(store)
    assert our_pairs(folder) == [(b"a", b"1"), (b"k001", b"2"), (b"rival", b"3")]


def rival_writes(folder: Path) -> None:
    store_on(LocalStore(folder)).write(table_of([(b"rival", b"3")]))


def test_a_client_that_writes_meanwhile_is_not_shut_out(scene: Scene, tmp_path: Path) -> None:
    folder = scene.copied(tmp_path / "db")
    with Client.open(Location.local(folder), ClientOptions()) as client:
        store = FailingStore(LocalStore(folder))

        def write() -> None:
            client.put(b"live", b"4")
            client.flush_wal()

        store.run(write, "create", "slatespark/leases/*", moment="after")
        with pytest.raises(CommitConflictError):
            scene.restore(store)
        client.put(b"live", b"5")
        client.flush_wal()
        assert {row.key: row.value for row in client.scan()} == {**dict(scene.now), b"live": b"5"}
    assert our_pairs(folder) == client_pairs(folder) == [(b"a", b"1"), (b"k001", b"2"), (b"live", b"5")]


def test_files_that_were_collected_are_noticed_first(scene: Scene, tmp_path: Path) -> None:
    folder = scene.copied(tmp_path / "db")
    stores = stores_of(LocalStore(folder))
    lost = min(fetch_manifest(stores, scene.version).ssts)
    assert any(meta.path == sst_path(lost) for meta in stores.main.list(COMPACTED_DIR))
    stores.main.delete(sst_path(lost))
    before = fetch_latest_manifest(stores)[0]
    with pytest.raises(SnapshotExpiredError, match=f"{lost}.sst"):
        scene.restore(LocalStore(folder))
    assert fetch_latest_manifest(stores)[0] == before
    assert our_pairs(folder) == scene.now
