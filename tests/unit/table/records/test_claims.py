"""Claims: the digests by which our versions are known, and the keys that a commit takes away."""

from __future__ import annotations

import itertools

import pytest

from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.log.manifests import manifest_digest
from slatespark.table.records.claims import (
    CLAIMS_DIR,
    announced_version,
    fetch_claimed_removals,
    fetch_digests_between,
    find_claim,
    find_lost_claims,
    publish_claim,
)

_names = itertools.count()
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # the example of FIPS 180-4


@pytest.fixture(name="store")
def _store() -> ObjectStore:
    return MemoryStore(f"claims/{next(_names)}")


def test_claims_of_one_version(store: ObjectStore) -> None:
    for number, write_id, attempt, data in (
        (5, "a", 0, b"1"),
        (5, "b", 1, b"2"),
        (6, "a", 1, b"3"),
        (50, "a", 2, b"4"),
    ):
        publish_claim(store, number, write_id, attempt, data)
    found = [find_claim(store, 5, data) for data in (b"1", b"2", b"3")]
    assert [claim and claim.write_id for claim in found] == ["a", "b", None]
    assert find_claim(store, 6, b"3") is not None
    assert find_claim(store, 4, b"1") is None
    one, two, three = (manifest_digest(data) for data in (b"1", b"2", b"3"))
    assert fetch_digests_between(store, 1, 49) == {5: {one, two}, 6: {three}}
    assert fetch_digests_between(store, 6, 5) == {}


def test_the_version_that_a_claim_announces(store: ObjectStore) -> None:
    publish_claim(store, 5, "a", 0, b"1")
    (claim,) = store.list(CLAIMS_DIR)
    assert announced_version(claim.path) == 5
    assert announced_version(f"{CLAIMS_DIR}{7:020d}-other.json") == 7
    for name in ("worker-1.json", "7-a-0.json", f"{7:020d}-a-0", f"{2**64:020d}-a-0.json"):
        assert announced_version(f"{CLAIMS_DIR}{name}") is None, name


def test_those_that_lost_their_last_claim(store: ObjectStore) -> None:
    for number, write_id, attempt in (
        (5, "own1", 0),
        (5, "lost", 0),
        (7, "own2", 3),
        (7, "lost", 1),
        (7, "came", 0),
        (9, "came", 1),  # nobody of `won` claimed this version
        (11, "own3", 0),
        (11, "quick", 0),
        (13, "later", 0),
    ):
        publish_claim(store, number, write_id, attempt, b"")
    store.put(f"{CLAIMS_DIR}{7:020d}-damaged.json", [b"{}"])
    store.put(f"{CLAIMS_DIR}worker-1.json", [b"{}"])
    won = {5: "own1", 7: "own2", 11: "own3"}
    assert find_lost_claims(store, won) == {"lost": 2, "quick": 1}
    assert find_lost_claims(store, {1: "own0"}) == {}


def test_the_digest_is_on_disk() -> None:
    assert manifest_digest(b"abc") == ABC


def test_removed_keys_of_some_versions(store: ObjectStore) -> None:
    removes = [KeyRange(b"", b"\x00"), KeyRange(b"b")]
    for number in range(3, 8):
        publish_claim(store, number, "a", 0, b"%d" % number, removes=removes if number == 5 else ())
    publish_claim(store, 5, "b", 0, b"other", removes=[ALL_KEYS])
    assert fetch_claimed_removals(store, 4, 6) == {
        manifest_digest(b"4"): (),
        manifest_digest(b"5"): tuple(removes),
        manifest_digest(b"other"): (ALL_KEYS,),
        manifest_digest(b"6"): (),
    }
    assert fetch_claimed_removals(store, 8, 99) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"sha256": "x"}',
        b'{"sha256": "x", "removes": [["zz", null]]}',
        b'{"sha256": "x", "removes": [["00"]]}',
        b'{"sha256": "x", "removes": 5}',
    ],
)
def test_a_damaged_claim_is_as_good_as_none(store: ObjectStore, content: bytes) -> None:
    """Then the commit counts as one that may have removed any key."""
    store.put(f"{CLAIMS_DIR}{5:020d}-a-0.json", [content])
    publish_claim(store, 6, "a", 0, b"abc")
    assert fetch_claimed_removals(store, 5, 6) == {ABC: ()}


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}"])
def test_a_damaged_claim_hides_no_sound_one(store: ObjectStore, content: bytes) -> None:
    store.put(f"{CLAIMS_DIR}{5:020d}-a-0.json", [content])
    publish_claim(store, 5, "b", 0, b"abc")
    assert find_claim(store, 5, b"abc") is not None
    assert ABC in fetch_digests_between(store, 5, 5)[5]
