"""A command that runs until it is stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT, as orchestrators and terminals ask for the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(*_: object) -> None:
        # A handler interrupts the main thread, which may hold a lock that `stop` needs.
        threading.Thread(target=stop, name="slatespark-stop").start()

    before = {kind: signal.signal(kind, handle) for kind in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
