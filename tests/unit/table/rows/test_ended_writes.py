"""Writes on several threads that end early: the others end soon, the error is the right one, and no thread is left."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore, UnavailableError
from slatespark.table.rows import spill, sst_upload, task_sorter

NAMES = iter(range(1000))


def new_store() -> SlateStore:
    return SlateStore.create(f"memory://ended-writes-{next(NAMES)}")


def rows(*, ordered: bool) -> pa.Table:
    numbers = np.arange(40_000) if ordered else np.random.default_rng(5).permutation(40_000)
    return pa.table({"key": [b"%06d" % number for number in numbers], "value": [b"v" * 100] * len(numbers)})


def failing_at(key: bytes, error: BaseException, started: list[str]) -> Any:
    """An upload that fails for files from a key on, once another thread is at work too."""
    upload, both = sst_upload._Uploads._upload, threading.Barrier(2, timeout=60)
    met = threading.local()

    def failing(self: Any, built: Any, sst_id: Any) -> Any:
        if not hasattr(met, "once") and threading.current_thread() is not threading.main_thread():
            met.once = True
            both.wait()
        started.append(threading.current_thread().name)
        if (built.info.first_entry or b"") >= key:
            raise error
        return upload(self, built, sst_id)

    return failing


@pytest.mark.parametrize("key", [b"", b"020500"], ids=["either part", "the second part"])
def test_a_part_that_fails_ends_the_others(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(spill, "PART_BYTES", 1)
    monkeypatch.setattr(sst_upload._Uploads, "_upload", failing_at(key, UnavailableError("down"), started))
    with pytest.raises(UnavailableError, match="down"):
        new_store().write(rows(ordered=False), parallelism=2, sstSize="32kb", writeBuffer="1mb")
    assert len(set(started)) == 2
    assert len(started) < 50  # of some 140; the other part stops at its next window


def test_an_interrupt_ends_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(spill, "PART_BYTES", 1)
    monkeypatch.setattr(sst_upload._Uploads, "_upload", failing_at(b"", KeyboardInterrupt(), started))
    with pytest.raises(KeyboardInterrupt):
        new_store().write(rows(ordered=False), parallelism=2, sstSize="32kb", writeBuffer="1mb")
    assert len(started) < 50


def test_a_sorted_write_that_fails_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())

    def failing(*_: Any) -> Any:
        raise UnavailableError("down")

    monkeypatch.setattr(sst_upload._Uploads, "_upload", failing)
    with pytest.raises(UnavailableError, match="down"):
        new_store().write(rows(ordered=True), parallelism=3, sstSize="32kb", writeBuffer="256kb")
    assert set(threading.enumerate()) <= before


def test_beside_a_client_one_thread_sorts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rows are not merged before their upload: the cores are the client's."""
    used: set[str] = set()
    sort = task_sorter._sort_chunk

    def noted(*arguments: Any, **named: Any) -> Any:
        used.add(threading.current_thread().name)
        return sort(*arguments, **named)

    monkeypatch.setattr(task_sorter, "_sort_chunk", noted)
    store = new_store()
    store.write(rows(ordered=True))
    used.clear()
    options = {"writeBuffer": "256kb", "throughputMBPerSec": "1000", "clientTimeout": "1s"}
    with pytest.raises(CommitConflictError):  # no client is there
        store.write(rows(ordered=False), parallelism=3, ifClientActive="cooperate", **options)
    assert used == {threading.main_thread().name}
