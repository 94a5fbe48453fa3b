from __future__ import annotations

import multiprocessing
import pickle
import signal
from pathlib import Path

import pytest

from slatespark.errors import UnavailableError
from slatespark.ranges import ByteRange
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from tests.support.failing_store import Call, FailingStore
from tests.support.store_contract import StoreContract


class TestFailingStoreWithoutCue(StoreContract):
    race_rounds = 5

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FailingStore(LocalStore(tmp_path))


@pytest.fixture
def store() -> FailingStore:
    store = FailingStore(MemoryStore("failing"))
    for meta in store.list(""):
        store.delete(meta.path)
    store.clear()
    return store


def test_calls_are_counted(store: FailingStore) -> None:
    store.create("a", b"12345")
    store.get_ranges("a", [ByteRange(0, 2), ByteRange(3, 4)])
    store.copy("a", "b")
    assert store.calls == [Call("create", "a", 5), Call("get_ranges", "a", 3), Call("copy", "b")]
    assert (store.count(), store.count("create"), store.count("*", "b*"), store.count("put")) == (3, 1, 1, 0)


def test_failure_before_and_after(store: FailingStore) -> None:
    store.fail("create", "before").fail("create", "after", moment="after")
    for path in ("before", "after"):
        with pytest.raises(UnavailableError, match=path):
            store.create(path, b"1")
    assert [meta.path for meta in store.list("")] == ["after"]
    store.create("before", b"1")


def test_the_nth_call(store: FailingStore) -> None:
    store.fail("put", "wal/*", nth=2, times=2, error=ConnectionResetError())
    outcomes = []
    for path in ("wal/1", "other", "wal/2", "wal/3", "wal/4"):
        try:
            store.put(path, [b""])
            outcomes.append("done")
        except ConnectionResetError:
            outcomes.append("failed")
    assert outcomes == ["done", "done", "failed", "failed", "done"]


def test_another_writer_is_faster(store: FailingStore) -> None:
    store.run(lambda: store.inner.create("x", b"theirs"), "create", "x")
    with pytest.raises(FileExistsError):
        store.create("x", b"mine")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_death(tmp_path: Path) -> None:
    store = FailingStore(LocalStore(tmp_path)).die("create", "x", moment="after")
    child = multiprocessing.get_context("fork").Process(target=store.create, args=("x", b"1"))
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    assert store.get("x") == b"1"


def test_a_pickled_copy_does_not_fail(store: FailingStore) -> None:
    again = pickle.loads(pickle.dumps(store.fail("*")))
    assert again.list("") == []
    assert store.calls == []
