"""Instructions that Python has no name for, as numba compiles them. `_native` and others say what each one does.

This module loads numba: `_compile.intrinsic` imports it where kernels are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic as _untyped_intrinsic

_intrinsic: Callable[[Any], Any] = _untyped_intrinsic
_WORD: Final = ir.IntType(64)


def _load(bits: int, result: Any) -> Any:
    """Return an intrinsic that loads `bits` bits from an unaligned address, zero-extended."""

    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            loaded = builder.load(builder.inttoptr(arguments[0], word.as_pointer()), align=1)
            return loaded if bits == 64 else builder.zext(loaded, _WORD)

        return result(types.int64), generate

    return _intrinsic(load)


def _store(bits: int, operand: Any) -> Any:
    """Return an intrinsic that stores the low `bits` bits of a number at an unaligned address."""

    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            value = arguments[1] if bits == 64 else builder.trunc(arguments[1], word)
            builder.store(value, builder.inttoptr(arguments[0], word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, operand), generate

    return _intrinsic(store)


load8 = _load(8, types.int64)
load16 = _load(16, types.int64)
load32 = _load(32, types.int64)
load64 = _load(64, types.int64)
load_word = _load(64, types.uint64)
store8 = _store(8, types.int64)
store16 = _store(16, types.int64)
store32 = _store(32, types.int64)
store64 = _store(64, types.int64)
store_word = _store(64, types.uint64)


@_intrinsic
def swap_word(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@_intrinsic
def zero_bits(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@_intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@_intrinsic
def leading_zeros_of_nonzero(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@_intrinsic
def copy_exact(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        copy = builder.module.declare_intrinsic("llvm.memcpy", [byte_pointer, byte_pointer, _WORD])
        pointers = [builder.inttoptr(argument, byte_pointer) for argument in arguments[:2]]
        builder.call(copy, [*pointers, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _bits_of(convert: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic that returns the bits of the converted number, zero-extended."""

    def bits(typing_context: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            converted = convert(builder, arguments[0])
            if converted.type == ir.DoubleType():
                return builder.bitcast(converted, _WORD)
            return builder.zext(builder.bitcast(converted, ir.IntType(32)), _WORD)

        return types.int64(types.int64), generate

    return _intrinsic(bits)


def _widened(builder: Any, bits: Any) -> Any:
    single = builder.bitcast(builder.trunc(bits, ir.IntType(32)), ir.FloatType())
    return builder.fpext(single, ir.DoubleType())


float32_bits = _bits_of(lambda builder, number: builder.sitofp(number, ir.FloatType()))
float64_bits = _bits_of(lambda builder, number: builder.sitofp(number, ir.DoubleType()))
widened_bits = _bits_of(_widened)


@_intrinsic
def carryless_product(typing_context: Any, left: Any, right: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pair = ir.VectorType(_WORD, 2)
        lane = ir.IntType(32)
        kind = ir.FunctionType(pair, [pair, pair, ir.IntType(8)])
        function = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), kind)
        empty = ir.Constant(pair, ir.Undefined)
        operands = [builder.insert_element(empty, argument, ir.Constant(lane, 0)) for argument in arguments]
        product = builder.call(function, [*operands, ir.Constant(ir.IntType(8), 0)])
        halves = [builder.extract_element(product, ir.Constant(lane, index)) for index in (0, 1)]
        return context.make_tuple(builder, signature.return_type, halves)

    pair: Any = types.Tuple
    return pair((types.uint64, types.uint64))(types.uint64, types.uint64), generate


@_intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), (byte, flag, flag, flag))
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        read, keep, data = (ir.Constant(flag, number) for number in (0, 3, 1))
        builder.call(function, (builder.inttoptr(arguments[0], byte), read, keep, data))
        return context.get_dummy_value()

    return types.void(types.int64), generate
