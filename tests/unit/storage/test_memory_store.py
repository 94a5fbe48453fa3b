from __future__ import annotations

import itertools

import pytest

from slatespark.storage import open_store
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from tests.support.store_contract import StoreContract

_names = itertools.count()


class TestMemoryStore(StoreContract):
    names_are_flat = True

    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore(f"bucket-{next(_names)}")


class TestMemoryStoreBelowAPath(StoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore(f"bucket-{next(_names)}/some/root")


def test_stores_with_one_name_share_objects() -> None:
    open_store("memory://shared/a").put("x", [b"1"])
    assert open_store("memory://shared").get("a/x") == b"1"
    assert [meta.path for meta in open_store("memory://shared/a/").list("")] == ["x"]
    assert open_store("memory://shared/b").list("") == []


def test_the_clock_of_a_bucket_can_be_set() -> None:
    MemoryStore("clocked", clock_ms=lambda: 7)
    store = open_store("memory://clocked")
    store.create("x", b"")
    assert store.head("x").modified_ms == 7


def test_an_object_that_replaces_another_has_a_time_of_its_own() -> None:
    store = MemoryStore("replaced", clock_ms=lambda: 7)
    store.create("object", b"some")
    seen = store.head("object")
    store.put("object", [b"same"])
    assert store.list("") != [seen]
    assert store.list("") == [store.head("object")]
