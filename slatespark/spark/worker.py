"""Set-up of a Python worker of Spark: once per worker, however many tasks it runs."""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_gc() -> None:
    """Exclude the modules loaded so far from garbage collection.

    Spark collects garbage after every task. With numba, pyarrow and pyspark loaded, a collection visits 160,000 objects
    and takes 80 ms of processor time, more than a task needs to read 32 MiB. None of these objects ever becomes
    garbage.
    """
    gc.collect()
    gc.freeze()
