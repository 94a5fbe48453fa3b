"""Conversions to floating-point numbers, compiled: bits in, bits out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _bits_of(convert: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic that returns the bits of the converted number, zero-extended."""

    def bits(typing_context: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            converted = convert(builder, arguments[0])
            if converted.type == ir.DoubleType():
                return builder.bitcast(converted, _WORD)
            return builder.zext(builder.bitcast(converted, ir.IntType(32)), _WORD)

        return types.int64(types.int64), generate

    return intrinsic(bits)


def _widened(builder: Any, bits: Any) -> Any:
    single = builder.bitcast(builder.trunc(bits, ir.IntType(32)), ir.FloatType())
    return builder.fpext(single, ir.DoubleType())


# The bits of a signed number as float32 or float64, rounded to nearest.
float32_bits: Callable[[int], int] = _bits_of(lambda builder, number: builder.sitofp(number, ir.FloatType()))
float64_bits: Callable[[int], int] = _bits_of(lambda builder, number: builder.sitofp(number, ir.DoubleType()))
# The bits of a float32 widened to float64.
widened_bits: Callable[[int], int] = _bits_of(_widened)
