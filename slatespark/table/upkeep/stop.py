"""StopRequest: asks a loop to end, from another thread or from a signal."""

from __future__ import annotations

import contextlib
import queue


class StopRequest:
    """A wish that stays until it is taken.

    A signal handler runs in the thread that may be waiting here, between any two of its instructions. A
    `threading.Event` could then wait for its own lock forever; `SimpleQueue.put` is made for that.
    """

    def __init__(self) -> None:
        self._wishes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def request(self) -> None:
        """Wish for the end."""
        self._wishes.put(None)

    def consume(self) -> bool:
        """Tell whether the end is wished for, and forget it."""
        is_asked = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._wishes.get_nowait()
                is_asked = True
        return is_asked

    def wait(self, seconds: float) -> None:
        """Return when the end is wished for, or after this time."""
        with contextlib.suppress(queue.Empty):
            self._wishes.get(timeout=seconds)
            self._wishes.put(None)  # for `consume`
