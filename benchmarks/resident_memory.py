"""Anonymous resident memory of a process, sampled from outside: pages of memory-mapped files are not counted."""

from __future__ import annotations

import threading
from typing import Final, Self

from benchmarks.process_tree import anonymous_bytes, command_of, descendants

INTERVAL_S: Final = 0.005
LOOK_FOR_CHILDREN_EVERY: Final = 20  # samples


class MemoryWatch:
    """Watches a process in a `with` block.

    A thread of this process samples, which is otherwise idle: in the process watched it would have to wait for the
    interpreter's lock, and would miss peaks.

    Parameters
    ----------
    pid : the process
    python_workers : watch the Python workers of the Spark that the process started instead; the largest one counts

    Attributes
    ----------
    idle_bytes : when the block began
    peak_bytes : the highest in the block
    """

    def __init__(self, pid: int, *, python_workers: bool = False) -> None:
        self._pid, self._python_workers = pid, python_workers
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory watch", daemon=True)
        self.idle_bytes = self.peak_bytes = 0

    def __enter__(self) -> Self:
        self.idle_bytes = self.peak_bytes = self._largest(self._watched())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop sampling."""
        self._stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        watched: list[int] = []
        count = 0
        while not self._stopped.wait(INTERVAL_S):
            if count % LOOK_FOR_CHILDREN_EVERY == 0:
                watched = self._watched()
            count += 1
            self.peak_bytes = max(self.peak_bytes, self._largest(watched))

    def _watched(self) -> list[int]:
        if not self._python_workers:
            return [self._pid]
        return [pid for pid in descendants(self._pid) if "pyspark.daemon" in command_of(pid)]

    @staticmethod
    def _largest(pids: list[int]) -> int:
        return max((anonymous_bytes(pid) for pid in pids), default=0)
