"""Memory access by address, for kernels: loads, stores, copies, comparisons.

Addresses and lengths are int64, words uint64. Nothing here checks bounds. Kernels use addresses instead of arrays
because numba reference-counts arrays passed to other functions inside the loop, which made one decoder four to eight
times slower. Little-endian hosts only, like all platforms that numba supports.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slatespark.kernels._compile import called, inlined, intrinsic

load8: Callable[[int], int] = intrinsic("load8")
load16: Callable[[int], int] = intrinsic("load16")
load32: Callable[[int], int] = intrinsic("load32")
load64: Callable[[int], int] = intrinsic("load64")
load_word: Callable[[int], np.uint64] = intrinsic("load_word")
store8: Callable[[int, int], None] = intrinsic("store8")
store16: Callable[[int, int], None] = intrinsic("store16")
store32: Callable[[int, int], None] = intrinsic("store32")
store64: Callable[[int, int], None] = intrinsic("store64")
store_word: Callable[[int, np.uint64], None] = intrinsic("store_word")


# Reverses the bytes of a word: big-endian words compare like their bytes.
swap_word: Callable[[np.uint64], np.uint64] = intrinsic("swap_word")
# Counts the zero bits below the lowest one bit, of a word that is not 0.
zero_bits: Callable[[np.uint64], int] = intrinsic("zero_bits")
# Counts the zero bits above the highest one bit; 64 for 0.
leading_zeros: Callable[[np.uint64], int] = intrinsic("leading_zeros")
# Copies (target, source, size) bytes, and no others.
copy_exact: Callable[[int, int, int], None] = intrinsic("copy_exact")

# Fetches the cache line at an address, which need not exist.
prefetch: Callable[[int], None] = intrinsic("prefetch")

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
