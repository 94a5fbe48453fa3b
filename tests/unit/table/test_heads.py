"""A log that remembers its newest version answers as one that has seen nothing, with fewer requests."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.paths import MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path
from slatespark.storage.counted_store import CountedStore, RequestTally
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectMeta, tag_of
from slatespark.storage.requests import Requests
from slatespark.table.heads import Head, Heads
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.read.held_tail import HeldTail
from tests.support.fake_clock import FakeClock

_names = itertools.count()


class RemoteMemoryStore(MemoryStore):
    """Listings show one instant, as those of a remote store."""

    @property
    def is_remote(self) -> bool:
        """True."""
        return True


@pytest.fixture
def name() -> str:
    return f"heads/{next(_names)}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def _log(name: str, clock: FakeClock, tally: RequestTally | None = None) -> NumberedLog:
    store = RemoteMemoryStore(name, clock.now_ms)
    counted = CountedStore(store, tally or RequestTally())
    return NumberedLog(counted, MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, "manifest")


def test_a_second_look_is_one_listing_from_there(name: str, clock: FakeClock) -> None:
    tally = RequestTally()
    log = _log(name, clock, tally)
    for number in range(1, 1200):
        log.store.put(manifest_path(number), [b"%d" % number])
    assert log.latest() == (1199, b"1199")
    before = tally.total
    assert log.latest() == (1199, b"1199")
    assert tally.total - before == Requests(list=1)


def test_a_later_version_is_read_once(name: str, clock: FakeClock) -> None:
    tally = RequestTally()
    log, other = _log(name, clock, tally), _log(name, clock)
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    for number in (2, 3):
        other.create(number, b"%d" % number)
    before = tally.total
    assert [log.latest(), log.latest()] == [(3, b"3")] * 2
    assert tally.total - before == Requests(list=2, get=1, read_bytes=1)


def test_the_version_that_was_seen_was_collected(name: str, clock: FakeClock) -> None:
    log, other = _log(name, clock), _log(name, clock)
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    other.create(2, b"2")
    other.raise_boundary(1, clock)
    other.store.delete(manifest_path(1))
    assert log.latest() == (2, b"2")


@pytest.mark.parametrize("versions", [1, 2, 3, 4])
def test_another_table_in_the_same_place(name: str, clock: FakeClock, versions: int) -> None:
    log, other = _log(name, clock), _log(name, clock)
    for number in (1, 2, 3):
        log.create(number, b"old%d" % number)
    assert log.latest() == (3, b"old3")
    for number in (1, 2, 3):
        other.store.delete(manifest_path(number))
    clock.advance(1)
    for number in range(1, versions + 1):
        other.create(number, b"new%d" % number)
    assert log.latest() == (versions, b"new%d" % versions)


class TaggingStore(RemoteMemoryStore):
    """Listings tell contents apart, as those of a server do by ETags, and times in seconds."""

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects of a folder."""
        found = super().list(prefix, start_after)
        return [replace(each, modified_ms=0, tag=tag_of(bytes(self.get(each.path)))) for each in found]


def test_another_table_in_the_same_place_within_a_second(name: str, clock: FakeClock) -> None:
    store = TaggingStore(name, clock.now_ms)
    log = NumberedLog(store, MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, "manifest")
    for content in (b"old", b"new"):
        store.put(manifest_path(1), [content])
        assert [log.latest(), log.latest()] == [(1, content)] * 2


def test_nothing_is_left(name: str, clock: FakeClock) -> None:
    log = _log(name, clock)
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    log.store.delete(manifest_path(1))
    assert log.latest() is None
    assert log.heads.newest(log.store.url, log.folder) is None


def test_what_is_created_while_nothing_is_found_is_not_forgotten(name: str, clock: FakeClock) -> None:
    log = _log(name, clock)
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    before = log.heads.newest(log.store.url, log.folder)
    log.create(2, b"2")
    log.heads.forget(log.store.url, log.folder, before)
    assert log.heads.newest(log.store.url, log.folder) == (2, b"2")


