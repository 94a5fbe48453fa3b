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

    def handle(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(TERMINATED)

    with _handling(handle, signal.SIGTERM):
        yield


@contextlib.contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process at once in the block, where nothing could clean up."""
    with _handling(signal.SIG_DFL, signal.SIGTERM):
        yield


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT, as orchestrators and terminals ask for the end."""

    def handle(*_: object) -> None:
        # A handler interrupts the main thread, which may hold a lock that `stop` needs.
        threading.Thread(target=stop, name="slatespark-stop").start()

    with _handling(handle, signal.SIGTERM, signal.SIGINT):
        yield


@contextlib.contextmanager
def _handling(handler: Callable[..., None] | signal.Handlers, *kinds: signal.Signals) -> Iterator[None]:
    """Handle signals in the block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.signal(kind, handler) for kind in kinds}
    try:
        yield
    finally:
        for kind, previous in before.items():
            signal.signal(kind, previous)
