"""The store: a server as S3 is one, and the product's own `RemoteStore` before it, with its retries.

The server is one dictionary. Each request of a fiber is a step of the schedule, may fail, and is a line of the history.
Conditional writes are atomic; a listing comes in pages, and is no snapshot; times are whole seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from slatespark.errors import UnavailableError
from slatespark.ranges import ByteRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.storage.remote_store import RemoteStore
from slatespark.storage.retry import RetryPolicy
from tests.simulation.chance import Chance
from tests.simulation.clocks import START_MS
from tests.simulation.faults import Fault, FaultPlan
from tests.simulation.history import History
from tests.simulation.scheduler import Killed, Scheduler

if TYPE_CHECKING:
    from tests.simulation.actors import Actor
    from tests.simulation.model import Doing

ATTEMPTS: Final = 3
PAGE_OBJECTS: Final = 1000  # of S3
WRITES: Final = frozenset({"create", "replace", "put", "copy", "delete"})

T = TypeVar("T")
Watcher = Callable[["Doing | None", str], None]  # of a created object: whose request it was, and its full path


@dataclass(eq=False)
class Server:
    """The server of one seed, with all buckets.

    Attributes
    ----------
    bucket : its name; all tables of a seed are in it
    page_objects : of a listing, by one request
    watch, watch_deletion : called with every object that was created or deleted, before anybody else can go on
    """

    scheduler: Scheduler
    faults: FaultPlan
    history: History
    bucket: str
    page_objects: int = PAGE_OBJECTS
    watch: Watcher = lambda doing, path: None
    watch_deletion: Callable[[str], None] = lambda path: None
    _late: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.raw(clock_ms=lambda: self.scheduler.now_ms // 1000 * 1000)
        self.scheduler.on_step = self._land

    def raw(self, root: str = "", clock_ms: Callable[[], int] | None = None) -> MemoryStore:
        """Return what the server holds below a root, without steps and faults."""
        return MemoryStore(f"{self.bucket}/{root}", clock_ms)

    def open(self, root: str, *, is_remote: bool) -> SimulatedStore:
        """Return the store of a root as processes of the simulation see it."""
        return SimulatedStore(self, root, is_remote=is_remote)

    def request(self, root: str, kind: str, path: str, act: Callable[[], T]) -> T:
        """Make a request of the current fiber, at its turn."""
        if self.scheduler.current is None:  # a heartbeat that the machine was slow enough for
            raise UnavailableError("no process of the simulation")
        actor = self.scheduler.own_fiber().actor
        fault = actor.next_fault(self.faults, is_write=kind in WRITES)
        if fault is Fault.SLEEP:
            actor.frozen_until_ms = self.scheduler.now_ms + self.faults.draw_sleep_ms()
        self.scheduler.pause()
        where, doing = f"{root}/{path}", actor.doing
        if fault is Fault.KILL_BEFORE:
            self._die(actor, where, fault)
        if fault in (Fault.BEFORE, Fault.OUTAGE, Fault.LATE):
            self._note(actor, kind, f"{where} ! {fault.value}")
            if fault is Fault.LATE:
                due = self.scheduler.steps + self.faults.rng.choice([1, 5, 30, 200])
                self._late.append((due, lambda: self._land_one(actor, doing, kind, where, act)))
            raise ConnectionError(fault.value)
        try:
            answer = act()
        except (FileExistsError, FileNotFoundError) as exc:
            self._note(actor, kind, f"{where} -> {type(exc).__name__}")
            raise
        self._note(actor, kind, where + (f" ! {fault.value}" if fault is not None else ""))
        self._tell(doing, kind, where)
        if fault is Fault.KILL_AFTER:
            self._die(actor, where, fault)
        if fault is Fault.LOST:
            raise ConnectionError(fault.value)
        return answer

    def land_all(self) -> None:
        """Let all requests that are still under way take effect."""
        late, self._late = self._late, []
        for _, effect in late:
            effect()

    def _land(self) -> None:
        due = [effect for at, effect in self._late if at <= self.scheduler.steps]
        if due:
            self._late = [each for each in self._late if each[0] > self.scheduler.steps]
            for effect in due:
                effect()

    def _land_one(self, actor: Actor, doing: Doing | None, kind: str, where: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (FileExistsError, FileNotFoundError) as exc:
            self._note(actor, kind, f"{where} (late) -> {type(exc).__name__}")
            return
        self._note(actor, kind, f"{where} (late)")
        self._tell(doing, kind, where)

    def _tell(self, doing: Doing | None, kind: str, where: str) -> None:
        if kind == "create":
            self.watch(doing, where)
        if kind == "delete":
            self.watch_deletion(where)

    def _die(self, actor: Actor, where: str, fault: Fault) -> None:
        self._note(actor, "dies", f"{where} ! {fault.value}")
        actor.is_dead = True
        raise Killed(actor.name)

    def _note(self, actor: Actor, kind: str, text: str) -> None:
        self.history.add(self.scheduler.now_ms - START_MS, actor.name, kind, text)


@dataclass(eq=False)
class ServerDriver:
    """The requests below one root."""

    server: Server
    root: str

    def __post_init__(self) -> None:
        self._raw = self.server.raw(self.root)

    def _ask(self, kind: str, path: str, act: Callable[[], T]) -> T:
        return self.server.request(self.root, kind, path, act)

    def read(self, path: str) -> bytes:
        return self._ask("get", path, lambda: bytes(self._raw.get(path)))

    def read_span(self, path: str, span: ByteRange) -> bytes:
        return self._ask("get", path, lambda: bytes(self._raw.get(path))[span.start : span.end])

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        answers: list[bytes | BaseException] = []
        for span in spans:
            try:
                answers.append(self.read_span(path, span))
            except OSError as exc:
                answers.append(exc)
        return answers

    def head(self, path: str) -> ObjectMeta:
        return self._ask("head", path, lambda: self._raw.head(path))

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        return self._pages(
            prefix, "", lambda after: [meta for meta in self._raw.list_below(prefix) if meta.path > after]
        )

    def create(self, path: str, data: bytes) -> None:
        self._ask("create", path, lambda: self._raw.create(path, data))

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        self._ask("replace", path, lambda: self._raw.replace(path, data, expected))

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        self._ask("put", path, lambda: self._raw.put(path, [data]))

    def copy(self, source: str, target: str) -> None:
        self._ask("copy", target, lambda: self._raw.copy(source, target))

    def delete(self, path: str) -> None:
        self._ask("delete", path, lambda: self._raw.delete(path))

    def delete_many(self, paths: Sequence[str]) -> bool:
        for path in paths:  # one request, but not one moment
            self.delete(path)
        return True

    def _pages(self, prefix: str, start_after: str, listing: Callable[[str], Sequence[ObjectMeta]]) -> list[ObjectMeta]:
        found: list[ObjectMeta] = []
        while True:
            after = found[-1].path if found else start_after
            page = self._ask("list", prefix, lambda after=after: listing(after)[: self.server.page_objects])  # type: ignore[misc]
            found += page
            if len(page) < self.server.page_objects:
                return found

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        return self._pages(prefix, start_after, lambda after: self._raw.list(prefix, after))


class SimulatedStore(RemoteStore):
    """A `RemoteStore` on the server of the simulation.

    Parameters
    ----------
    is_remote : whether it says that reads take long, so that programs make several requests at a time
    """

    def __init__(self, server: Server, root: str, *, is_remote: bool) -> None:
        scheduler = server.scheduler
        rng = Chance(f"retries {root}")
        policy = RetryPolicy(
            attempts=ATTEMPTS, sleep=lambda wait_s: scheduler.sleep(int(wait_s * 1000)), jitter=rng.random
        )
        super().__init__(f"memory://{server.bucket}/{root}", policy=policy)
        self._driver, self._pid = ServerDriver(server, root), os.getpid()
        self._is_remote = is_remote

    @property
    def is_remote(self) -> bool:
        return self._is_remote
