"""The source of time, ids and randomness: the only module that asks the machine for them.

Everything else takes a `Clock`, so that tests are deterministic, and programs can use their own clock.
"""

from __future__ import annotations

import secrets
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable
from uuid import UUID

from slatespark.errors import InvalidRequestError, OptionError, SlateError
from slatespark.fork_lock import fork_lock
from slatespark.format.manifest import NO_TICK
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.options.named_function import import_function
from slatespark.options.values import is_clock, parse_clock
from slatespark.units import ns_to_ms, time_text

CLOCK_END_MS: Final = 1 << 48  # limit of the time in file ids (docs/reference/format/objects.md)


@runtime_checkable
class Clock(Protocol):
    """Time in ms since the epoch, and random bits. Your own clock is a subclass with a `now_ms`.

    It may go back by seconds: a write is never stamped below the last clock tick of its table. If it goes back further,
    the write is refused with a `ClockRegressionError`.

    Examples
    --------
    >>> import time
    >>> from slatespark import Clock, SlateStore
    >>> class GpsClock(Clock):
    ...     def now_ms(self) -> int:
    ...         return time.time_ns() // 1_000_000 + 37_000
    >>> store = SlateStore.create("memory://gps", clock=GpsClock())
    """

    @abstractmethod
    def now_ms(self) -> int:
        """Return the present time in ms since 1970: a whole number from 0 to below 2^48 (the year 10889)."""

    def random_bits(self, count: int) -> int:
        """Return random bits as a non-negative integer, by default from the system's generator.

        Parameters
        ----------
        count : the number of bits
        """
        return secrets.randbits(count)

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait, by default by the system's clock.

        Parameters
        ----------
        duration_ms : how long, in ms
        """
        time.sleep(duration_ms / 1000)


class SystemClock(Clock):
    """The clock of this machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the system time."""
        return ns_to_ms(time.time_ns())


class HighWaterMark:
    """The highest of the times given so far; threads may share it."""

    __slots__ = ("_highest_ms", "_lock")

    def __init__(self) -> None:
        self._highest_ms, self._lock = 0, fork_lock()

    def raised_to(self, time_ms: int) -> int:
        """Return the highest time so far, `time_ms` included."""
        with self._lock:
            self._highest_ms = max(self._highest_ms, time_ms)
            return self._highest_ms


_read_until: Final = HighWaterMark()  # by this process, whatever table: the machine has one clock


def present_of_read(clock: Clock) -> int:
    """Return the present for a read. By the system clock it never goes back within a process.

    Otherwise rows that were hidden as expired would be shown again after the clock was set back. A clock that a program
    gives is taken as it is.
    """
    now_ms = clock.now_ms()
    return _read_until.raised_to(now_ms) if isinstance(clock, SystemClock) else now_ms


class ImportedClock(Clock):
    """The clock behind `module:function`. It can be pickled: another process imports the function again."""

    def __init__(self, name: str) -> None:
        self._name = parse_clock(name, "clock")
        self._read = import_function(name, "clock")

    def __reduce__(self) -> tuple[type[ImportedClock], tuple[str]]:
        return type(self), (self._name,)

    def now_ms(self) -> int:
        """Return what the function returns; raises `InvalidRequestError` when that is not a time, or if it fails."""
        try:
            now_ms: object = self._read()
        except Exception as exc:  # whatever the user's function raises
            raise InvalidRequestError(
                f"clock: {self._name} failed: {type(exc).__name__}: {exc}.", todo="Make it return ms since 1970."
            ) from exc
        return _require_time(now_ms, self._name)


def resolve_clock(name: str | None) -> Clock:
    """Return the clock that the option `clock` names, `module:function`; without it the system clock.

    Raises
    ------
    OptionError
        When it cannot be imported.
    """
    return ImportedClock(name) if is_clock(name) and name is not None else SystemClock()


def check_clock(clock: object) -> Clock:
    """Return `clock` if it is a clock, or the one that it names; raises `OptionError` otherwise."""
    if isinstance(clock, str):
        return ImportedClock(clock)
    if not isinstance(clock, Clock):
        raise OptionError(
            f"clock: {clock!r} is not a clock.",
            todo="Give an instance of a subclass of slatespark.Clock with now_ms(), or module:function.",
        )
    return clock


def read_clock(clock: Clock) -> int:
    """Return the time of a clock that a user wrote; raises `InvalidRequestError` when it is invalid."""
    return _require_time(clock.now_ms(), "now_ms()")


def now_or(clock: Clock, otherwise_ms: int) -> int:
    """Return the present, for a fact about what has happened; if the clock fails, which must not deny it, the other."""
    try:
        return clock.now_ms()
    except SlateError:
        return otherwise_ms


def present_text(present_ms: int, *, own_time: bool) -> str:
    """Return the present for a message; with `own_time` it is the last clock tick of a table with its own clock."""
    if own_time and present_ms == NO_TICK:
        return "no write has set the table's own clock yet"
    return f"{'the last clock tick is' if own_time else 'it is'} {time_text(present_ms)}"


def _require_time(now_ms: object, origin: str) -> int:
    if not isinstance(now_ms, int) or isinstance(now_ms, bool) or not 0 <= now_ms < CLOCK_END_MS:
        raise InvalidRequestError(
            f"The clock returned {now_ms!r}, which is not a time.",
            todo=f"Make {origin} return ms since 1970, a whole number from 0 to 2^48 - 1.",
        )
    return now_ms


def new_ulid(clock: Clock, at_ms: int | None = None) -> Ulid:
    """Return a new ULID with the present time, or with `at_ms`."""
    return make_ulid(clock.now_ms() if at_ms is None else at_ms, clock.random_bits(80))


def new_uuid(clock: Clock) -> UUID:
    """Return a random UUID (version 4)."""
    return UUID(int=clock.random_bits(128), version=4)


def back_off_ms(clock: Clock, attempt: int) -> int:
    """Return how long to wait before retry number `attempt` (from 0).

    At most 50 ms at first, doubling up to 2 s, with full jitter.
    """
    ceiling_ms = min(2000, 50 << min(attempt, 6))
    return clock.random_bits(16) % ceiling_ms + 1


def back_off(clock: Clock, attempt: int) -> None:
    """Wait before retry number `attempt`, as long as `back_off_ms` says."""
    clock.sleep_ms(back_off_ms(clock, attempt))


@dataclass(slots=True)
class TimedWait:
    """A wait for something that is looked at in turns; a clock that is set back does not prolong it.

    Attributes
    ----------
    timeout_ms : its longest duration
    """

    clock: Clock
    timeout_ms: int
    _began_ms: int = field(init=False)
    _slept_ms: int = 0

    def __post_init__(self) -> None:
        self._began_ms = self.clock.now_ms()

    @property
    def waited_ms(self) -> int:
        """How long it has lasted, at least what was slept."""
        return max(self._slept_ms, self.clock.now_ms() - self._began_ms)

    @property
    def is_over(self) -> bool:
        """Whether so much time has passed."""
        return self.waited_ms >= self.timeout_ms

    def pause(self, duration_ms: int) -> None:
        """Sleep until the next look."""
        self.clock.sleep_ms(duration_ms)
        self._slept_ms += duration_ms
