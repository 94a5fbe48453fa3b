"""Bloom filters, compiled. Source: `docs/reference/format/filter.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, inlined
from slatespark.kernels._native import load8, load64, load_part, load_word, store8, store_word
from slatespark.kernels._sources import address_of, checked_address, line_of, position_of, source_table
from slatespark.kernels.bloom import PROBES_BYTES, bloom_shape, split_bloom
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.gather import check_row, key_of
from slatespark.kernels.siphash import INITIAL_STATE

_V0, _V1, _V2, _V3 = (np.uint64(word) for word in INITIAL_STATE)
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_HALF_BITS = np.uint64(32)


def hash_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """See `slatespark.kernels.hash_keys`."""
    rows = np.ascontiguousarray(rows, np.int64)
    table, hashes = source_table(sources), np.empty(len(rows), np.uint64)
    bad = _hash_keys(address_of(table), len(sources), address_of(rows), len(rows), address_of(hashes))
    check_row(bad, sources, rows)
    return hashes


def build_bloom(hashes: NDArray[np.uint64], bits_per_key: int) -> bytes:
    """See `slatespark.kernels.build_bloom`."""
    bits, probes = bloom_shape(len(hashes), bits_per_key)
    data = np.zeros(PROBES_BYTES + bits // 8, np.uint8)
    data[0], data[1] = probes >> 8, probes & 0xFF
    _set_bits(checked_address(hashes, np.uint64, 0), len(hashes), address_of(data) + PROBES_BYTES, bits, probes)
    return data.tobytes()


def probe_bloom(data: bytes | memoryview, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """See `slatespark.kernels.probe_bloom`."""
    table, probes = split_bloom(data)
    hits = np.zeros(len(hashes), np.bool_)
    if len(table):
        source = checked_address(hashes, np.uint64, 0)
        _probe(source, len(hashes), checked_address(table, np.uint8, 0), 8 * len(table), probes, address_of(hits))
    return hits


@inlined
def _rotated(word: np.uint64, by: int) -> np.uint64:
    return np.uint64(word << np.uint64(by) | word >> np.uint64(64 - by))


@inlined
def _round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Run one SipHash round; `slatespark.kernels.siphash` is the same in plain Python."""
    v0 += v1
    v2 += v3
    v1 = _rotated(v1, 13) ^ v0
    v3 = _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32) + v3
    v2 += v1
    v3 = _rotated(v3, 21) ^ v0
    v1 = _rotated(v1, 17) ^ v2
    return v0, v1, _rotated(v2, 32), v3


@inlined
def _siphash(key: int, size: int) -> np.uint64:
    """Return SipHash-1-3 with key 0/0 of the bytes at an address."""
    v0, v1, v2, v3 = _V0, _V1, _V2, _V3
    whole = size & ~7
    for at in range(0, whole, 8):
        word = load_word(key + at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    word = load_part(key + whole, size - whole) | np.uint64(size & 0xFF) << np.uint64(56)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xFF)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@Kernel
def _hash_keys(table: int, sources: int, rows: int, count: int, hashes: int) -> int:
    """Write the hash of each key; return `-1 - i` if row i is invalid."""
    for number in range(count):
        packed = load64(rows + 8 * number)
        line = line_of(table, sources, packed)
        if line == 0:
            return -1 - number
        key, size = key_of(line, position_of(packed))
        store_word(hashes + 8 * number, _siphash(key, size))
    return 0


@inlined
def _first_probe(hashes: int, number: int, bits: int) -> tuple[int, int]:
    """Return the first bit to probe for a hash, and the step to the next one."""
    value = load_word(hashes + 8 * number)
    return int(np.int64(value & _LOW_HALF)) % bits, int(np.int64(value >> _HALF_BITS)) % bits


@inlined
def _next_probe(bit: int, step: int, number: int, bits: int) -> tuple[int, int]:
    """Return the bit to probe after probe `number`, and the next step. Subtraction is cheaper than division."""
    bit += step
    if bit >= bits:
        bit -= bits
    step += number + 1
    if step >= bits:
        step %= bits
    return bit, step


@Kernel
def _set_bits(hashes: int, count: int, table: int, bits: int, probes: int) -> int:
    """Set the bits of each hash."""
    for number in range(count):
        bit, step = _first_probe(hashes, number, bits)
        for probe in range(probes):
            at = table + (bit >> 3)
            store8(at, load8(at) | 1 << (bit & 7))
            bit, step = _next_probe(bit, step, probe, bits)
    return 0


@Kernel
def _probe(hashes: int, count: int, table: int, bits: int, probes: int, hits: int) -> int:
    """Write 1 for each hash whose bits are all set."""
    for number in range(count):
        bit, step = _first_probe(hashes, number, bits)
        hit = 1
        for probe in range(probes):
            if load8(table + (bit >> 3)) >> (bit & 7) & 1 == 0:
                hit = 0
                break
            bit, step = _next_probe(bit, step, probe, bits)
        store8(hits + number, hit)
    return 0
