"""A forked child uses what a thread of its parent was changing, and never waits for that thread."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.fork_lock import fork_lock
from slatespark.storage.local_store import LocalStore
from slatespark.storage.mapped_files import MappedFiles
from slatespark.table import clock
from slatespark.table.log import manifests
from slatespark.table.read import arrow, fetch

PATIENCE_S = 60.0

# A forked child warns that the parent has threads; that is the very case that is tried.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def ends_in_child(work: Callable[[], object]) -> bool:
    """Tell whether a forked child does some work, instead of waiting for ever."""
    child = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    child.start()
    child.join(PATIENCE_S)
    has_ended = child.exitcode == 0
    child.kill()
    child.join()
    return has_ended


def forked_while_held(lock: threading.Lock, work: Callable[[], object]) -> bool:
    """Tell whether a child does some work that was forked while another thread held a lock."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    taken.wait()
    try:
        return ends_in_child(work)
    finally:
        done.set()
        holder.join()


def test_a_lock_is_free_in_a_child_and_held_in_the_parent() -> None:
    lock = fork_lock()

    def take() -> None:
        assert lock.acquire(blocking=False)
        assert not lock.acquire(blocking=False)

    assert forked_while_held(lock, take)
    with lock:
        assert lock.locked()
    assert not lock.locked()


@pytest.mark.parametrize(
    "lock",
    [fetch.indexes.budget.lock, manifests._known_lock, clock._read_until._lock],
    ids=["indexes and filters", "manifests", "clock"],
)
def test_a_child_reads_a_table_while_a_thread_of_the_parent_does(lock: threading.Lock, tmp_path: Path) -> None:
    table = SlateStore.create(tmp_path / "t")
    table.write(pa.table({"key": [b"a"], "value": [b"1"]}))

    def read() -> None:
        assert table.get(b"a") is not None
        assert table.scan().read_all().num_rows == 1

    assert forked_while_held(lock, read)


def test_a_child_maps_files_and_keeps_the_maps_of_its_parent(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    data = bytes(1 << 20)
    store.put("x", [data])
    view = store.get("x")
    assert isinstance(view, memoryview)

    def read() -> None:
        again = store.get("x")
        assert isinstance(again, memoryview)
        assert again.obj is view.obj
        assert again == data

    maps: MappedFiles = store._maps
    assert forked_while_held(maps._lock, read)


def test_a_projection_has_no_lock() -> None:
    assert not hasattr(arrow, "cached_property")
    assert not hasattr(arrow.Projection(("_key",)), "__dict__")
