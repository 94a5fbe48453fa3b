"""The update loop of versioned objects: read the newest, change it, create the next if absent, else start over.

Manifests, definitions and compactions files change this way, and so do whole commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from slatespark.errors import CommitConflictError, ConflictError
from slatespark.log_lines import log_event
from slatespark.table.clock import Clock, back_off

MAX_ATTEMPTS: Final = 20

_log = logging.getLogger(__name__)

T = TypeVar("T")


class RaceLostError(Exception):
    """Another process was faster at one step. Nothing was published, and the caller may start over."""


class Version(NamedTuple, Generic[T]):
    """A version of an object: its number in the chain (0 if it is not stored there), and its content."""

    number: int
    value: T


@dataclass(frozen=True, slots=True)
class VersionedObject(Generic[T]):
    """An object of which only the newest version counts.

    Attributes
    ----------
    name : the name of the object and its table, for messages
    fetch : returns the newest version
    create : called with (the new version, the previous content); raises `RaceLostError` when its number is taken
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
        """Publish the result of `change` for the newest version, and return the version now in force.

        Parameters
        ----------
        change : returns the new content; None if there is nothing to change. It is called again after a lost race
        is_done : tells whether a content already has the change. A lost race may hide a success: a version counts as
            lost if a collector has passed its number, even if the next version was built on it

        Raises
        ------
        CommitConflictError
            When too many races were lost.
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


def retry_lost_races(
    clock: Clock,
    attempt: Callable[[int], T],
    name: str,
    *,
    pause: Callable[[Clock, int], None] = back_off,
    max_attempts: int = MAX_ATTEMPTS,
) -> T:
    """Call `attempt` with 0, 1, ... until it loses no race, and return its result.

    Parameters
    ----------
    attempt : called with the number of the attempt; raises `RaceLostError` when another process was faster
    name : the name of the contested object, for the message
    pause : called with the clock and the number of an attempt that lost; by default waits longer after each loss

    Raises
    ------
    CommitConflictError
        When too many races were lost.
    """
    for number in range(max_attempts):
        try:
            return attempt(number)
        except ConflictError as exc:
            log_event(_log, "conflict", name, error=type(exc).__name__)
            raise
        except RaceLostError:
            log_event(_log, "retry", name, attempt=number + 1)
            pause(clock, number)
    log_event(_log, "conflict", name, error=CommitConflictError.__name__)
    raise CommitConflictError(f"{name}: other processes changed it {max_attempts} times in a row.", todo="Try again.")
