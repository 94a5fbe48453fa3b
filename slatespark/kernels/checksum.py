"""CRC-32 of many blocks, compiled: folding by carry-less multiplication.

Sixteen bytes at a time are multiplied by powers of x modulo the polynomial and added to the data 64 bytes later. The
remainder is reduced to 32 bits at the end. The constants are x^n mod P(x), bit-reflected, for the distances in their
names; P is 0x04C11DB7, the polynomial of zlib. Method: Gopal et al., "Fast CRC computation for generic polynomials
using PCLMULQDQ instruction", 2009. Processors without that instruction use zlib (`reference/checksum.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, inlined, intrinsic
from slatespark.kernels._native import load8, load64, load_word, store_word, swapped32
from slatespark.kernels._object_code import processor_features
from slatespark.kernels._sources import address_of, checked_address
from slatespark.kernels.reference import checksum as plain

_FOLD_512_LOW, _FOLD_512_HIGH = np.uint64(0x154442BD4), np.uint64(0x1C6E41596)  # 512 bits on
_FOLD_128_LOW, _FOLD_128_HIGH = np.uint64(0x1751997D0), np.uint64(0x0CCAA009E)  # 128 bits on
_FOLD_64 = np.uint64(0x163CD6124)
_POLYNOMIAL, _QUOTIENT = np.uint64(0x1DB710641), np.uint64(0x1F7011641)  # P and floor(x^64 / P), for Barrett reduction
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_HALF_BITS = np.uint64(32)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_REFLECTED = np.uint64(0xEDB8_8320)


def crc32_blocks(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """See `slatespark.kernels.crc32_blocks`."""
    if "pclmul" not in processor_features():
        return plain.crc32_blocks(data, starts, ends)
    sums = np.empty(len(starts), np.uint64)
    _crc32_blocks(
        checked_address(data, np.uint8, 0),
        checked_address(starts, np.int64, 0),
        checked_address(ends, np.int64, len(starts)),
        len(starts),
        address_of(sums),
    )
    return sums.astype(np.uint32)


def first_wrong_block(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """See `slatespark.kernels.first_wrong_block`."""
    if "pclmul" not in processor_features():
        return plain.first_wrong_block(data, starts, ends)
    blocks = checked_address(starts, np.int64, 0), checked_address(ends, np.int64, len(starts)), len(starts)
    return _first_wrong_block(checked_address(data, np.uint8, 0), *blocks)


# The carry-less product of two words as (low, high) words.
_product: Callable[[np.uint64, np.uint64], tuple[np.uint64, np.uint64]] = intrinsic("carryless_product")


@inlined
def _fold(
    low: np.uint64, high: np.uint64, by_low: np.uint64, by_high: np.uint64, address: int
) -> tuple[np.uint64, np.uint64]:
    """Fold 128 bits by the distance of the constants onto the 16 bytes at `address`."""
    a_low, a_high = _product(low, by_low)
    b_low, b_high = _product(high, by_high)
    return a_low ^ b_low ^ load_word(address), a_high ^ b_high ^ load_word(address + 8)


@inlined
def _by_bits(crc: np.uint64, start: int, end: int) -> np.uint64:
    """Add single bytes to a checksum, for the last few bytes."""
    for address in range(start, end):
        crc ^= np.uint64(load8(address))
        for _ in range(8):
            crc = (crc >> _ONE) ^ (_REFLECTED if crc & _ONE else _ZERO)
    return crc


@inlined
def _reduce(low: np.uint64, high: np.uint64) -> np.uint64:
    """Reduce 128 bits to a checksum."""
    a_low, a_high = _product(low, _FOLD_128_HIGH)
    low, high = a_low ^ high, a_high
    b_low, b_high = _product(low & _LOW_HALF, _FOLD_64)
    low, high = (low >> _HALF_BITS | high << _HALF_BITS) ^ b_low, (high >> _HALF_BITS) ^ b_high
    quotient, _ = _product(low & _LOW_HALF, _QUOTIENT)
    remainder, _ = _product(quotient & _LOW_HALF, _POLYNOMIAL)
    return (low ^ remainder) >> _HALF_BITS


@inlined
def _crc32(start: int, end: int) -> np.uint64:
    if end - start < 64:
        return _by_bits(_LOW_HALF, start, end) ^ _LOW_HALF
    low0, high0 = load_word(start) ^ _LOW_HALF, load_word(start + 8)
    low1, high1 = load_word(start + 16), load_word(start + 24)
    low2, high2 = load_word(start + 32), load_word(start + 40)
    low3, high3 = load_word(start + 48), load_word(start + 56)
    at = start + 64
    while at + 64 <= end:
        low0, high0 = _fold(low0, high0, _FOLD_512_LOW, _FOLD_512_HIGH, at)
        low1, high1 = _fold(low1, high1, _FOLD_512_LOW, _FOLD_512_HIGH, at + 16)
        low2, high2 = _fold(low2, high2, _FOLD_512_LOW, _FOLD_512_HIGH, at + 32)
        low3, high3 = _fold(low3, high3, _FOLD_512_LOW, _FOLD_512_HIGH, at + 48)
        at += 64
    for low, high in ((low1, high1), (low2, high2), (low3, high3)):
        a_low, a_high = _product(low0, _FOLD_128_LOW)
        b_low, b_high = _product(high0, _FOLD_128_HIGH)
        low0, high0 = a_low ^ b_low ^ low, a_high ^ b_high ^ high
    while at + 16 <= end:
        low0, high0 = _fold(low0, high0, _FOLD_128_LOW, _FOLD_128_HIGH, at)
        at += 16
    return _by_bits(_reduce(low0, high0), at, end) ^ _LOW_HALF


@partial(Kernel, machine="x86_64")
def _crc32_blocks(data: int, starts: int, ends: int, count: int, sums: int) -> int:
    for block in range(count):
        start, end = load64(starts + 8 * block), load64(ends + 8 * block)
        store_word(sums + 8 * block, _crc32(data + start, data + end))
    return 0


@partial(Kernel, machine="x86_64")
def _first_wrong_block(data: int, starts: int, ends: int, count: int) -> int:
    for block in range(count):
        start, end = data + load64(starts + 8 * block), data + load64(ends + 8 * block)
        if np.int64(_crc32(start, end)) != swapped32(end):
            return block
    return -1
