"""Readers that know the newest manifest look for no definition: so each change of one creates a manifest."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore, UnavailableError
from slatespark.format.paths import MANIFEST_DIR, WAL_DIR
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectMeta, ObjectStore
from slatespark.table.definition.versions import (
    DEFINITION_DIR,
    DefinitionFetch,
    definition_path,
    fetch_defined,
    fetch_definition,
    publish_definition,
)
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from tests.faults.jobs import store_on, stores_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

START_MS: Final = 1_800_000_000_000
HOUR_MS: Final = 3_600_000
_names = count()


@pytest.fixture(params=["local", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalStore(tmp_path / "table")
    return MemoryStore(f"announcements-{next(_names)}", lambda: START_MS)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": [f"v{each}" for each in ids]})


def created(objects: ObjectStore, **properties: str) -> SlateStore:
    """A table with two rows an hour old, as a process that has only read it sees it."""
    earlier = FakeClock(START_MS - HOUR_MS)
    SlateStore.create(objects.url, "id BIGINT, v STRING", "id", clock=earlier, **properties)
    store_on(objects, earlier).write(rows(1, 2))
    return on(objects)


def on(objects: ObjectStore) -> SlateStore:
    """The table as a process of its own sees it."""
    return store_on(objects, FakeClock(START_MS))


def shown(reader: SlateStore) -> list[dict[str, object]]:
    found: list[dict[str, object]] = reader.scan().read_all().to_pylist()
    return found


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.setProperties(retention="1m"), []),
        (lambda table: table.dropColumns("v"), [{"id": 1}, {"id": 2}]),
    ],
)
def test_a_warm_reader_sees_the_change_of_another_process(
    objects: ObjectStore, change: Callable[[SlateStore], None], left: list[dict[str, int]]
) -> None:
    reader = created(objects)
    for _ in range(3):
        assert len(shown(reader)) == 2
    change(on(objects))
    assert shown(reader) == left
    assert (reader.get(1) is None) == (left == [])


def test_a_warm_reader_sees_a_raised_history_floor(objects: ObjectStore) -> None:
    reader = created(objects, history="true")
    assert len(shown(reader)) == 2
    before = reader.resolve().version
    on(objects).setHistoryFloor(START_MS - 1000)
    assert reader.resolve().version == before + 1
    assert fetch_definition(reader._stores).value.full_history_ts_low_ms == START_MS - 1000
    assert len(shown(reader)) == 2


def test_a_change_that_was_never_announced_comes_with_the_next_commit(objects: ObjectStore) -> None:
    """Its process died in between: who knew the definition before may go on with it, but no later than that."""
    reader = created(objects)
    assert len(shown(reader)) == 2
    stores = stores_of(objects)
    number, definition = fetch_definition(stores)
    publish_definition(stores, Version(number + 1, replace(definition, properties={"retention": "1m"})))
    assert shown(on(objects)) == []
    on(objects).write(rows(3))
    assert [row["id"] for row in shown(reader)] == [3]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.setProperties(retention="1m"),
        lambda table: table.dropColumns("v"),
        lambda table: table.setHistoryFloor(START_MS - 1000),
    ],
)
def test_a_change_that_cannot_be_announced_is_made(objects: ObjectStore, change: Callable[[SlateStore], None]) -> None:
    """So the call was not wrong, whatever the store says of its manifest."""
    created(objects, history="true")
    expected = MemoryStore(f"announcements-{next(_names)}", lambda: START_MS)
    created(expected, history="true")
    change(on(expected))

    broken = FailingStore(objects).fail("create", f"{MANIFEST_DIR}*", error=InvalidRequestError("refused"))
    with pytest.raises(UnavailableError):
        change(store_on(broken, FakeClock(START_MS)))
    assert replace(on(objects).definition, created_by="") == replace(on(expected).definition, created_by="")
    assert shown(on(objects)) == shown(on(expected))


def test_repeating_the_change_announces_it(objects: ObjectStore) -> None:
    reader = created(objects)
    assert len(shown(reader)) == 2
    stores = stores_of(objects)
    number, definition = fetch_definition(stores)
    publish_definition(stores, Version(number + 1, replace(definition, properties={"retention": "1m"})))
    on(objects).setProperties(retention="1m")
    assert shown(reader) == []


def test_a_commit_meanwhile_announces_it_as_well(objects: ObjectStore) -> None:
    reader = created(objects)
    assert len(shown(reader)) == 2
    busy = FailingStore(objects).run(lambda: on(objects).write(rows(3)), "create", f"{MANIFEST_DIR}*")
    store_on(busy, FakeClock(START_MS)).setProperties(retention="1m")
    assert [row["id"] for row in shown(reader)] == [3]


class _Distant(MemoryStore):
    """A store with latency, in which another process changes the table while a reader looks at the WAL."""

    def __init__(self, name: str) -> None:
        super().__init__(name, lambda: START_MS)
        self._has_looked = threading.Event()
        self.meanwhile: Callable[[], object] | None = None

    @property
    def is_remote(self) -> bool:
        return True

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        if prefix == WAL_DIR and self.meanwhile is not None:
            change, self.meanwhile = self.meanwhile, None
            assert self._has_looked.wait(10), "the definition is looked for meanwhile"
            change()
        found = super().list(prefix, start_after)
        if prefix == DEFINITION_DIR:
            self._has_looked.set()
        return found


def test_a_definition_that_was_looked_for_before_the_newest_manifest_is_looked_for_again() -> None:
    """In a process that knows nothing: the definition, and then a version that needs a later one."""
    name = f"announcements-{next(_names)}"
    objects = MemoryStore(name, lambda: START_MS)
    created(objects)
    distant = _Distant(name)
    wider = pa.table({"id": [3], "v": ["v3"], "w": [7]})
    distant.meanwhile = lambda: on(objects).write(wider, mergeSchema=True)
    assert shown(on(distant)) == [
        {"id": 1, "v": "v1", "w": None},
        {"id": 2, "v": "v2", "w": None},
        {"id": 3, "v": "v3", "w": 7},
    ]


def test_a_fetch_that_nobody_waits_for_does_not_bring_an_earlier_definition_back() -> None:
    """A commit begins it, and begins it anew as it sees a later manifest; the first one ends last."""
    name = f"announcements-{next(_names)}"
    objects = MemoryStore(name, lambda: START_MS)
    created(objects)
    distant = FailingStore(_Distant(name))
    stores = stores_of(distant)
    number = fetch_definition(stores).number
    fetch_defined(stores)
    has_begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        has_begun.set()
        assert may_end.wait(60)

    distant.run(wait, "get", definition_path(number + 1))
    on(objects).setProperties(retention="2h")
    fetch = DefinitionFetch(stores)
    assert has_begun.wait(60)
    on(objects).setProperties(retention="1m")
    newest, begun = fetch_latest_manifest(stores), fetch._own
    fetch.begin()
    assert fetch.resolve(newest).number == number + 2
    may_end.set()
    ended = begun()
    assert ended is not None
    assert ended.number == number + 1
    found = DefinitionFetch(stores, reuses=True).resolve(fetch_latest_manifest(stores))
    assert (found.number, found.value.retention_ms) == (number + 2, 60_000)


def test_an_older_version_is_read_with_the_newest_definition(objects: ObjectStore) -> None:
    reader = created(objects)
    version = reader.resolve().version
    on(objects).write(rows(3))
    assert len(shown(reader)) == 3
    assert reader.scan(versionAsOf=version).read_all() == rows(1, 2)
    on(objects).dropColumns("v")
    assert reader.scan(versionAsOf=version).read_all() == pa.table({"id": [1, 2]})


def test_an_older_version_of_a_table_that_was_created_again_is_read_with_its_definition(tmp_path: Path) -> None:
    path = tmp_path / "table"
    reader = created(LocalStore(path))
    assert len(shown(reader)) == 2
    shutil.rmtree(path)
    again = SlateStore.create(str(path), "name STRING", "name")
    version = again.write(pa.table({"name": ["x"]}))
    for name in "abc":
        again.write(pa.table({"name": [name]}))
    assert reader.scan(versionAsOf=version).read_all() == pa.table({"name": ["x"]})
