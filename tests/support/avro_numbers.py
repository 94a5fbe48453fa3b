"""Numbers as Avro writes them."""

from __future__ import annotations


def zigzag(number: int) -> bytes:
    """Return a 64-bit integer as a zigzag varint."""
    word, out = (number << 1) ^ (number >> 63), bytearray()
    while word >= 0x80:
        out.append(word & 0x7F | 0x80)
        word >>= 7
    return bytes([*out, word])
