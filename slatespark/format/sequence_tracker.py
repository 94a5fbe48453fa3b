"""Sequence tracker: which sequence number was reached at which second, delta-of-delta coded.

    00      u8 version = 1
    01-04   u32 little endian, number of points
    05-..   gorilla(sequence numbers), padded to a byte
    ..      gorilla(seconds), padded to a byte

`gorilla` is a bit stream, most significant bit first: u32 count; the first value in 64 bits; then per value the change
of its distance to the one before, in one of five forms (`_FORMS`). Source: spec section 4.8.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from slatespark.errors import CorruptDataError, UnsupportedFormatError

VERSION: Final = 1  # on disk, do not change
INTERVAL_S: Final = 60  # a point is taken only this long after the last one
MAX_POINTS: Final = 8192  # above it every second point goes

_HEAD = struct.Struct("<BI")
_COUNT_BITS: Final = 32
_VALUE_BITS: Final = 64
_U64: Final = (1 << 64) - 1
# (largest change, prefix, bits of the prefix, bits of the change); on disk, do not change
_FORMS: Final = ((63, 0b10, 2, 7), (255, 0b110, 3, 9), (2047, 0b1110, 4, 12), ((1 << 31) - 1, 0b1111, 4, 32))
_WIDTHS: Final = (0, 7, 9, 12, 32)  # bits of the change, by leading ones


@dataclass(frozen=True, slots=True)
class SequenceTracker:
    """Points (seq, seconds since the epoch), both ascending as far as a sound writer made them."""

    points: tuple[tuple[int, int], ...] = ()

    def record(self, seq: int, seconds: int) -> SequenceTracker:
        """Return the tracker after a commit that reached `seq` at `seconds`; itself where the point is not taken.

        Not taken are points within 60 s of the last one, points that go backwards (the client would stop at them), and
        points that its 32-bit form cannot hold: it would store a wrong number.
        """
        if not self.points:
            return SequenceTracker(((seq, seconds),))
        last_seq, last_seconds = self.points[-1]
        if seconds - last_seconds < INTERVAL_S or seq < last_seq:
            return self
        points = (*self.points, (seq, seconds))
        if len(points) > MAX_POINTS:
            points = points[::2]
            fits = all(_fits(points[max(end - 3, 0) : end]) for end in range(2, len(points) + 1))
        else:
            fits = _fits(points[-3:])
        return SequenceTracker(points) if fits else self

    def find_seconds(self, seq: int, *, round_up: bool) -> int | None:
        """Return the second at which `seq` was reached, from the nearest point at or below (above) it."""
        at = self._find([point[0] for point in self.points], seq, round_up=round_up)
        return None if at is None else self.points[at][1]

    def find_seq(self, seconds: int, *, round_up: bool) -> int | None:
        """Return the sequence number reached at a second, from the nearest point at or before (after) it."""
        at = self._find([point[1] for point in self.points], seconds, round_up=round_up)
        return None if at is None else self.points[at][0]

    @staticmethod
    def _find(values: list[int], wanted: int, *, round_up: bool) -> int | None:
        at = bisect_left(values, wanted)
        if at < len(values) and values[at] == wanted:
            return at
        if round_up:
            return at if at < len(values) else None
        return at - 1 if at else None


def _fits(points: tuple[tuple[int, int], ...]) -> bool:
    """Tell whether the last of up to three points can be coded after the others."""
    return all(_change_fits([point[part] for point in points]) for part in (0, 1))


def _change_fits(values: list[int]) -> bool:
    if len(values) < 2:
        return True
    before = values[-2] - values[-3] if len(values) > 2 else 0
    return -(1 << 31) <= values[-1] - values[-2] - before < 1 << 31


def encode_sequence_tracker(tracker: SequenceTracker) -> bytes:
    """Return the bytes of a tracker; one without points has bytes too (the client stops at an empty field)."""
    head = _HEAD.pack(VERSION, len(tracker.points))
    seqs, seconds = [seq for seq, _ in tracker.points], [at for _, at in tracker.points]
    return head + _encode_gorilla(seqs) + _encode_gorilla(seconds)


def decode_sequence_tracker(data: bytes) -> SequenceTracker:
    """Return the tracker that `data` holds.

    Raises
    ------
    CorruptDataError : too short, or the counts disagree
    UnsupportedFormatError : another version
    """
    data = bytes(data)
    if len(data) < _HEAD.size:
        raise CorruptDataError(f"Sequence tracker has {len(data)} bytes, expected at least {_HEAD.size}.", offset=0)
    version, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise UnsupportedFormatError(f"Sequence tracker has version {version}, expected {VERSION}.")
    seqs, used = _decode_gorilla(data[_HEAD.size :], count)
    seconds, _ = _decode_gorilla(data[_HEAD.size + used :], count)
    return SequenceTracker(tuple(zip((seq & _U64 for seq in seqs), seconds, strict=True)))


def _signed(value: int, bits: int) -> int:
    """Two's complement of the low `bits` of `value`."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _encode_gorilla(values: list[int]) -> bytes:
    bits: list[str] = [f"{len(values):0{_COUNT_BITS}b}"]
    before, distance = 0, 0
    for place, value in enumerate(_signed(value, _VALUE_BITS) for value in values):
        if place == 0:
            bits.append(f"{value & _U64:0{_VALUE_BITS}b}")
        else:
            bits.append(_change_bits(value - before - distance))
            distance = value - before
        before = value
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def _change_bits(change: int) -> str:
    if change == 0:
        return "0"
    for limit, prefix, prefix_bits, change_bits in _FORMS:
        if abs(change) <= limit or change_bits == 32:  # beyond 32 bits the client cuts off; `record` keeps us from it
            return f"{prefix << change_bits | change & ((1 << change_bits) - 1):0{prefix_bits + change_bits}b}"
    raise AssertionError("unreachable")


def _decode_gorilla(data: bytes, expected: int) -> tuple[list[int], int]:
    """Return the values of a stream, and the bytes it takes."""
    total = len(data) * 8
    if total < _COUNT_BITS:
        raise CorruptDataError("Sequence tracker ends inside a count.")
    count = int.from_bytes(data[:4], "big")
    if count != expected:
        raise CorruptDataError(f"Sequence tracker holds {count} values, its head says {expected}.")
    if count == 0:
        return [], 4
    at = _COUNT_BITS + _VALUE_BITS
    if at + count - 1 > total:  # a value takes a bit at least: nothing is allocated for a wild count
        raise CorruptDataError(f"Sequence tracker ends before its {count} values.")
    value, distance = _signed(int.from_bytes(data[4:12], "big"), _VALUE_BITS), 0
    values = [value]
    padded = data + bytes(8)  # so that a window may be read at the end
    for _ in range(count - 1):
        # 40 bits; the longest form has 36
        window = int.from_bytes(padded[at >> 3 : (at >> 3) + 6], "big") >> 8 - (at & 7)
        ones = 0
        while ones < 4 and window >> 39 - ones & 1:
            ones += 1
        prefix_bits, change_bits = min(ones + 1, 4), _WIDTHS[ones]
        if change_bits:
            distance += _signed(window >> 40 - prefix_bits - change_bits, change_bits)
        at += prefix_bits + change_bits
        if at > total:
            raise CorruptDataError(f"Sequence tracker ends before its {count} values.")
        value = _signed(value + distance, _VALUE_BITS)
        values.append(value)
    return values, (at + 7) // 8
