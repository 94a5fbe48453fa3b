"""Actors: each is a process with a clock of its own, which does one operation after the other, and may die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from slatespark import (
    ClockRegressionError,
    CommitConflictError,
    ConflictError,
    HistoryTrimmedError,
    SlateStore,
    UnavailableError,
)
from tests.simulation.chance import Chance
from tests.simulation.clocks import ActorClock
from tests.simulation.faults import OUTAGE_CALLS, Fault, FaultPlan
from tests.simulation.model import Change, Doing, ModelError
from tests.simulation.scheduler import Killed

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Operation:
    """What a process is to do.

    Attributes
    ----------
    act : does it; a reader compares what it found with the model itself
    change : what it makes of the rows; it is asked for when the operation begins
    is_blind : depends on nothing that it read
    alone : of the operations with the same one, only one runs at a time
    is_shared : another process may commit it, also after this one has ended
    pins_for_minutes : keeps a version by a checkpoint that ends while a process sleeps
    key : identifies an idempotent write, which the next process repeats until it is acknowledged
    """

    name: str
    act: Callable[[World, SlateStore], object]
    change: Callable[[World], Change]
    is_blind: bool = True
    key: str = ""
    alone: str = ""
    is_shared: bool = False
    pins_for_minutes: bool = False


@dataclass(eq=False)
class Actor:
    """A process."""

    world: World
    name: str
    rng: Chance
    clock: ActorClock
    operations: list[Operation] = field(default_factory=list)
    is_remote: bool = False
    is_dead: bool = False
    frozen_until_ms: int = 0
    doing: Doing | None = None
    had_fault: bool = False
    _outage_calls: int = 0

    def is_frozen(self, now_ms: int) -> bool:
        """Tell whether it sleeps."""
        return now_ms < self.frozen_until_ms

    def next_fault(self, plan: FaultPlan, *, is_write: bool) -> Fault | None:
        """Return what happens to its next call."""
        fault: Fault | None = Fault.OUTAGE
        if self._outage_calls:
            self._outage_calls -= 1
        else:
            fault = plan.draw_fault(is_write=is_write)
            self._outage_calls = OUTAGE_CALLS if fault is Fault.OUTAGE else 0
        self.had_fault = self.had_fault or fault is not None
        return fault

    def live(self) -> None:
        """Do all operations; what is left when it dies is its heir's."""
        try:
            table = self.world.open_table(self)
            while self.operations:
                if self.rng.random() < 0.3:
                    table = self.world.open_table(self)
                with self._alone(self.operations[0].alone):
                    self._do(self.operations[0], table)
                if not self._is_to_repeat(self.operations[0]):
                    self.operations.pop(0)
        except Killed:
            if self.is_dead and self.world.scheduler.failure is None:
                self.world.note(self, "ends", "died")
                if not (self.operations and self.operations[0].key):
                    del self.operations[:1]
                self.world.start_heir(self)
            raise

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Wait until nobody does what one process does at a time, and do it."""
        busy = self.world.busy
        if name:
            self.world.scheduler.wait_until(lambda: name not in busy)
            busy.add(name)
        try:
            yield
        finally:
            busy.discard(name)

    def _is_to_repeat(self, operation: Operation) -> bool:
        return bool(operation.key) and operation.key not in self.world.acknowledged

    def _do(self, operation: Operation, table: SlateStore) -> None:
        world, model = self.world, self.world.model
        doing = Doing(operation.name, operation.change(world), key=operation.key, is_shared=operation.is_shared)
        self.doing, self.had_fault = doing, False
        model.begin(doing)
        world.note(self, "begins", operation.name)
        outcome = "done"
        try:
            operation.act(world, table)
        except Exception as exc:
            outcome = f"{type(exc).__name__}: {exc}"
            world.note(self, "ends", f"{operation.name} -> {outcome}")
            world.judge(partial(self._judge, operation, doing, exc))
        else:
            world.note(self, "ends", f"{operation.name} -> done")
            world.acknowledged.add(operation.key)
            world.judge(lambda: model.check_done(doing))
        finally:
            model.end(doing)
            self.doing = None
        world.count(operation.name.partition(" ")[0], outcome.partition(":")[0])

    def do(
        self, name: str, change: Change, act: Callable[[], object], *, refused: type[Exception], key: str = ""
    ) -> None:
        """Do a part of an operation that takes effect by itself; the errors of `act` go on.

        Parameters
        ----------
        refused : the error that says that it had no effect
        key : of an idempotent write, as for operations
        """
        model, outer = self.world.model, self.doing
        self.doing = doing = Doing(name, change, key=key)
        model.begin(doing)
        try:
            act()
            self.world.judge(partial(model.check_done, doing))
        except refused as exc:
            self.world.judge(partial(model.check_refused, doing, exc))
            raise
        finally:
            model.end(doing)
            self.doing = outer

    def _judge(self, operation: Operation, doing: Doing, error: Exception) -> None:
        """Check what an operation says that it was; raises `ModelError`."""
        world = self.world
        allowed: list[type[Exception]] = []
        if self.had_fault or world.is_odd:
            allowed += [CommitConflictError]
        if self.had_fault or world.collects or operation.is_shared:  # the coordinator may have gone
            allowed += [UnavailableError]
        if not operation.is_blind or world.has_clients:
            allowed += [ConflictError]
        if world.collects or (self.had_fault and operation.pins_for_minutes):
            allowed += [HistoryTrimmedError]
        if world.is_odd:
            allowed += [ClockRegressionError]
        if not isinstance(error, tuple(allowed)):
            raise ModelError(f"{operation.name} failed: {type(error).__name__}: {error}") from error
        if not isinstance(error, UnavailableError):
            world.model.check_refused(doing, error)
