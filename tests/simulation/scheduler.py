"""Threads of which one runs at a time: which one goes on at each storage call is drawn from the seed.

A fiber is a thread that stops wherever another process could come in between: at each storage call, and where it
sleeps. Time is the scheduler's: it passes with each call, and jumps to the next sleeper when all sleep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from slatespark.storage import readahead
from tests.simulation.chance import Chance

if TYPE_CHECKING:
    from tests.simulation.actors import Actor

MAX_STEPS: Final = 60_000  # of a seed; one that needs more does not come to an end
FOREVER_MS: Final = 1 << 60

T = TypeVar("T")
Item = TypeVar("Item")


class Killed(BaseException):
    """The process of a fiber died: no call of it reaches the store any more."""


class EndlessError(Exception):
    """The simulation does not come to an end."""


@dataclass(eq=False, slots=True)
class Fiber:
    """A thread of an actor."""

    actor: Actor
    name: str
    wakes_ms: int = 0  # not before; FOREVER_MS while it waits for another fiber
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Scheduler:
    """Runs the fibers, one at a time.

    Parameters
    ----------
    rng : decides who goes on
    stickiness : how likely a fiber goes on after its own call, so that bursts of all lengths occur
    latency_ms : what a storage call takes at most
    """

    def __init__(self, rng: Chance, *, now_ms: int, stickiness: float, latency_ms: int) -> None:
        self._rng, self._stickiness, self._latency_ms = rng, stickiness, latency_ms
        self.now_ms = now_ms
        self.steps = 0
        self.on_step: Callable[[], None] = lambda: None
        self._fibers: list[Fiber] = []  # that have not ended, in the order of their beginning
        self._local = threading.local()
        self._ended = threading.Semaphore(0)
        self.failure: BaseException | None = None

    # --- called from outside ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all fibers to their ends; raises the first error of one."""
        if self._fibers:
            self._choose(None).baton.release()
            self._ended.acquire()
        if self.failure is not None:
            raise self.failure

    def start(self, actor: Actor, name: str, work: Callable[[], object], delay_ms: int = 0) -> Fiber:
        """Add a fiber; an error that it raises ends the simulation."""
        fiber = Fiber(actor, name, self.now_ms + delay_ms)
        self._fibers.append(fiber)
        threading.Thread(target=self._live, args=(fiber, work), name=name, daemon=True).start()
        return fiber

    # --- called by fibers ---------------------------------------------------------------------------------------

    @property
    def current(self) -> Fiber | None:
        """The fiber of this thread; None outside."""
        fiber: Fiber | None = getattr(self._local, "fiber", None)
        return fiber

    def pause(self) -> None:
        """Let another fiber go on, perhaps; raises `Killed` if this one died meanwhile."""
        fiber = self.own_fiber()
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.fail(EndlessError(f"{self.steps} storage calls, and no end"))
        self.now_ms += self._rng.randrange(self._latency_ms + 1)
        self.on_step()
        fiber.wakes_ms = max(fiber.wakes_ms, self.now_ms)
        self._switch(fiber)

    def sleep(self, duration_ms: int) -> None:
        """Let time pass."""
        fiber = self.own_fiber()
        fiber.wakes_ms = self.now_ms + max(0, duration_ms)
        self._switch(fiber)

    def wait_until(self, is_due: Callable[[], bool]) -> None:
        """Let others go on until a condition holds that one of them brings about."""
        fiber = self.own_fiber()
        while not is_due():
            # A process may sleep for days: up to its end nothing changes.
            others = [self._due_ms(each) for each in self._fibers if each is not fiber]
            self.sleep(max(1, min(others, default=0) - self.now_ms))

    def fail(self, error: BaseException) -> NoReturn:
        """End the simulation, past everything that would catch an error."""
        self.failure = self.failure or error
        raise Killed("the simulation has failed")

    # --- inside -------------------------------------------------------------------------------------------------

    def own_fiber(self) -> Fiber:
        """Return the fiber of this thread; raises `Killed` if it has died."""
        fiber = self.current
        if fiber is None:
            raise Killed("a thread that the simulation does not know called the store")
        if self.failure is not None:
            raise Killed("the simulation has failed")
        if fiber.actor.is_dead:
            raise Killed(fiber.actor.name)
        return fiber

    def _switch(self, fiber: Fiber) -> None:
        is_ready = fiber.wakes_ms <= self.now_ms and not fiber.actor.is_frozen(self.now_ms)
        if not (is_ready and self._rng.random() < self._stickiness):
            chosen = self._choose(fiber)
            if chosen is not fiber:
                chosen.baton.release()
                fiber.baton.acquire()
        self.own_fiber()

    def _choose(self, fiber: Fiber | None) -> Fiber:
        ready = [each for each in self._fibers if self._due_ms(each) <= self.now_ms]
        if not ready:
            first = min(self._fibers, key=self._due_ms)
            self.now_ms = self._due_ms(first)
            return first
        return self._rng.choice(ready)

    def _due_ms(self, fiber: Fiber) -> int:
        if fiber.actor.is_dead:
            return 0  # to be told
        return max(fiber.wakes_ms, fiber.actor.frozen_until_ms)

    def _live(self, fiber: Fiber, work: Callable[[], object]) -> None:
        self._local.fiber = fiber
        fiber.baton.acquire()
        try:
            self.own_fiber()
            work()
        except Killed:
            pass
        except BaseException as exc:
            self.failure = self.failure or exc
        self._fibers.remove(fiber)
        if self._fibers:
            self._choose(None).baton.release()
        else:
            self._ended.release()


