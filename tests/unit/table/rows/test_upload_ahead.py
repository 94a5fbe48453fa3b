"""Files of a load are uploaded while the next ones are built, where the store has network latency."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pytest

from slatespark.errors import UnavailableError
from slatespark.format.row import Row, rows_to_columns
from slatespark.options import WriteOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from tests.support.fake_clock import FakeClock

WAIT_S = 30.0
OPTIONS = WriteOptions(path="unused", sst_bytes=2000)
PIECES = 16  # each less than half a file
FILES = 4  # at least

_numbers = count()


class WatchedStore(MemoryStore):
    """A store that waits in its first upload until the next file is being built, and may fail in one.

    Parameters
    ----------
    is_remote : what it says of itself
    fails_at : the upload that fails, from 1; 0 for none
    """

    def __init__(self, *, is_remote: bool, fails_at: int = 0) -> None:
        super().__init__(f"upload-ahead-{next(_numbers)}")
        self._is_remote, self._fails_at = is_remote, fails_at
        self.built = threading.Event()
        self.begun = self.under_way = self.most = 0
        self.threads: set[int] = set()

    @property
    def is_remote(self) -> bool:
        """As given."""
        return self._is_remote

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store an object, as late as it can be."""
        self.begun += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.threads.add(threading.get_ident())
        if self._is_remote and self.begun == 1:
            assert self.built.wait(WAIT_S), "the next file was not built meanwhile"
        self.under_way -= 1
        if self.begun == self._fails_at:
            raise UnavailableError(f"{path}: no answer.")
        super().put(path, parts)


def pieces(store: WatchedStore, number_of: int = PIECES) -> Iterator[SortedRows]:
    for number in range(number_of):
        if number == 5:  # the first file is full, and the second one is not
            store.built.set()
        rows = rows_to_columns([Row(b"%02d/%02d" % (number, at), 1, value=b"v" * 40) for at in range(10)])
        yield SortedRows([rows], np.arange(10, dtype=np.int64))
    store.built.set()


def upload(store: WatchedStore) -> tuple[NewFile, ...]:
    return upload_sorted(store, pieces(store), OPTIONS, FakeClock(1000), 1000, runs_ahead=True)


def test_a_file_is_uploaded_while_the_next_one_is_built() -> None:
    store = WatchedStore(is_remote=True)
    files = upload(store)
    assert len(files) >= FILES
    firsts = [file.handle.info.first_entry for file in files]
    assert firsts == sorted(filter(None, firsts))
    assert store.most == 1, "no two at a time: memory holds one more file, and not two"
    assert {meta.path for meta in store.list("compacted/")} == {f"compacted/{file.handle.id}.sst" for file in files}


def test_the_same_files_without_latency_come_from_one_thread() -> None:
    store, other = WatchedStore(is_remote=False), WatchedStore(is_remote=True)
    here, there = upload(store), upload(other)
    assert store.threads == {threading.get_ident()}
    assert [(file.size, file.handle.info) for file in here] == [(file.size, file.handle.info) for file in there]


def test_a_single_file_needs_no_thread() -> None:
    store = WatchedStore(is_remote=True)
    store.built.set()
    [_] = upload_sorted(store, pieces(store, 1), WriteOptions(path="unused"), FakeClock(1000), 1000, runs_ahead=True)
    assert store.threads == {threading.get_ident()}


@pytest.mark.parametrize("fails_at", range(1, FILES + 1))
def test_an_upload_that_fails_ends_the_load(fails_at: int) -> None:
    store = WatchedStore(is_remote=True, fails_at=fails_at)
    with pytest.raises(UnavailableError):
        upload(store)
    assert store.begun == fails_at, "nothing is uploaded after it"
    assert store.under_way == 0


def test_rows_that_fail_end_the_load_once_the_upload_under_way_has_ended() -> None:
    store = WatchedStore(is_remote=True)

    def failing() -> Iterator[SortedRows]:
        for number, piece in enumerate(pieces(store)):
            if number == 6:
                raise RuntimeError("no more rows")
            yield piece

    with pytest.raises(RuntimeError):
        upload_sorted(store, failing(), OPTIONS, FakeClock(1000), 1000, runs_ahead=True)
    assert store.under_way == 0
    assert len(store.list("compacted/")) == store.begun
