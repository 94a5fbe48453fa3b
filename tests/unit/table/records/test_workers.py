"""Workers: which jobs in the list of compactions are ours, and when their workers reported."""

from __future__ import annotations

import itertools

import pytest

from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.records.workers import (
    delete_worker,
    fetch_worker_report,
    find_worker,
    publish_worker,
    worker_path,
)

_names = itertools.count()
WRITE_ID = "0123456789abcdef"


@pytest.fixture(name="store")
def _store() -> ObjectStore:
    return MemoryStore(f"workers/{next(_names)}")


def test_a_recorded_worker_is_ours(store: ObjectStore) -> None:
    worker_id = publish_worker(store, WRITE_ID, 1000)
    assert find_worker(store, worker_id) == WRITE_ID
    assert fetch_worker_report(store, worker_id) == 1000
    publish_worker(store, WRITE_ID, 2000)
    assert fetch_worker_report(store, worker_id) == 2000
    for _ in range(2):
        delete_worker(store, worker_id)
    assert find_worker(store, worker_id) is None
    assert fetch_worker_report(store, worker_id) is None


@pytest.mark.parametrize(
    "worker_id",
    ["", WRITE_ID, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "slatespark-", "slatespark-hold", f"slatespark-{WRITE_ID}/x"],
)
def test_a_worker_of_another_client_is_not_ours_whatever_is_stored(store: ObjectStore, worker_id: str) -> None:
    store.put(worker_path(worker_id), [b"{}"])
    assert find_worker(store, worker_id) is None


@pytest.mark.parametrize("content", [b"{}", b'{"reported_ms": "5"}', b'{"reported_ms": true}', b'{"reported_ms": 5.5}'])
def test_a_record_without_a_time(store: ObjectStore, content: bytes) -> None:
    store.put(worker_path(f"slatespark-{WRITE_ID}"), [content])
    assert fetch_worker_report(store, f"slatespark-{WRITE_ID}") is None
