"""The update loop: read the newest, change it, create the next; start over after a lost race."""

from __future__ import annotations

import pytest

from slatespark.errors import CommitConflictError
from slatespark.table.log.versioned_object import (
    MAX_ATTEMPTS,
    RaceLostError,
    Version,
    VersionedObject,
    retry_lost_races,
)
from tests.support.fake_clock import FakeClock


class Counter:
    """A chain of numbers; each of the next `races` creations is beaten by another process that adds 100."""

    def __init__(self, races: int = 0) -> None:
        self.chain = [7]
        self.races = races
        self.clock = FakeClock(0)
        self.object = VersionedObject("counter", self._fetch, self._create)

    def _fetch(self) -> Version[int]:
        return Version(len(self.chain), self.chain[-1])

    def _create(self, version: Version[int], previous: int) -> None:
        if self.races:
            self.races -= 1
            self.chain.append(self.chain[-1] + 100)
        if version.number != len(self.chain) + 1:
            raise RaceLostError("taken")
        assert previous == self.chain[-1]
        self.chain.append(version.value)


def test_the_next_version_is_made_of_the_newest() -> None:
    counter = Counter()
    assert counter.object.update(counter.clock, lambda newest: newest.value + 1) == Version(2, 8)
    assert counter.chain == [7, 8]
    assert counter.clock.slept_ms == []


def test_nothing_to_change() -> None:
    counter = Counter()
    assert counter.object.update(counter.clock, lambda _: None) == Version(1, 7)
    assert counter.chain == [7]


@pytest.mark.parametrize("races", [1, 3, MAX_ATTEMPTS - 1])
def test_a_lost_race_changes_the_version_of_the_winner(races: int) -> None:
    counter = Counter(races)
    assert counter.object.update(counter.clock, lambda newest: newest.value + 1).value == 7 + 100 * races + 1
    assert len(counter.clock.slept_ms) == races


def test_too_many_lost_races() -> None:
    counter = Counter(MAX_ATTEMPTS)
    with pytest.raises(CommitConflictError, match="counter"):
        counter.object.update(counter.clock, lambda newest: newest.value + 1)


def test_a_caller_may_allow_more_races() -> None:
    tried = []

    def attempt(number: int) -> str:
        tried.append(number)
        raise RaceLostError("taken")

    with pytest.raises(CommitConflictError, match="77 times"):
        retry_lost_races(FakeClock(0), attempt, "it", max_attempts=77)
    assert tried == list(range(77))


def test_a_race_may_hide_a_success() -> None:
    """What is done already is not done twice; at the first attempt nothing was tried, so nothing can be done."""
    counter = Counter(1)
    found = counter.object.update(counter.clock, lambda newest: newest.value + 1, is_done=lambda value: value >= 107)
    assert (found, counter.chain) == (Version(2, 107), [7, 107])
    fresh = Counter()
    assert fresh.object.update(fresh.clock, lambda newest: newest.value + 1, is_done=lambda _: True) == Version(2, 8)


def test_attempts_are_numbered_and_other_errors_end_them() -> None:
    tried = []

    def attempt(number: int) -> str:
        tried.append(number)
        if number < 2:
            raise RaceLostError("taken")
        raise KeyError("other")

    with pytest.raises(KeyError):
        retry_lost_races(FakeClock(0), attempt, "it")
    assert tried == [0, 1, 2]
