"""The end of a command by a signal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

TERMINATED: Final = 128 + signal.SIGTERM  # the exit code that shells show for it


@contextlib.contextmanager
def cleaning_up_at_sigterm() -> Iterator[None]:
    """Let SIGTERM raise in the block, which cleans up and ends the command; at a second one it ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process at once in the block, where nothing could clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
