"""The rule of `slatespark.kernels.lifetimes` for compiled kernels."""

from __future__ import annotations

from slatespark.kernels._compile import inlined
from slatespark.kernels._native import load64


@inlined
def has_reached(flags: int, flag: int, column: int, row: int, limit_ms: int) -> bool:
    """Tell whether a row has a time at or before a limit; `column` is the address of the pointer to the times."""
    return flags & flag != 0 and load64(load64(column) + 8 * row) <= limit_ms
