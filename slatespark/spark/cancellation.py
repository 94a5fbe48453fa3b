"""Cancelling the Spark jobs of a thread when their result is no longer wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from slatespark.table.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCH_S: Final = 1.0  # between two checks


@contextmanager
def cancelled_when(spark: SparkSession, check: Callable[[], None]) -> Iterator[None]:
    """Cancel the Spark jobs that this thread starts in the block once `check` raises; then raise the same."""
    tag, ended = f"slatespark-{SystemClock().random_bits(64):016x}", threading.Event()
    failures: list[Exception] = []

    def watch() -> None:
        while not ended.wait(WATCH_S):
            try:
                check()
            except Exception as exc:
                failures.append(exc)
                spark.interruptTag(tag)
                return

    watcher = threading.Thread(target=watch, name=tag, daemon=True)
    watcher.start()
    spark.addTag(tag)
    try:
        yield
    except Exception:
        if failures:  # Spark says that the job was cancelled
            raise failures[0] from None
        raise
    finally:
        spark.removeTag(tag)
        ended.set()
        watcher.join()
