"""A store that counts passes everything on; that it counts as S3 bills is shown with a server in `test_s3_store`."""

from __future__ import annotations

import itertools

import pytest

from slatespark.ranges import ByteRange
from slatespark.storage.counted_store import CountedStore, RequestTally
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.storage.requests import Requests, list_requests
from tests.support.store_contract import StoreContract

_names = itertools.count()


def new_store(tally: RequestTally) -> CountedStore:
    return CountedStore(MemoryStore(f"counted-{next(_names)}"), tally)


class TestCountedStore(StoreContract):
    names_are_flat = True

    @pytest.fixture
    def store(self) -> ObjectStore:
        return new_store(RequestTally())


def test_bytes_are_those_that_are_moved() -> None:
    tally = RequestTally()
    store = new_store(tally)
    store.put("a", [b"123", b"45"])
    store.create("b", b"678")
    assert tally.total == Requests(put=2, written_bytes=8)
    store.get("a")
    assert store.get_ranges("a", [ByteRange(0, 1), ByteRange(3, 5)]) == [b"1", b"45"]
    assert tally.total == Requests(get=2, put=2, read_bytes=10, written_bytes=8)  # the gap is read too
    store.replace("b", b"9", b"678")
    assert tally.total == Requests(get=4, put=3, read_bytes=13, written_bytes=9)


def test_what_finds_nothing_is_a_request_too() -> None:
    tally = RequestTally()
    store = new_store(tally)
    for call in (store.get, store.head, store.delete):
        if call == store.delete:
            call("nothing")
        else:
            with pytest.raises(FileNotFoundError):
                call("nothing")
    store.create("a", b"1")
    with pytest.raises(FileExistsError):
        store.create("a", b"2")
    assert tally.total == Requests(get=3, put=2, delete=1, written_bytes=2)


def test_sums_and_order() -> None:
    few, more = Requests(get=1, list=2, read_bytes=10), Requests(get=1, list=3, delete=1, read_bytes=20)
    assert few + more == Requests(get=2, list=5, delete=1, read_bytes=30)
    assert more - few == Requests(list=1, delete=1, read_bytes=10)
    assert (few <= more, more <= few, more.count) == (True, False, 5)
    assert [list_requests(objects) for objects in (0, 1, 1000, 1001)] == [1, 1, 1, 2]
