"""Locks that a forked child can take, whatever other threads of its parent held.

A fork copies a lock as it is, but not the thread that holds it. What such a lock guards must be usable after each
single change, since a fork may come between two of them.
"""

from __future__ import annotations

import os
import threading
from typing import Final
from weakref import WeakSet

_locks: Final[WeakSet[threading.Lock]] = WeakSet()


def fork_lock() -> threading.Lock:
    """Return a new lock, which is free in a child of this process.

    Not for a lock that its holder may fork under: the child would release it a second time.
    """
    # A lock of the interpreter, not a class around it: an interrupt could come between its taking and its block.
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the locks of the standard library are freed


os.register_at_fork(after_in_child=_free_all)
