"""SipHash-1-3 with key 0/0, the hash of SlateDB's bloom filters, in plain Python."""

from __future__ import annotations

from typing import Final

# Initial state for the key 0/0: the ASCII of "somepseudorandomlygeneratedbytes". Do not change. Source: SipHash paper.
INITIAL_STATE: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


def hash_key(key: bytes) -> int:
    """Return the 64-bit hash of `key`."""
    state = INITIAL_STATE
    whole = len(key) & ~7
    for at in range(0, whole, 8):
        state = _absorb(state, int.from_bytes(key[at : at + 8], "little"))
    state = _absorb(state, int.from_bytes(key[whole:], "little") | (len(key) & 0xFF) << 56)
    v0, v1, v2, v3 = state
    state = (v0, v1, v2 ^ 0xFF, v3)
    for _ in range(3):
        state = _round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _absorb(state: tuple[int, int, int, int], word: int) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = _round(state[0], state[1], state[2], state[3] ^ word)
    return v0 ^ word, v1, v2, v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v2 = (v2 + v3) & _MASK
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = (_rotate(v0, 32) + v3) & _MASK
    v2 = (v2 + v1) & _MASK
    v3 = _rotate(v3, 21) ^ v0
    v1 = _rotate(v1, 17) ^ v2
    return v0, v1, _rotate(v2, 32), v3


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK
