"""A Python worker of Spark, and the task that it runs."""

from __future__ import annotations

import ctypes
import gc
import socket
from functools import cache
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext

from slatespark.errors import InternalError

_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
_OPEN_FILES: Final = Path("/proc/self/fd")


class SentToTasks:
    """Base of what Spark sends to its tasks: where it arrives, the rest of the task's input follows at once."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to send. Without a state, `__setstate__` would not be called."""
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the state of the object that was sent."""
        self.__dict__.update(state)
        if TaskContext.get() is not None:
            acknowledge_input()


def acknowledge_input() -> None:
    """Acknowledge what this process has received through its TCP connections, and let them send without waiting.

    Spark sends a task in two messages, first the code and then the input. The JVM holds the second one back until the
    first one is acknowledged (Nagle's algorithm), and the kernel takes up to 40 ms for that (delayed acknowledgement),
    longer than a small task runs. The last rows of a task would wait in the same way for the JVM. Unix domain sockets
    have no such wait, but Spark does not use them by default.
    """
    if _QUICKACK is None:
        return
    try:
        files = [int(file.name) for file in _OPEN_FILES.iterdir()]
    except OSError:
        return
    for file in files:
        if _switch_on(file, _QUICKACK):  # so it is a TCP connection
            _switch_on(file, socket.TCP_NODELAY)


def _switch_on(file: int, option: int) -> bool:
    """Switch on an option of a TCP connection; return whether the file is one.

    Without a socket object of Python: with a default timeout, making one would make the connection non-blocking.
    """
    on = ctypes.c_int(1)
    return bool(_libc().setsockopt(file, socket.IPPROTO_TCP, option, ctypes.byref(on), ctypes.sizeof(on)) == 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def task_context() -> TaskContext:
    """Return the context of the task that runs in this thread."""
    context = TaskContext.get()
    if context is None:
        raise InternalError("A task has no TaskContext.")
    return context


@cache
def freeze_gc() -> None:
    """Exclude the modules loaded so far from garbage collection: once per worker, however many tasks it runs.

    Spark collects garbage after every task. With numba, pyarrow and pyspark loaded, a collection visits 160,000 objects
    and takes 80 ms of processor time, more than a task needs to read 32 MiB. None of these objects ever becomes
    garbage.
    """
    gc.collect()
    gc.freeze()
