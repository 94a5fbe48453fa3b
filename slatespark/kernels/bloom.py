"""Layout of bloom filter data: u16 num_probes (big-endian) || bits. Source: `docs/reference/format/filter.md`."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError, InvalidRequestError

PROBES_BYTES: Final = 2


def bloom_shape(keys: int, bits_per_key: int) -> tuple[int, int]:
    """Return the bits and the number of probes of a filter for `keys` keys.

    Raises
    ------
    InvalidRequestError : the filter is too large; the client counts its bits in a u32
    """
    # Rounded to float32 twice, as in the client; do not change.
    probes = int(np.float32(bits_per_key) * np.float32(0.69))
    if bits_per_key < 1 or probes > 0xFFFF:
        raise InvalidRequestError(f"Bloom filters cannot have {bits_per_key} bits per key.", todo="Use 10.")
    if keys * bits_per_key >= 1 << 32:
        raise InvalidRequestError(
            f"A bloom filter of {keys} keys with {bits_per_key} bits per key exceeds 2^32 bits.",
            todo="Write smaller SSTs, or use fewer bits per key.",
        )
    return (keys * bits_per_key + 7) // 8 * 8, probes


def split_bloom(data: bytes | memoryview) -> tuple[NDArray[np.uint8], int]:
    """Return the bit array, as bytes, and the number of probes."""
    raw = np.frombuffer(data, np.uint8)
    if len(raw) < PROBES_BYTES:
        raise CorruptDataError(f"Bloom filter data has {len(raw)} bytes, expected at least {PROBES_BYTES}.", offset=0)
    return raw[PROBES_BYTES:], int(raw[0]) << 8 | int(raw[1])
