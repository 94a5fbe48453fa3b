"""The rule of `slatespark.kernels.lifetimes`, as a step of compiled kernels."""

from __future__ import annotations

from slatespark.kernels._compile import inlined
from slatespark.kernels._native import load64


@inlined
def has_reached(flags: int, flag: int, column: int, row: int, limit_ms: int) -> bool:
    """Tell whether a row has a time, and has it at or before a limit; `column` is where the address of times lies."""
    return flags & flag != 0 and load64(load64(column) + 8 * row) <= limit_ms
