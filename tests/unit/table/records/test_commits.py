from __future__ import annotations

import itertools
import json

import pytest

from slatespark.errors import CorruptDataError, InvalidRequestError, SlateError, UnavailableError
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.records.commit_batches import fetch_commit_object, list_commit_objects
from slatespark.table.records.commit_record import COMMITS_DIR, CommitRecord, merge_counts
from slatespark.table.records.commits import newest_commit_records, publish_commit_record
from slatespark.table.records.leases import delete_lease
from tests.support.failing_store import FailingStore

_names = itertools.count()


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore(f"records/{next(_names)}"))


def record(manifest_id: int) -> CommitRecord:
    return CommitRecord(
        manifest_id=manifest_id,
        operation="write",
        write_id="w",
        engine="slatespark",
        committed_ms=5,
        write_time_ms=4,
        first_seq=1,
        last_seq=None,
        rows={"put": 3},
        files={"id": {"min_seq": 1}},
        compactor_epoch=2,
    )


def test_commit_records_newest_first(store: FailingStore) -> None:
    for number in (3, 20, 100):
        publish_commit_record(store, record(number))
    assert list(newest_commit_records(store)) == [record(100), record(20), record(3)]
    assert list(newest_commit_records(store, 1)) == [record(100)]
    assert list(newest_commit_records(store, 0)) == []


def test_only_the_first_record_of_a_version_stays(store: FailingStore) -> None:
    publish_commit_record(store, record(1))
    publish_commit_record(store, CommitRecord(1, "other", "v", "e", 0, 0, None, None))
    assert list(newest_commit_records(store)) == [record(1)]


@pytest.mark.parametrize("error", [UnavailableError("down"), InvalidRequestError("no permission")])
def test_failures_to_write_a_record_or_lease_are_ignored(store: FailingStore, error: SlateError) -> None:
    """The commit has landed by then; an error would deny that."""
    store.fail("create", error=error).fail("delete", error=error)
    publish_commit_record(store, record(1))
    delete_lease(store, "w")
    assert list(newest_commit_records(store)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"manifest_id": None},
        {"operation": 5},
        {"files": []},
        {"engine": None},
        {"first_seq": "1"},
        {"last_seq": 1.5},
        {"removed": 5},
        {"replaced": 5},
        {"replaced": [5]},
        {"compactor_epoch": None},
        {"write_time_ms": "x"},
        {"committed_ms": 2**63},
        {"write_time_ms": -(2**63) - 1},
        {"end_seq": 2**64 + 1},
        {"start_seq": -1},
        {"fence": -1},
        {"rows": {"put": "x"}},
        {"rows": {"put": None}},
        {"rows": {"put": 2**70}},
    ],
)
def test_a_record_with_values_that_no_commit_has_is_damaged(store: FailingStore, change: dict[str, object]) -> None:
    publish_commit_record(store, record(1))
    path = f"{COMMITS_DIR}{1:020d}.json"
    content = json.loads(bytes(store.get(path)))
    del content["checksum"]
    store.put(path, [json.dumps({**content, **change}).encode()])
    with pytest.raises(CorruptDataError, match="record"):
        list(newest_commit_records(store))
    assert list(newest_commit_records(store, sound_only=True)) == []


@pytest.mark.parametrize("change", [{"committed_ms": 6}, {"rows": {}}, {"checksum": None}, {"more": 1}])
def test_a_record_that_does_not_match_its_checksum_is_damaged(store: FailingStore, change: dict[str, object]) -> None:
    publish_commit_record(store, record(1))
    path = f"{COMMITS_DIR}{1:020d}.json"
    store.put(path, [json.dumps({**json.loads(bytes(store.get(path))), **change}).encode()])
    with pytest.raises(CorruptDataError, match="checksum"):
        list(newest_commit_records(store))
    assert list(newest_commit_records(store, sound_only=True)) == []


def test_a_deeply_nested_record_is_damaged(store: FailingStore) -> None:
    path = f"{COMMITS_DIR}{1:020d}.json"
    for depth in range(900, 1000):
        store.put(path, [b'{"checksum":1,"rows":' + b"[" * depth + b"]" * depth + b"}"])
        assert list(newest_commit_records(store, sound_only=True)) == []


def test_order_and_spaces_do_not_change_a_record(store: FailingStore) -> None:
    publish_commit_record(store, record(1))
    path = f"{COMMITS_DIR}{1:020d}.json"
    content = json.loads(bytes(store.get(path)))
    store.put(path, [json.dumps(dict(reversed(content.items())), indent=1).encode()])
    assert list(newest_commit_records(store)) == [record(1)]


def test_a_record_of_an_old_release_has_no_checksum(store: FailingStore) -> None:
    publish_commit_record(store, record(1))
    path = f"{COMMITS_DIR}{1:020d}.json"
    content = json.loads(bytes(store.get(path)))
    del content["checksum"]
    store.put(path, [json.dumps(content).encode()])
    assert list(newest_commit_records(store)) == [record(1)]
    [meta] = list_commit_objects(store)
    assert fetch_commit_object(store, meta.path) == [record(1)]
    assert fetch_commit_object(store, meta.path, checked_only=True) == []


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_record_is_named(store: FailingStore, content: bytes) -> None:
    publish_commit_record(store, record(1))
    store.put("slatespark/commits/00000000000000000001.json", [content])
    with pytest.raises(CorruptDataError, match=r"slatespark/commits/0{19}1\.json"):
        list(newest_commit_records(store))


def test_counts() -> None:
    assert merge_counts([]) == {}
    assert merge_counts([{"put": 1, "delete": 2}, {"put": 3}]) == {"delete": 2, "put": 4}
