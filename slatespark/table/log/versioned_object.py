"""The one loop of changing an object by versions: read the newest, change it, create the next if absent, or start over.

Manifests, definitions and compactions files change this way, and so do commits as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from slatespark.errors import CommitConflictError
from slatespark.table.clock import Clock, back_off

MAX_ATTEMPTS: Final = 20

T = TypeVar("T")


class RaceLostError(Exception):
    """Another process was faster at one step. Nothing was published, and the caller may start over."""


class Version(NamedTuple, Generic[T]):
    """A version of an object: its number in the chain, 0 if it is not stored there, and its content."""

    number: int
    value: T


@dataclass(frozen=True, slots=True)
class VersionedObject(Generic[T]):
    """An object whose newest version is the one that counts.

    Attributes
    ----------
    name : of the object and its table, for messages
    fetch : returns the newest version
    create : of (the new version, the content before): creates it; raises `RaceLostError` when its number is taken
    """

    name: str
    fetch: Callable[[], Version[T]]
    create: Callable[[Version[T], T], None]

    def update(
        self,
        clock: Clock,
        change: Callable[[Version[T]], T | None],
        *,
        is_done: Callable[[T], bool] | None = None,
    ) -> Version[T]:
        """Publish what `change` returns for the newest version, and return the version that holds now.

        Parameters
        ----------
        change : returns the new content; None if there is nothing to change. It is called again after a lost race
        is_done : tells whether a content already has the change. A version also counts as lost if a collector has
            passed its number by the time of the look, although the next version was built on it

        Raises
        ------
        CommitConflictError
            When others were faster too often.
        """

        def attempt(number: int) -> Version[T]:
            newest = self.fetch()
            if number and is_done is not None and is_done(newest.value):
                return newest
            changed = change(newest)
            if changed is None:
                return newest
            version = Version(newest.number + 1, changed)
            self.create(version, newest.value)
            return version

        return retry_lost_races(clock, attempt, self.name)


def retry_lost_races(clock: Clock, attempt: Callable[[int], T], name: str) -> T:
    """Return what `attempt` returns for 0, 1, ..., as soon as it loses no race; waits longer after each loss.

    Parameters
    ----------
    attempt : of the number of the attempt; raises `RaceLostError` when another process was faster
    name : of what others change, for the message

    Raises
    ------
    CommitConflictError
        When it lost too often.
    """
    for number in range(MAX_ATTEMPTS):
        try:
            return attempt(number)
        except RaceLostError:
            back_off(clock, number)
    raise CommitConflictError(f"{name}: other processes changed it {MAX_ATTEMPTS} times in a row.", todo="Try again.")
