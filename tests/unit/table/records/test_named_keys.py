"""Records forget the intervals that name keys, and stay sound."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.ranges import ALL_KEYS, KeyRange, point_range
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.manifests import manifest_digest
from slatespark.table.records.claims import CLAIMS_DIR, fetch_claimed_removals, publish_claim
from slatespark.table.records.commit_batches import batch_commit_records, list_commit_objects
from slatespark.table.records.commit_record import BATCHES_DIR, CommitRecord, commit_path
from slatespark.table.records.commits import newest_commit_records, publish_commit_record
from slatespark.table.records.json_objects import encode_json, hex_bounds, with_checksum
from slatespark.table.records.named_keys import find_named, forget_keys
from tests.support.failing_store import FailingStore, Moment

_names = itertools.count()
AN, BOB, CYD = KeyRange(b"an", b"ao"), point_range(b"bob"), KeyRange(b"c", b"cyd")


def record(number: int, *replaced: KeyRange) -> CommitRecord:
    bounds = [hex_bounds(keys) for keys in replaced]
    return CommitRecord(number, "deleteRange", "0" * 16, "slatespark", 1, 1, None, None, replaced=bounds)


def new_store() -> MemoryStore:
    return MemoryStore(f"named-{next(_names)}")


def test_commits_and_their_batches() -> None:
    store = new_store()
    for number in range(1, 100):
        publish_commit_record(store, record(number, AN, BOB) if number == 7 else record(number, AN))
    publish_commit_record(store, record(100, CYD))
    batch_commit_records(store)
    assert len(list_commit_objects(store)) == 1
    keys = (point_range(b"bob"), point_range(b"cyd"))
    found = dict(find_named(store, keys))
    assert set(found.values()) == {b"bob", b"cyd"}
    assert forget_keys(store, keys) == len(found) == 4, "two single records, a small and a large batch"
    assert list(find_named(store, keys)) == []
    records = {each.manifest_id: list(each.replaced) for each in newest_commit_records(store)}
    assert records == {number: [hex_bounds(AN)] for number in range(1, 100)} | {100: []}


def test_a_claim_then_covers_every_key() -> None:
    store = new_store()
    publish_claim(store, 3, "0" * 16, 0, b"manifest", removes=[BOB, CYD])
    publish_claim(store, 4, "0" * 16, 0, b"other", removes=[CYD])
    assert forget_keys(store, [BOB]) == 1
    removed = fetch_claimed_removals(store, 3, 4)
    assert removed == {manifest_digest(b"manifest"): (ALL_KEYS,), manifest_digest(b"other"): (CYD,)}


def test_two_erasures_at_a_time_bring_no_key_back() -> None:
    store = new_store()
    publish_commit_record(store, record(7, AN, BOB, CYD))
    slower = FailingStore(store).run(lambda: forget_keys(store, [BOB]), "get", "slatespark/commits/*", moment="after")
    assert forget_keys(slower, [point_range(b"cyd")]) == 1
    assert list(find_named(store, [BOB, point_range(b"cyd")])) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_batch_beside_an_erasure_brings_no_key_back(moment: Moment) -> None:
    """It holds what its author read of the records before the erasure rewrote them."""
    store = new_store()
    for number in range(1, 10):
        publish_commit_record(store, record(number, BOB) if number == 7 else record(number, AN))
    store.create(commit_path(10), encode_json(with_checksum(asdict(record(10, AN)))))
    slower = FailingStore(store).run(lambda: forget_keys(store, [BOB]), "create", "*/batches/*", moment=moment)
    batch_commit_records(slower)
    assert list(find_named(store, [BOB])) == []
    batch_commit_records(store)
    assert len(store.list(BATCHES_DIR)) == 1
    assert list(find_named(store, [BOB])) == []


def test_a_batch_beside_an_erasure_stays_where_others_follow_it() -> None:
    """Of records below the newest batch, most readers see only those that are in one."""
    store = new_store()
    for number in range(1, 201):
        named = record(number, *([BOB, CYD] if number == 7 else [AN]))
        store.create(commit_path(number), encode_json(with_checksum(asdict(named))))
    slower = FailingStore(store)
    slower.run(lambda: forget_keys(store, [BOB]), "create", "*/batches/*")
    slower.run(lambda: forget_keys(store, [point_range(b"cyd")]), "replace", "*/batches/*")  # which has found the batch
    batch_commit_records(slower)
    assert list(find_named(store, [BOB, point_range(b"cyd")])) == []
    assert [each.manifest_id for each in newest_commit_records(store, 200)] == [*range(200, 0, -1)]


def test_a_batch_that_an_erasure_has_not_listed_is_forgotten_too() -> None:
    store = new_store()
    for number in range(1, 10):
        publish_commit_record(store, record(number, BOB) if number == 7 else record(number, AN))
    store.create(commit_path(10), encode_json(with_checksum(asdict(record(10, AN)))))
    slower = FailingStore(store).run(lambda: batch_commit_records(store), "list", "slatespark/commits/", moment="after")
    forget_keys(slower, [BOB])
    assert list(find_named(store, [BOB])) == []


def test_a_record_that_goes_meanwhile_names_nothing() -> None:
    store = new_store()
    publish_commit_record(store, record(7, BOB))
    slower = FailingStore(store).run(
        lambda: store.delete(commit_path(7)), "get", "slatespark/commits/*", moment="after"
    )
    assert forget_keys(slower, [BOB]) == 0
    assert store.list("slatespark/commits/") == []


def test_damaged_records_are_told_and_left() -> None:
    store = new_store()
    store.put(f"{CLAIMS_DIR}00000000000000000003-x.json", [b"no JSON"])
    store.put(
        "slatespark/commits/00000000000000000003.json", [b'{"replaced": [["zz"], 7, [null, "00"]], "commits": 1}']
    )
    assert list(find_named(store, [BOB])) == [(f"{CLAIMS_DIR}00000000000000000003-x.json", None)]
    assert forget_keys(store, [BOB]) == 0


def test_a_record_without_checksum_gets_none() -> None:
    """As those of old releases."""
    store = new_store()
    path = "slatespark/commits/00000000000000000003.json"
    store.put(path, [b'{"manifest_id":3,"replaced":[["626f62","626f6200"]]}'])
    assert forget_keys(store, [BOB]) == 1
    assert bytes(store.get(path)) == b'{"forgotten":true,"manifest_id":3,"replaced":[]}'


def test_the_timeline_goes_without_the_interval() -> None:
    store = SlateStore.create(f"memory://named-{next(_names)}", autoCompact=False)
    store.write(pa.table({"key": [b"an", b"cyd"], "value": [b"", b""]}))
    store.deleteRange(keyPrefix=b"c")
    store.deleteRange(keyPrefix=b"a")
    forget_keys(store._stores.main, [KeyRange(b"c", b"d")])
    assert [(item.start, item.end) for item in store.timeline().replacements] == [(b"a", b"b")]
