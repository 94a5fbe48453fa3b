from __future__ import annotations

import itertools

import pytest

from slatespark.errors import (
    CommitConflictError,
    CorruptDataError,
    InvalidRequestError,
    SnapshotExpiredError,
    UnavailableError,
)
from slatespark.format.paths import MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.numbered_log import NumberedLog
from tests.support.failing_store import FailingStore, Operation
from tests.support.fake_clock import FakeClock

_names = itertools.count()
BOUNDARY = "gc/manifest.boundary"


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore(f"numbered-log/{next(_names)}"))


@pytest.fixture
def log(store: FailingStore) -> NumberedLog:
    return NumberedLog(store, MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, "manifest")


def test_an_empty_log(log: NumberedLog) -> None:
    assert (log.numbers(), log.latest(), log.has(1)) == ([], None, False)
    with pytest.raises(SnapshotExpiredError, match=r"manifest/00000000000000000001.manifest"):
        log.get(1)


def test_versions_are_in_numeric_order(log: NumberedLog) -> None:
    for number in (9, 10, 11, 2):
        log.create(number, b"%d" % number)
    assert log.numbers() == [2, 9, 10, 11]
    assert log.latest() == (11, b"11")
    assert (log.get(9), log.has(9), log.has(3)) == (b"9", True, False)


def test_other_names_are_ignored(log: NumberedLog, store: FailingStore) -> None:
    for name in ("5.manifest.tmp", "x.manifest", "00000000000000000007.sst", "README", "-1.manifest"):
        store.put(MANIFEST_DIR + name, [b"?"])
    log.create(1, b"1")
    assert log.numbers() == [1]


def test_a_lost_race(log: NumberedLog) -> None:
    log.create(1, b"theirs")
    with pytest.raises(FileExistsError):
        log.create(1, b"ours")
    assert log.latest() == (1, b"theirs")


@pytest.mark.parametrize(("operation", "path"), [("get", BOUNDARY), ("create", manifest_path(1))])
def test_an_error_after_a_creation_leaves_the_outcome_unknown(
    log: NumberedLog, store: FailingStore, operation: Operation, path: str
) -> None:
    denied = InvalidRequestError("Cannot read it.", why="403")
    store.fail(operation, path, moment="after" if operation == "create" else "before", error=denied)
    with pytest.raises(UnavailableError, match="known") as caught:
        log.create(1, b"1")
    assert caught.value.__cause__ is denied
    assert log.latest() == (1, b"1")


def test_an_error_before_a_creation_is_raised_unchanged(log: NumberedLog, store: FailingStore) -> None:
    store.fail("create", error=InvalidRequestError("Cannot create it.", why="403"))
    with pytest.raises(InvalidRequestError, match="403"):
        log.create(1, b"1")
    store.fail("create", error=InvalidRequestError("Cannot create it.", why="403")).fail("head")
    with pytest.raises(UnavailableError, match="known"):
        log.create(1, b"1")
    assert log.latest() is None


def test_versions_up_to_the_boundary_are_dead(log: NumberedLog, store: FailingStore) -> None:
    for number in (1, 2, 3):
        log.create(number, b"%d" % number)
    store.put(BOUNDARY, [b"2"])
    assert log.numbers() == [3]
    store.put(BOUNDARY, [b"7"])
    assert log.latest() is None
    with pytest.raises(FileExistsError):  # the id had been used, and collected, before
        log.create(7, b"late")
    log.create(8, b"8")
    assert log.latest() == (8, b"8")


def test_a_listing_older_than_the_boundary_is_repeated(log: NumberedLog, store: FailingStore) -> None:
    """All listed versions are dead when the boundary is read; a newer version exists then."""
    log.create(1, b"1")

    def collect() -> None:
        log.create(2, b"2")
        store.put(BOUNDARY, [b"1"])
        store.delete(manifest_path(1))

    store.run(collect, "list", moment="after")
    assert log.latest() == (2, b"2")


@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1.5", b"9" * 30])
def test_a_damaged_boundary_is_refused(log: NumberedLog, store: FailingStore, content: bytes) -> None:
    log.create(1, b"1")
    store.put(BOUNDARY, [content])
    with pytest.raises(CorruptDataError, match=BOUNDARY):
        log.latest()


def test_a_version_collected_between_list_and_read(log: NumberedLog, store: FailingStore) -> None:
    log.create(1, b"1")

    def collect() -> None:
        log.create(2, b"2")
        store.delete(manifest_path(1))

    store.run(collect, "get", manifest_path(1))
    assert log.latest() == (2, b"2")


def test_a_newest_version_that_keeps_disappearing(log: NumberedLog, store: FailingStore) -> None:
    log.create(1, b"1")
    store.fail("get", manifest_path(1), times=100, error=FileNotFoundError())
    with pytest.raises(UnavailableError):
        log.latest()


def test_the_boundary_only_grows(log: NumberedLog, store: FailingStore) -> None:
    assert log.dead_up_to() == 0
    for wanted, reached in ((3, b"3"), (2, b"3"), (3, b"3"), (12, b"12")):
        log.raise_boundary(wanted, FakeClock(0))
        assert store.get(BOUNDARY) == reached


@pytest.mark.parametrize("theirs", [b"5", b"9"])
def test_a_concurrent_move_does_not_lower_the_boundary(theirs: bytes, log: NumberedLog, store: FailingStore) -> None:
    store.run(lambda: store.inner.put(BOUNDARY, [theirs]), "create", BOUNDARY)
    log.raise_boundary(7, FakeClock(0))
    assert store.get(BOUNDARY) == max(theirs, b"7")
    store.clear()
    store.run(lambda: store.inner.put(BOUNDARY, [b"20"]), "replace", BOUNDARY)
    log.raise_boundary(15, FakeClock(0))
    assert store.get(BOUNDARY) == b"20"


def test_a_boundary_that_others_keep_moving(log: NumberedLog, store: FailingStore) -> None:
    store.put(BOUNDARY, [b"1"])
    store.fail("replace", BOUNDARY, times=1000, error=FileExistsError())
    with pytest.raises(CommitConflictError):
        log.raise_boundary(2, FakeClock(0))
    assert store.get(BOUNDARY) == b"1"