class SlowListing(MemoryStore):
    """The first listing after `begin` shows what was there then."""

    _begun: list[ObjectMeta] | None = None

    def begin(self) -> None:
        """Start a listing that takes until the next call of `list`."""
        self._begun = super().list(MANIFEST_DIR)

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return what was there when the listing began."""
        begun, self._begun = self._begun, None
        return super().list(prefix, start_after) if begun is None else begun


def test_a_listing_of_a_local_folder_that_is_older_than_the_boundary(name: str, clock: FakeClock) -> None:
    """A listing that takes a while may show a version that a checkpoint keeps, and none of those that come and go."""
    store = SlowListing(name, clock.now_ms)
    log = NumberedLog(store, MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, "manifest")
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    store.begin()
    log.create(2, b"2")
    log.raise_boundary(1, clock)
    assert log.latest() == (2, b"2")


_CREATE, _COLLECT, _START_ANEW, _LOOK = "create", "collect", "start anew", "look"
_ACTIONS = st.tuples(
    st.sampled_from([_CREATE] * 5 + [_COLLECT] * 2 + [_START_ANEW] + [_LOOK] * 4), st.integers(0, (1 << 16) - 1)
)


@given(st.lists(_ACTIONS, max_size=40))
def test_it_answers_as_a_log_that_has_seen_nothing(actions: list[tuple[str, int]]) -> None:
    name, clock = f"heads/{next(_names)}", FakeClock()
    log, other, newest = _log(name, clock), _log(name, clock), 0
    for action, bits in actions:
        clock.advance(1)
        if action == _CREATE:
            newest += 1
            other.create(newest, b"%d" % clock.now_ms())
        elif action == _COLLECT and newest > 1:
            dead = 1 + bits % (newest - 1)
            other.raise_boundary(dead, clock)
            for number in range(1, dead + 1):
                if bits >> number % 16 & 1:  # a checkpoint keeps the others
                    other.store.delete(manifest_path(number))
        elif action == _START_ANEW:
            for meta in other.store.list_below(""):
                other.store.delete(meta.path)
            newest = 0
        elif action == _LOOK:
            assert log.latest() == _log(name, clock).latest()


def test_another_process_starts_without() -> None:
    heads = pickle.loads(pickle.dumps(Heads()))
    assert heads.get("memory://x", MANIFEST_DIR) is None


def test_each_root_has_its_own(name: str, clock: FakeClock) -> None:
    """Versions of two tables may have equal names, sizes and times."""
    heads = Heads()
    logs = [
        NumberedLog(
            MemoryStore(f"{name}/{table}", clock.now_ms), MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, None, heads
        )
        for table in "ab"
    ]
    for data, log in zip((b"a", b"b"), logs, strict=True):
        log.create(1, data)
    assert [log.latest() for log in logs] == [(1, b"a"), (1, b"b")]
    assert [log.latest() for log in logs] == [(1, b"a"), (1, b"b")]


def _head(number: int, modified_ms: int = 1) -> Head:
    return Head(number, ObjectMeta(manifest_path(number), 3, modified_ms), b"abc")


def test_own_commits_are_forgotten_with_their_table() -> None:
    heads = Heads()
    assert heads.own_commit("u", MANIFEST_DIR) == (0, (0, 0))
    heads.put_own_commit("u", MANIFEST_DIR, 4, (2, 3))
    heads.put("u", MANIFEST_DIR, _head(5), follows=True)
    heads.put("u", "other/", _head(1), follows=False)
    assert heads.own_commit("u", MANIFEST_DIR) == (4, (2, 3))
    heads.put("u", MANIFEST_DIR, _head(6), follows=False)
    assert heads.own_commit("u", MANIFEST_DIR) == (0, (0, 0))


def test_a_version_of_our_own_is_not_read_again(name: str, clock: FakeClock) -> None:
    tally = RequestTally()
    log = _log(name, clock, tally)
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    log.create(2, b"2")
    before = tally.total
    assert log.latest() == (2, b"2")
    assert tally.total - before == Requests(list=1)


def test_a_version_of_another_table_is_not_taken_for_our_own(name: str, clock: FakeClock) -> None:
    log, other = _log(name, clock), _log(name, clock)
    log.create(1, b"1")
    assert log.latest() == (1, b"1")
    log.create(2, b"2")
    for number in (1, 2):
        other.store.delete(manifest_path(number))
    clock.advance(1)
    for number in (1, 2):
        other.create(number, b"%d" % (number + 5))
    assert log.latest() == (2, b"7")


def test_versions_of_our_own_are_forgotten_with_their_table() -> None:
    heads = Heads()
    heads.put("u", MANIFEST_DIR, _head(1), follows=True)
    heads.put_created("u", MANIFEST_DIR, 5, b"5")
    heads.put("u", MANIFEST_DIR, _head(2), follows=False)
    assert heads.created("u", MANIFEST_DIR, 5) is None
    assert heads.newest("u", MANIFEST_DIR) == (2, b"abc")


def test_the_newest_version_is_the_later_one_of_seen_and_created() -> None:
    heads = Heads()
    assert heads.newest("u", MANIFEST_DIR) is None
    heads.put_created("u", MANIFEST_DIR, 1, b"1")
    assert heads.newest("u", MANIFEST_DIR) == (1, b"1")
    heads.put("u", MANIFEST_DIR, _head(3), follows=False)
    assert heads.newest("u", MANIFEST_DIR) == (3, b"abc")
    heads.put_created("u", MANIFEST_DIR, 4, b"4")
    assert heads.newest("u", MANIFEST_DIR) == (4, b"4")
    assert heads.creations == 2
    assert heads.created("u", MANIFEST_DIR, 1) is None, "only the last one is known"


def test_rows_of_the_wal_are_forgotten_with_their_table() -> None:
    heads = Heads()
    heads.put("u", MANIFEST_DIR, _head(1), follows=False)
    heads.tail = tail = HeldTail(1, ((10, 5),), 0, ())
    heads.put("u", MANIFEST_DIR, _head(2), follows=True)
    assert heads.tail is tail
    heads.put("u", MANIFEST_DIR, _head(2, 7), follows=False)
    assert heads.tail is None