@dataclass(eq=False, slots=True)
class Answer(Generic[T]):
    """What a task of a pool returns, once it has: a `Future`."""

    scheduler: Scheduler
    _value: T | None = None
    _error: BaseException | None = None
    _is_done: bool = False
    _is_begun: bool = False
    _is_cancelled: bool = False

    def run(self, task: Callable[[], T]) -> None:
        """Run the task, unless it was cancelled."""
        if self._is_cancelled:
            self._error = CancelledError()
        else:
            self._is_begun = True
            try:
                self._value = task()
            except BaseException as exc:
                self._error = exc
        self._is_done = True

    def result(self, timeout: float | None = None) -> T:
        """Wait for the task."""
        self.scheduler.wait_until(lambda: self._is_done)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is done

    def cancel(self) -> bool:
        """Cancel the task if it has not begun."""
        self._is_cancelled = self._is_cancelled or not self._is_begun
        return self._is_cancelled


class Pool:
    """Threads of a program as fibers of its actor: a `ThreadPoolExecutor`."""

    def __init__(self, scheduler: Scheduler, *, is_readahead: bool = False) -> None:
        self._scheduler, self._is_readahead = scheduler, is_readahead
        self._answers: list[Answer[Any]] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for answer in self._answers:
            self._scheduler.wait_until(lambda answer=answer: answer._is_done)  # type: ignore[misc]

    def submit(self, function: Callable[..., T], *args: Any) -> Answer[T]:
        """Start a task."""
        owner, answer = self._scheduler.own_fiber(), Answer[T](self._scheduler)

        def work() -> None:
            if self._is_readahead:
                readahead._mark_thread()
            answer.run(lambda: function(*args))

        self._scheduler.start(owner.actor, f"{owner.name}+", work)
        if not self._is_readahead:
            self._answers.append(answer)
        return answer

    def map(self, function: Callable[[Item], T], items: Iterable[Item], *more: Sequence[Any]) -> Iterator[T]:
        """Yield the results in the order of the items."""
        answers = [self.submit(function, *arguments) for arguments in zip(items, *more, strict=True)]
        for answer in answers:
            yield answer.result()


class InlinePool:
    """A pool that does each task where it is submitted, where programs hold a lock while others wait for the pool."""

    def __init__(self, threads: int) -> None:
        pass

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Do a task."""
        answer: Future[T] = Future()
        try:
            answer.set_result(function(*args))
        except Exception as exc:
            answer.set_exception(exc)
        return answer

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
        """Yield the results in the order of the items."""
        return map(function, items)
