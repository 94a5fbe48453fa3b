"""Several actions on one table, of which only one runs at a time: which one makes its next storage call is chosen.

An action goes on from one of its storage calls to the next, as a coroutine would, and waits there for its turn. So the
same schedule gives the same run, and every point at which another process could come in between can be tried.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from slatespark.storage.object_store import ObjectStore
from tests.support.failing_store import Cue, FailingStore

TURN_TIMEOUT_S: Final = 60.0
ALWAYS: Final = 1 << 60

Act: TypeAlias = Callable[[ObjectStore], object]
Outcome: TypeAlias = object  # what an action returned, or the exception that it raised


def interleave(inner: ObjectStore, actions: Sequence[Act], schedule: Iterable[int]) -> list[Outcome]:
    """Run actions on one store by a schedule, and return what became of each.

    Parameters
    ----------
    schedule : whose turn it is, by position in `actions`: each item lets that one go on to its next storage call. One
        that has ended is passed over; after the last item they run to their ends, the first one first
    """
    turns = _Turns(len(actions), iter(schedule))
    with ThreadPoolExecutor(len(actions)) as threads:
        running = [threads.submit(turns.run, actor, act, inner) for actor, act in enumerate(actions)]
        turns.begin()
        return [each.result() for each in running]


def alternating() -> Iterator[int]:
    """Two actions in turns, call by call, to their ends."""
    return itertools.cycle([0, 1])


def preempted(first: int, second: int) -> Iterator[int]:
    """The first action up to its call number `first`, the second one up to `second`, then the first one to its end."""
    return itertools.chain(itertools.repeat(0, first), itertools.repeat(1, second))


class _Turns:
    """Whose turn it is; an action that has ended has none any more."""

    def __init__(self, actors: int, schedule: Iterator[int]) -> None:
        self._schedule = schedule
        self._running = set(range(actors))
        self._current: int | None = None
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Give the first turn."""
        with self._changed:
            self._pass_on()

    def run(self, actor: int, act: Act, inner: ObjectStore) -> Outcome:
        """Run one action on a store that waits before each call."""
        store = FailingStore(inner)
        store.cues.append(Cue("*", "*", 1, ALWAYS, "before", lambda: self._wait(actor)))
        with self._changed:
            self._await_turn(actor)
        try:
            return act(store)
        except Exception as exc:
            return exc
        finally:
            with self._changed:
                self._running.discard(actor)
                self._pass_on()

    def _wait(self, actor: int) -> None:
        with self._changed:
            if actor in self._running and self._current == actor:  # else another thread of it gave the turn away
                self._pass_on()
            self._await_turn(actor)

    def _await_turn(self, actor: int) -> None:
        """Wait; what is left of an action after its end, such as a heartbeat, waits for nothing."""
        if not self._changed.wait_for(lambda: self._current == actor or actor not in self._running, TURN_TIMEOUT_S):
            raise TimeoutError(f"Action {actor} had no turn; action {self._current} does not go on.")

    def _pass_on(self) -> None:
        if len(self._running) > 1:  # a schedule may never end
            chosen = (actor for actor in self._schedule if actor in self._running)
            self._current = next(chosen, min(self._running))
        else:
            self._current = min(self._running, default=None)
        self._changed.notify_all()
