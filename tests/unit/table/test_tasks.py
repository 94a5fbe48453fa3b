"""Operations that run as tasks: the same result wherever the tasks run, and nothing of those that failed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from slatespark import SlateStore
from slatespark.format.paths import COMPACTED_DIR, sst_path
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.leases import LEASES_DIR
from slatespark.table.stores import open_stores
from slatespark.table.tasks import THREADS, scan_threads, threads_beside_client
from tests.support.fake_clock import FakeClock
from tests.support.task_scenes import HOUR_MS, SCENES, Scene, TravellingTasks, use_small_splits


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scene:
    use_small_splits(lambda name, value: monkeypatch.setattr(name, value))
    return SCENES[request.param]


@pytest.fixture
def path(scene: Scene, tmp_path: Path) -> Path:
    scene.make(tmp_path / "table")
    return tmp_path / "table"


def opened(path: Path) -> SlateStore:
    return SlateStore.open(str(path))  # whose clock can travel


def vacuum(path: Path) -> None:
    clock = FakeClock(SystemClock().now_ms() + 48 * HOUR_MS)
    SlateStore.open(str(path), clock=clock).vacuum("1h")


def values(store: SlateStore) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in store.scan(includeExpired=True).read_all().to_pylist()}


def objects(path: Path, folder: str) -> set[str]:
    return {meta.path for meta in open_stores(str(path), storage={}).main.list(folder)}


def shown(path: Path) -> set[str]:
    return {sst_path(ulid) for ulid in fetch_latest_manifest(open_stores(str(path), storage={}))[1].ssts}


def test_the_result_does_not_depend_on_where_tasks_run(scene: Scene, path: Path) -> None:
    twin = path.with_name("twin")
    shutil.copytree(path, twin)
    tasks = TravellingTasks()
    here, there = (scene.run(opened(place), path, runner=runner) for place, runner in ((twin, THREADS), (path, tasks)))
    assert max(tasks.sizes) > 1, "the work is shared out"
    assert values(opened(path)) == scene.left
    assert scene.stored(opened(path)) == scene.stored(opened(twin))
    assert type(here) is type(there)
    assert not opened(path).verify().has_damage


def test_what_further_attempts_uploaded_is_unreferenced_until_a_vacuum(scene: Scene, path: Path) -> None:
    before = objects(path, COMPACTED_DIR)
    scene.run(opened(path), path, runner=TravellingTasks())
    extra = objects(path, COMPACTED_DIR) - before - shown(path)
    assert extra or scene is SCENES["erase"], "whose own vacuum has deleted them"
    vacuum(path)
    assert not extra & objects(path, COMPACTED_DIR)
    assert values(opened(path)) == scene.left


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_failed_task_changes_nothing(scene: Scene, path: Path, fails_at: int) -> None:
    store = opened(path)
    version, stored, before = store.detail().version, scene.stored(store), objects(path, COMPACTED_DIR)
    with pytest.raises(OSError, match="executor"):
        scene.run(store, path, runner=TravellingTasks(fails_at))
    assert store.detail().version == version
    assert scene.stored(store) == stored
    assert objects(path, LEASES_DIR) == set()
    vacuum(path)
    assert objects(path, COMPACTED_DIR) <= before
    scene.run(store, path)
    assert values(store) == scene.left


@pytest.mark.parametrize(("cores", "left"), [(1, 1), (2, 1), (3, 2), (64, 4)])
def test_a_core_is_left_to_a_client_on_this_machine(cores: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert threads_beside_client(4, is_remote=False) == left
    assert threads_beside_client(4, is_remote=True) == 4


@pytest.mark.parametrize(
    ("processors", "given", "here", "remote"),
    [(1, None, 1, 2), (2, None, 2, 4), (12, None, 12, 16), (64, None, 64, 64), (2, 3, 3, 3), (2, "1", 1, 1)],
)
def test_a_scan_of_a_remote_store_has_threads_to_wait_with(
    monkeypatch: pytest.MonkeyPatch, processors: int, given: int | str | None, here: int, remote: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    assert scan_threads(given, is_remote=False) == here
    assert scan_threads(given, is_remote=True) == remote
