"""Leases: how long the files of a job are protected, and what damaged leases do."""

from __future__ import annotations

import itertools

import pytest

from slatespark.errors import CorruptDataError
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.records.leases import (
    Lease,
    delete_lease,
    fetch_lease,
    has_lease,
    lease_path,
    list_task_marks,
    publish_lease,
    renew_lease,
    task_mark_path,
)

_names = itertools.count()
DAY_MS = 86_400_000
MAX_MS = 2**63 - 1
WRITE_ID = "0123456789abcdef"
OTHER = "0123456789abcdee"


@pytest.fixture(name="store")
def _store() -> ObjectStore:
    return MemoryStore(f"leases/{next(_names)}")


@pytest.mark.parametrize(("now_ms", "expires_ms"), [(1000, 1000 + DAY_MS), (MAX_MS - DAY_MS, MAX_MS), (MAX_MS, MAX_MS)])
def test_a_lease_lasts_a_day(store: ObjectStore, now_ms: int, expires_ms: int) -> None:
    publish_lease(store, WRITE_ID, now_ms)
    assert fetch_lease(store, lease_path(WRITE_ID)) == Lease(WRITE_ID, now_ms, expires_ms)
    with pytest.raises(FileExistsError):
        publish_lease(store, WRITE_ID, now_ms + 1)


def test_a_renewed_lease_still_covers_the_first_uploads(store: ObjectStore) -> None:
    publish_lease(store, WRITE_ID, 1000)
    renew_lease(store, WRITE_ID, 1000, 5000)
    assert fetch_lease(store, lease_path(WRITE_ID)) == Lease(WRITE_ID, 1000, 5000 + DAY_MS)


def test_a_job_may_publish_until_its_lease_expires(store: ObjectStore) -> None:
    publish_lease(store, WRITE_ID, 1000)
    assert has_lease(store, WRITE_ID, 1000 + DAY_MS - 1)
    assert not has_lease(store, WRITE_ID, 1000 + DAY_MS)
    assert not has_lease(store, OTHER, 1000)
    for _ in range(2):
        delete_lease(store, WRITE_ID)
    assert not has_lease(store, WRITE_ID, 1000)
    assert fetch_lease(store, lease_path(WRITE_ID)) is None


@pytest.mark.parametrize("write_id", ["", "../../manifest/1", WRITE_ID + "0", WRITE_ID.upper()])
def test_an_id_that_is_not_of_a_job_is_not_looked_up(store: ObjectStore, write_id: str) -> None:
    assert not has_lease(store, write_id, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"write_id": "w", "created_ms": 1, "expires_ms": "2"}',
        b'{"write_id": "w", "created_ms": 1, "expires_ms": 2.5}',
    ],
)
def test_a_damaged_lease_is_named(store: ObjectStore, content: bytes) -> None:
    path = lease_path(WRITE_ID)
    store.put(path, [content])
    for look in (lambda: fetch_lease(store, path), lambda: has_lease(store, WRITE_ID, 0)):
        with pytest.raises(CorruptDataError) as raised:
            look()
        assert raised.value.path == path


def test_marks_of_tasks(store: ObjectStore) -> None:
    publish_lease(store, WRITE_ID, 0)
    marks = [task_mark_path(WRITE_ID, task) for task in (0, 1, 12)]
    for path in (*marks, task_mark_path(OTHER, 0), task_mark_path(WRITE_ID + "f", 0)):
        store.put(path, [b""])
    assert sorted(list_task_marks(store, WRITE_ID)) == sorted(marks), "neither the lease nor marks of other jobs"
