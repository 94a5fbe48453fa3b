"""Avro's integers, compiled: zigzag, 7 bits per byte, lowest first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slatespark.kernels._compile import called, inlined, intrinsic
from slatespark.kernels._native import load8, load_word, store8, store_word, zero_bits

_MORE = np.uint64(0x8080808080808080)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)


# Counts the zero bits above the highest one bit, of a word that is not 0.
leading_zeros: Callable[[np.uint64], int] = intrinsic("leading_zeros_of_nonzero")


@inlined
def unzigzag(word: np.uint64) -> int:
    """Decode a zigzag number."""
    return np.int64(word >> _ONE) ^ -np.int64(word & _ONE)  # type: ignore[return-value]


@called
def _read_slowly(at: int, end: int) -> tuple[int, int]:
    word, shift = np.uint64(0), 0
    while at < end and shift < 64:
        byte = load8(at)
        at += 1
        if shift == 63 and byte > 1:
            return 0, 0
        word |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            return unzigzag(word), at
        shift += 7
    return 0, 0


@inlined
def read_long(at: int, end: int, limit: int) -> tuple[int, int]:
    """Return a number and its end; (0, 0) if it does not end before `end`, or has more than 64 bits.

    Reads nothing at or after `limit`, which is at least `end`.
    """
    if at >= end:
        return 0, 0
    byte = load8(at)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 8 <= limit:
        word = load_word(at)
        last = ~word & _MORE
        if last != np.uint64(0):
            bits = zero_bits(last) + 1
            after = at + (bits >> 3)
            if after > end:
                return 0, 0
            word &= (_ALL >> np.uint64(64 - bits)) & np.uint64(0x7F7F7F7F7F7F7F7F)
            # Pairs of 7 bits to 14, pairs of 14 to 28, these to 56.
            word = word & np.uint64(0x007F007F007F007F) | (word & np.uint64(0x7F007F007F007F00)) >> _ONE
            word = word & np.uint64(0x00003FFF00003FFF) | (word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
            word = word & np.uint64(0x000000000FFFFFFF) | (word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
            return unzigzag(word), after
    return _read_slowly(at, end)


@inlined
def skip_long(at: int, end: int, limit: int) -> int:
    """Return the end of a number, or 0 if `read_long` returns (0, 0)."""
    if at >= end:
        return 0
    if load8(at) < 0x80:
        return at + 1
    if at + 8 <= limit:
        last = ~load_word(at) & _MORE
        if last != np.uint64(0):
            after = at + ((zero_bits(last) + 1) >> 3)
            return after if after <= end else 0
    return _read_slowly(at, end)[1]


@called
def _write_slowly(at: int, word: np.uint64) -> int:
    while word >= np.uint64(0x80):
        store8(at, int(np.int64(word & np.uint64(0x7F))) | 0x80)
        word >>= np.uint64(7)
        at += 1
    store8(at, int(np.int64(word)))
    return at + 1


@inlined
def write_long(at: int, number: int) -> int:
    """Write a number and return its end; may write up to 7 bytes more."""
    word = np.uint64((number << 1) ^ (number >> 63))
    if word < np.uint64(0x80):
        store8(at, int(np.int64(word)))
        return at + 1
    bits = 64 - leading_zeros(word)
    if bits > 56:
        return _write_slowly(at, word)
    word = word & np.uint64(0x000000000FFFFFFF) | (word & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4)
    word = word & np.uint64(0x00003FFF00003FFF) | (word & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2)
    word = word & np.uint64(0x007F007F007F007F) | (word & np.uint64(0x3F803F803F803F80)) << _ONE
    size = (bits + 6) // 7
    store_word(at, word | _MORE & ((_ONE << np.uint64(8 * (size - 1))) - _ONE))
    return at + size
