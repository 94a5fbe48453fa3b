"""ULID <-> number, text, milliseconds: 48 bits of time followed by 80 random bits."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from slatespark.errors import CorruptDataError

# Crockford's base 32 without I, L, O, U; on disk, do not change. Source: `docs/reference/format/objects.md`.
ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TEXT_LENGTH: Final = 26

_RANDOM_BITS: Final = 80
_HALF_BITS: Final = 64
_LOW_MASK: Final = (1 << _HALF_BITS) - 1
_FROM_BASE32: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ALPHABET.encode("ascii"))
_VALUES: Final = {letter: value for value, letter in enumerate(ALPHABET)} | {
    letter.lower(): value for value, letter in enumerate(ALPHABET)
}


@dataclass(frozen=True, slots=True, order=True)
class Ulid:
    """A 128-bit id, ordered by time; the order within a millisecond is random."""

    value: int

    def __post_init__(self) -> None:
        if not 0 <= self.value < 1 << 128:
            raise ValueError(f"ULID is {self.value:#x}, expected 128 bits")

    @classmethod
    def parse(cls, text: str) -> Ulid:
        """Parse a ULID; raises `CorruptDataError` for other text."""
        value = 0
        if len(text) != TEXT_LENGTH:
            raise CorruptDataError(f"ULID {text!r} has {len(text)} characters, expected {TEXT_LENGTH}.")
        for letter in text:
            digit = _VALUES.get(letter)
            if digit is None:
                raise CorruptDataError(f"ULID {text!r} has the character {letter!r}, which is not base 32.")
            value = value << 5 | digit
        if value >> 128:
            raise CorruptDataError(f"ULID {text!r} exceeds 128 bits.")
        return cls(value)

    @classmethod
    def from_halves(cls, high: int, low: int) -> Ulid:
        """Return the ULID of two unsigned 64-bit halves, as stored in flatbuffers."""
        return cls(high << _HALF_BITS | low)

    @property
    def high(self) -> int:
        """Upper 64 bits."""
        return self.value >> _HALF_BITS

    @property
    def low(self) -> int:
        """Lower 64 bits."""
        return self.value & _LOW_MASK

    @property
    def timestamp_ms(self) -> int:
        """Time part, ms since the epoch."""
        return self.value >> _RANDOM_BITS

    def __str__(self) -> str:
        # The library encodes groups of five bytes: 130 bits and 30 zero bits are 20 bytes.
        packed = base64.b32encode((self.value << 30).to_bytes(20, "big"))
        return packed[:TEXT_LENGTH].translate(_FROM_BASE32).decode("ascii")

    def __repr__(self) -> str:
        return f"Ulid({self})"


def make_ulid(timestamp_ms: int, random_bits: int) -> Ulid:
    """Return the ULID of a time and 80 random bits.

    Requires: 0 <= timestamp_ms < 2^48, 0 <= random_bits < 2^80.
    """
    if not 0 <= timestamp_ms < 1 << 48:
        raise ValueError(f"ULID time is {timestamp_ms} ms, expected 48 bits")
    if not 0 <= random_bits < 1 << _RANDOM_BITS:
        raise ValueError("ULID has more than 80 random bits")
    return Ulid(timestamp_ms << _RANDOM_BITS | random_bits)
