"""Bloom filters. Source: `docs/reference/format/filter.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.bloom import bloom_shape, split_bloom
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.reference.gather import unpacked
from slatespark.kernels.siphash import hash_key


def hash_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """See `slatespark.kernels.hash_keys`."""
    return np.array([hash_key(source.key(row)) for source, row in unpacked(sources, rows)], np.uint64)


def build_bloom(hashes: NDArray[np.uint64], bits_per_key: int) -> bytes:
    """See `slatespark.kernels.build_bloom`."""
    bits, probes = bloom_shape(len(hashes), bits_per_key)
    table = bytearray(bits // 8)
    for value in hashes.tolist():
        for bit in _probed_bits(value, bits, probes):
            table[bit // 8] |= 1 << (bit % 8)
    return probes.to_bytes(2, "big") + bytes(table)


def probe_bloom(data: bytes | memoryview, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """See `slatespark.kernels.probe_bloom`."""
    table, probes = split_bloom(data)
    if not len(table):
        return np.zeros(len(hashes), np.bool_)
    bits = 8 * len(table)
    return np.array(
        [all(table[bit // 8] >> (bit % 8) & 1 for bit in _probed_bits(h, bits, probes)) for h in hashes.tolist()],
        np.bool_,
    )


def _probed_bits(value: int, bits: int, probes: int) -> list[int]:
    """Return the bits set by a hash: enhanced double hashing."""
    bit, step = (value & 0xFFFF_FFFF) % bits, (value >> 32) % bits
    probed = []
    for number in range(probes):
        step = (step + number) % bits
        probed.append(bit)
        bit = (bit + step) % bits
    return probed
