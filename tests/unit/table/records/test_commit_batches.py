"""Batches of commit records: few requests for thousands of commits, and no loss with a damaged batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

import slatespark.table.records.commit_batches as records
from slatespark.errors import InvalidRequestError
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.records.commit_batches import (
    SMALL_SUFFIX,
    batch_commit_records,
    fetch_commit_object,
    list_batches,
    list_commit_objects,
)
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR, commit_path
from slatespark.table.records.commits import fetch_records_between, newest_commit_records, publish_commit_record
from tests.support.failing_store import FailingStore
from tests.unit.table.records.test_commits import record

_names = itertools.count()


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore(f"batches/{next(_names)}"))


def publish(store: FailingStore, numbers: Iterable[int]) -> None:
    for number in numbers:
        publish_commit_record(store, record(number))


def batch_paths(store: FailingStore) -> list[str]:
    """Return the paths of the large batches."""
    return [meta.path for meta in store.list(BATCHES_DIR) if not meta.path.endswith(SMALL_SUFFIX)]


def small_numbers(store: FailingStore) -> list[int]:
    """Return the versions that the small batches end with."""
    paths = [meta.path for meta in store.list(BATCHES_DIR) if meta.path.endswith(SMALL_SUFFIX)]
    return [int(path.removeprefix(BATCHES_DIR).removesuffix(SMALL_SUFFIX)) for path in paths]


def ids(store: FailingStore, limit: int | None = None) -> list[int]:
    return [found.manifest_id for found in newest_commit_records(store, limit)]


def requests(store: FailingStore, operation: str) -> int:
    return sum(call.operation == operation for call in store.calls)


def test_every_hundred_commits_make_a_batch(store: FailingStore) -> None:
    publish(store, range(1, 601, 2))
    assert [path.removeprefix(BATCHES_DIR) for path in batch_paths(store)] == [f"{199:020d}.json", f"{399:020d}.json"]
    store.calls.clear()
    assert list(newest_commit_records(store)) == [record(number) for number in range(599, 0, -2)]
    assert (requests(store, "list"), requests(store, "get")) == (2, 2 + 9 + 10)
    store.calls.clear()
    assert ids(store, 101) == list(range(599, 397, -2))
    assert requests(store, "get") == 2 + 9 + 10, "some batches are read together"
    objects = list_commit_objects(store)
    assert len(objects) == 2 + 9 + 10
    read = [found.manifest_id for meta in objects for found in reversed(fetch_commit_object(store, meta.path))]
    assert read == list(range(599, 0, -2))


def test_commits_between_those_of_other_clients_are_batched_too(store: FailingStore) -> None:
    publish(store, range(3, 2000, 7))
    assert len(batch_paths(store)) == 2
    assert ids(store) == sorted(range(3, 2000, 7), reverse=True)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"commits": 5}', b'{"commits": [5, {}, null]}'])
def test_nothing_is_lost_with_a_damaged_batch(store: FailingStore, content: bytes) -> None:
    publish(store, range(1, 301, 2))
    [path] = batch_paths(store)
    store.put(path, [content])
    assert ids(store) == list(range(299, 0, -2))
    assert ids(store, 3) == [299, 297, 295]
    for number in small_numbers(store):
        store.put(f"{BATCHES_DIR}{number:020d}{SMALL_SUFFIX}", [content])
    assert ids(store) == list(range(299, 0, -2))
    assert ids(store, 40) == list(range(299, 220, -2))
    assert [fetch_commit_object(store, meta.path) for meta in list_commit_objects(store)][-1] == []


def test_batches_alone_are_enough(store: FailingStore) -> None:
    publish(store, range(1, 301, 2))
    for meta in store.list(COMMITS_DIR):
        store.delete(meta.path)
    assert ids(store) == list(range(279, 0, -2))


def test_the_newest_commits_are_in_small_batches(store: FailingStore) -> None:
    """Earlier releases pass over them, as of foreign objects; those below a large batch are not read."""
    publish(store, range(1, 100, 2))
    assert batch_paths(store) == []
    assert small_numbers(store) == [19, 39, 59, 79]
    publish(store, range(101, 252, 2))
    assert small_numbers(store) == [*range(19, 180, 20), 219, 239]
    assert list(list_batches(store)) == [199, 219, 239]
    assert list(list_batches(store, 200)) == [219, 239]
    assert list(list_batches(store, 199)) == [199, 219, 239]


def test_a_record_that_is_late_for_a_small_batch_is_found_with_a_limit_too(store: FailingStore) -> None:
    publish(store, [number for number in range(1, 50, 2) if number != 11])
    assert small_numbers(store) != []
    publish(store, [11])
    assert ids(store, 20) == list(range(49, 10, -2))


def test_a_late_record_is_found_without_a_limit(store: FailingStore) -> None:
    numbers = [number for number in range(1, 301, 2) if number != 101]
    publish(store, numbers)
    publish(store, [101])
    assert ids(store) == list(range(299, 0, -2))


def test_a_damaged_record_is_not_batched(store: FailingStore) -> None:
    publish(store, range(1, 100, 2))
    store.put(f"{COMMITS_DIR}{11:020d}.json", [b"{}"])
    publish(store, range(101, 251, 2))
    assert len(batch_paths(store)) == 1
    assert ids(store, 60) == list(range(249, 130, -2))
    assert 11 not in ids(store, 1000)


def test_batches_of_two_writers_may_overlap(store: FailingStore) -> None:
    publish(store, range(1, 251, 2))
    batches = {path: bytes(store.get(path)) for path in batch_paths(store)}
    for path in batches:
        store.delete(path)
    store.delete(f"{COMMITS_DIR}{51:020d}.json")
    batch_commit_records(store)
    for path, data in batches.items():
        store.put(path, [data])
    assert len(batch_paths(store)) == 2
    assert ids(store) == list(range(249, 0, -2))


def test_large_records_make_small_batches(store: FailingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(store, [1, 3])
    monkeypatch.setattr(records, "BATCH_BYTES", sum(meta.size for meta in store.list(COMMITS_DIR)))
    publish(store, range(5, 30, 2))
    assert len(batch_paths(store)) >= 5
    assert ids(store) == list(range(29, 0, -2))


@pytest.mark.parametrize("operation", ["list", "get", "create"])
def test_failures_to_write_a_batch_are_ignored(store: FailingStore, operation: str) -> None:
    publish(store, range(1, 201, 2))
    store.fail(operation, f"{COMMITS_DIR}*", nth=2, times=1000, error=InvalidRequestError("no permission"))  # type: ignore[arg-type]
    publish(store, [201])
    store.cues.clear()
    assert ids(store) == list(range(201, 0, -2))
    assert batch_paths(store) == []


def test_more_records_than_are_fetched_at_once(store: FailingStore) -> None:
    numbers = [number for number in range(2, 200) if number % 10 > 1]  # those that check for a batch are missing
    publish(store, numbers)
    assert not store.list(BATCHES_DIR)
    assert ids(store) == numbers[::-1]
    assert ids(store, 70) == numbers[:-71:-1]


@pytest.mark.parametrize("are_batched", [False, True], ids=["singles", "batches"])
def test_records_between_two_versions(store: FailingStore, are_batched: bool) -> None:
    publish(store, range(1, 601, 2))
    if are_batched:
        for number in range(1, 400, 2):
            store.delete(commit_path(number))
    for first, last in [(1, 1), (3, 8), (100, 110), (199, 201), (150, 450), (1, 601), (590, 700)]:
        wanted = {number: record(number) for number in range(1, 601, 2) if first <= number <= last}
        assert fetch_records_between(store, first, last) == wanted


def test_records_between_cost_no_more_than_they_need(store: FailingStore) -> None:
    publish(store, range(1, 601, 2))
    store.calls.clear()
    fetch_records_between(store, 101, 101)
    assert (requests(store, "get"), requests(store, "list")) == (1, 0)
    for number in range(1, 400, 2):
        store.delete(commit_path(number))
    store.calls.clear()
    fetch_records_between(store, 1, 199)
    assert [call.path for call in store.calls if call.operation == "get"] == batch_paths(store)[:1]
