"""A collection by the real client at any moment of a commit, a restore, a checkpoint: nothing dangles, or is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from slatespark import SlateError, SlateStore
from slatespark.format.paths import manifest_path
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.checkpoints.store import create_checkpoint, delete_checkpoint
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.write.restore import restore_to_version
from tests.faults.busy_database import client_pairs, our_pairs
from tests.faults.jobs import Pair, store_on, stores_of, table_of
from tests.support.client import Location
from tests.support.client_admin import collect_garbage
from tests.support.effort import points
from tests.support.failing_store import FailingStore

CLOCK = SystemClock()
OLD: list[Pair] = [(b"a", b"1"), (b"b", b"1")]
NEW: list[Pair] = [(b"a", b"2"), (b"b", b"1")]
NEWEST: list[Pair] = [(b"a", b"3"), (b"b", b"1")]
FIRST = 3  # the version of OLD; nothing keeps it


def write(store: ObjectStore) -> list[Pair]:
    store_on(store).write(table_of(NEWEST[:1]))
    return NEWEST


def restore(store: ObjectStore) -> list[Pair]:
    restore_to_version(stores_of(store), CLOCK, FIRST)
    return OLD


def keep_old(store: ObjectStore) -> list[Pair]:
    create_checkpoint(stores_of(store), CLOCK, manifest_id=FIRST)
    return NEW


def keep_new(store: ObjectStore) -> list[Pair]:
    create_checkpoint(stores_of(store), CLOCK)
    return NEW


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two versions, the newer one followed by manifests that changed nothing."""
    folder = tmp_path_factory.mktemp("collections") / "db"
    store = SlateStore.create(str(folder))
    assert store.write(table_of(OLD)) == FIRST
    store.write(table_of(NEW[:1]))
    store.createCheckpoint("x")
    delete_checkpoint(stores_of(LocalStore(folder)), CLOCK, "x")
    store.setProperties(versionRetention="1h")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("act", [write, restore, keep_old, keep_new])
def test_a_collection_at_any_call(act: Callable[[ObjectStore], list[Pair]], template: Path, tmp_path: Path) -> None:
    clean = FailingStore(LocalStore(shutil.copytree(template, tmp_path / "clean")))
    act(clean)
    for nth in points(clean.count(), 2):
        folder = Path(shutil.copytree(template, tmp_path / f"{nth}"))
        location = Location.local(folder)
        store = FailingStore(LocalStore(folder)).run(partial(collect_garbage, location), "*", nth=nth)
        rows = NEW
        try:
            rows = act(store)
        except SlateError:
            assert act in (restore, keep_old)  # the version was collected before it was kept
        assert our_pairs(folder) == client_pairs(folder) == rows
        stores = stores_of(LocalStore(folder))
        for point in fetch_latest_manifest(stores)[1].checkpoints:
            stores.main.head(manifest_path(point.manifest_id))
            assert SlateStore.open(str(folder)).scan(versionAsOf=point.manifest_id).read_all().num_rows <= len(NEW)
        shutil.rmtree(folder)
