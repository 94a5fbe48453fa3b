"""The memory of a window is used again by the next one, instead of being mapped anew by the kernel."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

# The largest array that glibc takes into account has 32 MiB with its header (DEFAULT_MMAP_THRESHOLD_MAX).
_FREED_BYTES: Final = 31 << 20


@cache
def keep_freed_memory() -> None:
    """Let this process keep up to 62 MiB of what it frees, in each of malloc's arenas. Takes effect once.

    glibc maps large arrays from the kernel and unmaps them when they are freed, so the kernel clears pages anew for
    every window: a tenth of the processor time of a scan. When a mapped array is freed, glibc raises the size from
    which it maps to that of the array, and keeps twice as much free at the end of an arena. The array below is not
    touched, so it takes no memory. Settings of the process (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_) prevail;
    other allocators are not affected.
    """
    try:
        np.empty(_FREED_BYTES, np.uint8)
    except MemoryError:  # little address space is left: a read may still fit
        return
