"""Pools of threads that also serve callers who go on after the main thread has ended.

Once the main thread has ended Python starts no task of a pool any more, though other threads, and functions that were
registered to run at exit, go on: such a task runs in the thread that asks for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def has_main_thread_ended() -> bool:
    """Tell whether Python is about to end this process, and may refuse to start threads."""
    return not threading.main_thread().is_alive()


class ThreadPool(ThreadPoolExecutor):
    """A pool of threads, as in the standard library, whose tasks run at once where it takes none any more."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a task, and return its future; a done one where the caller has run the task."""
        if not has_main_thread_ended():
            try:
                return super().submit(fn, *args, **kwargs)
            except RuntimeError:
                if not has_main_thread_ended():  # it did meanwhile, or else the pool is closed
                    raise
        answer: Future[T] = Future()
        try:
            answer.set_result(fn(*args, **kwargs))
        except Exception as exc:  # an interrupt is not the task's: it ends the caller
            answer.set_exception(exc)
        return answer
