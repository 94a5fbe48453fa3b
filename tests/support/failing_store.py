"""A store that fails on cue, and counts what is asked of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Self, TypeAlias, TypeVar

from slatespark.errors import UnavailableError
from slatespark.ranges import ByteRange
from slatespark.storage.object_store import Buffer, ObjectMeta, ObjectStore

Operation: TypeAlias = Literal[
    "get",
    "get_range",
    "get_ranges",
    "head",
    "list",
    "list_below",
    "list_unfinished",
    "create",
    "replace",
    "put",
    "copy",
    "delete",
]
Moment: TypeAlias = Literal["before", "after"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One call, in the order of their beginning."""

    operation: Operation
    path: str  # of copy: the target
    size: int = 0  # bytes asked for or given


@dataclass(slots=True)
class Cue:
    """Fail the calls number `nth` to `nth + times - 1` (from 1) of those that match.

    "before": the store never sees the call. "after": the call took effect, and its answer is lost.
    """

    operation: Operation | Literal["*"]
    path: str  # pattern as of a shell, where * matches / too
    nth: int
    times: int
    moment: Moment
    action: Callable[[], object]
    seen: int = 0

    def matches(self, call: Call) -> bool:
        """Tell whether the call counts."""
        return self.operation in ("*", call.operation) and fnmatchcase(call.path, self.path)

    def is_due(self) -> bool:
        """Count a call that matches, and tell whether it is one to fail."""
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


@dataclass
class FailingStore:
    """An `ObjectStore` around another one."""

    inner: ObjectStore
    calls: list[Call] = field(default_factory=list, repr=False)
    cues: list[Cue] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[FailingStore], tuple[ObjectStore]]:
        return FailingStore, (self.inner,)  # elsewhere it counts anew, and does not fail

    def fail(
        self,
        operation: Operation | Literal["*"],
        path: str = "*",
        *,
        nth: int = 1,
        times: int = 1,
        moment: Moment = "before",
        error: BaseException | None = None,
    ) -> Self:
        """Raise `error` (default: `UnavailableError`) at the cue; returns the store."""
        failure = error or UnavailableError(f"{operation} of {path} fails on cue.")

        def action() -> None:
            raise failure

        self.cues.append(Cue(operation, path, nth, times, moment, action))
        return self

    def die(
        self, operation: Operation | Literal["*"], path: str = "*", *, nth: int = 1, moment: Moment = "before"
    ) -> Self:
        """Kill the process at the cue, as by a crash of the machine: nothing is cleaned up."""
        self.cues.append(Cue(operation, path, nth, 1, moment, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        return self

    def run(
        self,
        action: Callable[[], object],
        operation: Operation | Literal["*"],
        path: str = "*",
        *,
        nth: int = 1,
        moment: Moment = "before",
    ) -> Self:
        """Call `action` at the cue: what somebody else does just then."""
        self.cues.append(Cue(operation, path, nth, 1, moment, action))
        return self

    def clear(self) -> None:
        """Forget all cues and calls."""
        with self._lock:
            self.cues.clear()
            self.calls.clear()

    def count(self, operation: Operation | Literal["*"] = "*", path: str = "*") -> int:
        """Return how many calls there were."""
        return len(self.matching(operation, path))

    def matching(self, operation: Operation | Literal["*"] = "*", path: str = "*") -> list[Call]:
        """Return the calls there were."""
        with self._lock:
            return [c for c in self.calls if operation in ("*", c.operation) and fnmatchcase(c.path, path)]

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    @property
    def lists_whole_folders(self) -> bool:
        return self.inner.lists_whole_folders

    def get(self, path: str) -> Buffer:
        return self._pass(Call("get", path), lambda: self.inner.get(path))

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        return self._pass(Call("get_range", path, _bytes([span])), lambda: self.inner.get_range(path, span))

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        return self._pass(Call("get_ranges", path, _bytes(spans)), lambda: self.inner.get_ranges(path, spans))

    def head(self, path: str) -> ObjectMeta:
        return self._pass(Call("head", path), lambda: self.inner.head(path))

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        return self._pass(Call("list", prefix), lambda: self.inner.list(prefix, start_after))

    def create(self, path: str, data: Buffer) -> None:
        self._pass(Call("create", path, len(data)), lambda: self.inner.create(path, data))

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        return self._pass(Call("list_below", prefix), lambda: self.inner.list_below(prefix))

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        return self._pass(Call("list_unfinished", prefix), lambda: self.inner.list_unfinished(prefix))

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        self._pass(Call("replace", path, len(data)), lambda: self.inner.replace(path, data, expected))

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        self._pass(Call("put", path, sum(map(len, parts))), lambda: self.inner.put(path, parts))

    def copy(self, source: str, target: str) -> None:
        self._pass(Call("copy", target), lambda: self.inner.copy(source, target))

    def delete(self, path: str) -> None:
        self._pass(Call("delete", path), lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def prune(self, folders: Sequence[str]) -> None:
        self.inner.prune(folders)

    def _pass(self, call: Call, forward: Callable[[], T]) -> T:
        with self._lock:
            self.calls.append(call)
            due = [cue for cue in self.cues if cue.matches(call) and cue.is_due()]
        self._act(due, "before")
        answer = forward()
        self._act(due, "after")
        return answer

    def _act(self, due: Sequence[Cue], moment: Moment) -> None:
        for cue in due:
            if cue.moment == moment:
                cue.action()


def _bytes(spans: Sequence[ByteRange]) -> int:
    return sum(span.end - span.start for span in spans)
