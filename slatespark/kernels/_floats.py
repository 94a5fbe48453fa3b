"""Conversions to floating-point numbers, compiled: bits in, bits out."""

from __future__ import annotations

from collections.abc import Callable

from slatespark.kernels._compile import intrinsic

# The bits of a signed number as float32 or float64, rounded to nearest.
float32_bits: Callable[[int], int] = intrinsic("float32_bits")
float64_bits: Callable[[int], int] = intrinsic("float64_bits")
# The bits of a float32 widened to float64.
widened_bits: Callable[[int], int] = intrinsic("widened_bits")
