"""What a Python worker of Spark does once, however many tasks it serves."""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_gc() -> None:
    """Take the modules loaded so far out of garbage collection.

    Spark collects garbage after every task. With numba, pyarrow and pyspark loaded, that looks at 160,000 objects and
    takes 80 ms of processor time, more than a task needs to read 32 MiB; none of them ever becomes garbage.
    """
    gc.collect()
    gc.freeze()
