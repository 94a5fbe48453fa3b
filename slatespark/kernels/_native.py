"""Memory access by address, for kernels: loads, stores, copies, comparisons.

Addresses and lengths are int64, words uint64. Nothing here checks bounds. Kernels use addresses instead of arrays
because numba reference-counts arrays passed to other functions inside the loop, which made one decoder four to eight
times slower. Little-endian hosts only, like all platforms that numba supports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from slatespark.kernels._compile import called, inlined


def _intrinsic(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


def _load(bits: int, result: Any) -> Any:
    """Return an intrinsic that loads `bits` bits from an unaligned address, zero-extended."""

    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            loaded = builder.load(builder.inttoptr(arguments[0], word.as_pointer()), align=1)
            return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

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


load8: Callable[[int], int] = _load(8, types.int64)
load16: Callable[[int], int] = _load(16, types.int64)
load32: Callable[[int], int] = _load(32, types.int64)
load64: Callable[[int], int] = _load(64, types.int64)
load_word: Callable[[int], np.uint64] = _load(64, types.uint64)
store8: Callable[[int, int], None] = _store(8, types.int64)
store16: Callable[[int, int], None] = _store(16, types.int64)
store32: Callable[[int, int], None] = _store(32, types.int64)
store64: Callable[[int, int], None] = _store(64, types.int64)
store_word: Callable[[int, np.uint64], None] = _store(64, types.uint64)


def _swap_word(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


def _zero_bits(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _leading_zeros(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


def _copy_exact(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer, word = ir.IntType(8).as_pointer(), ir.IntType(64)
        copy = builder.module.declare_intrinsic("llvm.memcpy", [byte_pointer, byte_pointer, word])
        pointers = [builder.inttoptr(argument, byte_pointer) for argument in arguments[:2]]
        builder.call(copy, [*pointers, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


# Reverses the bytes of a word: big-endian words compare like their bytes.
swap_word: Callable[[np.uint64], np.uint64] = _intrinsic(_swap_word)
# Counts the zero bits below the lowest one bit, of a word that is not 0.
zero_bits: Callable[[np.uint64], int] = _intrinsic(_zero_bits)
# Counts the zero bits above the highest one bit; 64 for 0.
leading_zeros: Callable[[np.uint64], int] = _intrinsic(_leading_zeros)
# Copies (target, source, size) bytes, and no others.
copy_exact: Callable[[int, int, int], None] = _intrinsic(_copy_exact)

# Copies of up to WIDE bytes use words, which reads and writes up to SLACK bytes beyond the end.
WIDE = 128
SLACK = 16


@inlined
def copy_wide(target: int, source: int, size: int, source_end: int) -> None:
    """Copy `size` bytes; may write up to SLACK bytes more, never reads at or after `source_end`."""
    if size > WIDE or source + size + SLACK > source_end:
        copy_exact(target, source, size)
        return
    done = 0
    while True:  # one iteration suffices for most keys
        first, second = load_word(source + done), load_word(source + done + 8)
        store_word(target + done, first)
        store_word(target + done + 8, second)
        done += 16
        if done >= size:
            break


@inlined
def load_part(address: int, size: int) -> np.uint64:
    """Load `size` bytes, up to 8, as the low end of a word."""
    if size >= 8:
        return load_word(address)
    if size >= 4:
        low, high = np.uint64(load32(address)), np.uint64(load32(address + size - 4))
        return low | high << np.uint64(8 * (size - 4))
    if size >= 2:
        low, high = np.uint64(load16(address)), np.uint64(load16(address + size - 2))
        return low | high << np.uint64(8 * (size - 2))
    return np.uint64(load8(address)) if size == 1 else np.uint64(0)


@inlined
def prefix_word(address: int, size: int) -> np.uint64:
    """Return the first 8 of `size` bytes as a big-endian word, zero-padded."""
    return swap_word(load_part(address, size))


@inlined
def swapped64(address: int) -> int:
    """Load a big-endian i64."""
    return int(np.int64(swap_word(load_word(address))))


@inlined
def swapped32(address: int) -> int:
    """Load a big-endian u32."""
    return int(np.int64(swap_word(np.uint64(load32(address))) >> np.uint64(32)))


@inlined
def swapped16(address: int) -> int:
    """Load a big-endian u16."""
    return load8(address) << 8 | load8(address + 1)


@inlined
def common_prefix(left: int, right: int, size: int) -> int:
    """Return the length of the common prefix of `size` bytes at two addresses."""
    done = 0
    while done + 8 <= size:
        difference = load_word(left + done) ^ load_word(right + done)
        if difference != np.uint64(0):
            return done + (zero_bits(difference) >> 3)
        done += 8
    if done < size:
        difference = load_part(left + done, size - done) ^ load_part(right + done, size - done)
        if difference != np.uint64(0):
            return done + (zero_bits(difference) >> 3)
    return size


@called
def compare(left: int, left_size: int, right: int, right_size: int) -> int:
    """Compare two byte strings: negative, 0 or positive, as in C's memcmp."""
    size = min(left_size, right_size)
    done = common_prefix(left, right, size)
    if done < size:
        return load8(left + done) - load8(right + done)
    return left_size - right_size
