"""Caches of sections: one bound for all that share it, and the least recently used goes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from slatespark.errors import OptionError
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.read.section_cache import METADATA_BYTES, VARIABLE, CacheBudget, SectionCache, metadata_limit
from tests.unit.test_fork_lock import forked_while_held

STORE = MemoryStore("sections")


def caches(limit_bytes: int) -> tuple[SectionCache[str], SectionCache[bytes]]:
    budget = CacheBudget(lambda: limit_bytes)
    return SectionCache[str](budget, len), SectionCache[bytes](budget, len)


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    metadata_limit.cache_clear()
    yield
    metadata_limit.cache_clear()


def test_caches_share_a_bound_and_drop_what_was_used_longest_ago() -> None:
    texts, data = caches(10)
    texts.get(STORE, "a", lambda: "aaaa")
    data.get(STORE, "a", lambda: b"AAAA")
    texts.get(STORE, "a", lambda: pytest.fail("it is held"))
    data.get(STORE, "b", lambda: b"BB")
    assert (texts.peek(STORE, "a"), data.peek(STORE, "a"), data.peek(STORE, "b")) == ("aaaa", b"AAAA", b"BB")
    data.get(STORE, "c", lambda: b"C")
    assert (texts.peek(STORE, "a"), data.peek(STORE, "a"), data.peek(STORE, "b")) == ("aaaa", None, b"BB")


def test_an_entry_above_the_bound_is_held_alone() -> None:
    texts, data = caches(10)
    texts.get(STORE, "a", lambda: "a")
    data.get(STORE, "a", lambda: bytes(11))
    assert (texts.peek(STORE, "a"), data.peek(STORE, "a")) == (None, bytes(11))
    texts.get(STORE, "a", lambda: "a")
    assert (texts.peek(STORE, "a"), data.peek(STORE, "a")) == ("a", None)


def test_clearing_one_cache_leaves_the_other_and_frees_its_share() -> None:
    texts, data = caches(10)
    texts.get(STORE, "a", lambda: "a" * 8)
    data.get(STORE, "a", lambda: b"A")
    texts.clear()
    assert (texts.peek(STORE, "a"), data.peek(STORE, "a")) == (None, b"A")
    data.get(STORE, "b", lambda: bytes(9))
    assert data.peek(STORE, "a") == b"A"


@pytest.mark.parametrize(
    ("text", "expected"), [(None, METADATA_BYTES), ("", METADATA_BYTES), ("1g", 1 << 30), ("7", 7)]
)
def test_the_environment_sets_the_bound(text: str | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    assert metadata_limit() == expected


@pytest.mark.parametrize("text", ["much", "-1", "1.5x"])
def test_a_bound_that_is_no_size_is_an_error_of_each_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    texts = SectionCache[str](CacheBudget(metadata_limit), len)
    for _ in range(2):
        with pytest.raises(OptionError, match=VARIABLE):
            texts.get(STORE, "a", lambda: "a")


def test_a_child_uses_caches_whose_lock_was_held() -> None:
    texts, data = caches(10)
    lock: threading.Lock = texts.budget.lock

    def use() -> None:
        assert texts.get(STORE, "a", lambda: "a") == "a"
        assert data.get(STORE, "a", lambda: b"A") == b"A"

    assert forked_while_held(lock, use)


def test_what_is_cut_short_leaves_a_cache_that_holds_less() -> None:
    def cut_short(_: str) -> int:
        raise KeyboardInterrupt

    texts = SectionCache[str](10, cut_short)
    with pytest.raises(KeyboardInterrupt):
        texts.get(STORE, "x", lambda: "found")
    assert texts.peek(STORE, "x") is None, "it was not counted, so it would be held for ever"
