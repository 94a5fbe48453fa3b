"""Sequence tracker: maps sequence numbers to seconds, delta-of-delta coded.

    00      u8 version = 1
    01-04   u32 little endian, number of points
    05-..   gorilla(sequence numbers), padded to a byte
    ..      gorilla(seconds), padded to a byte

`gorilla` is a bit stream, most significant bit first: u32 count; the first value in 64 bits; then, per value, the
delta of deltas in one of five forms, see `_PREFIXES`. Source: `docs/reference/format/sequence-tracker.md`.
"""

from __future__ import annotations

import contextlib
import struct
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError, UnsupportedFormatError

VERSION: Final = 1  # on disk, do not change
INTERVAL_S: Final = 60  # least distance of two points
MAX_POINTS: Final = 8192  # above it, every second point is dropped

_HEAD = struct.Struct("<BI")
_STREAM_HEAD = struct.Struct(">I")  # number of values
_FIRST = struct.Struct(">q")
# Five forms, by the number of leading ones; on disk, do not change.
_LIMITS: Final = np.array([0, 63, 255, 2047])  # largest delta of a form; the fifth form holds all others
_PREFIXES: Final = np.array([0b0, 0b10, 0b110, 0b1110, 0b1111], np.uint64)
_PREFIX_BITS: Final = np.array([1, 2, 3, 4, 4])
_CHANGE_BITS: Final = np.array([0, 7, 9, 12, 32])
_BITS: Final = _PREFIX_BITS + _CHANGE_BITS
_SIZE_OF_FORM: Final = bytes(_BITS.tolist()).ljust(256, b"\0")  # for `bytes.translate`
_WORD_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class SequenceTracker:
    """Points (seq, seconds since the epoch); both ascend in a valid tracker."""

    points: tuple[tuple[int, int], ...] = ()

    def record(self, seq: int, seconds: int) -> SequenceTracker:
        """Return the tracker with the point (`seq`, `seconds`), or unchanged if the point is skipped.

        Skipped are points within 60 s of the last one, points that go backwards (the client panics on them), and points
        whose delta of deltas exceeds 32 bits (the client would store a wrong number).
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

    def find_by_seq(self, seq: int, *, round_up: bool) -> tuple[int, int] | None:
        """Return the point of `seq`, or the nearest one below (`round_up`: above) it; None if there is none."""
        at = self._find([point[0] for point in self.points], seq, round_up=round_up)
        return None if at is None else self.points[at]

    def find_by_seconds(self, seconds: int, *, round_up: bool) -> tuple[int, int] | None:
        """Return the point of a second, or the nearest one before (`round_up`: after) it; None if there is none."""
        at = self._find([point[1] for point in self.points], seconds, round_up=round_up)
        return None if at is None else self.points[at]

    @staticmethod
    def _find(values: list[int], wanted: int, *, round_up: bool) -> int | None:
        at = bisect_left(values, wanted)
        if at < len(values) and values[at] == wanted:
            return at
        if round_up:
            return at if at < len(values) else None
        return at - 1 if at else None


def _fits(points: tuple[tuple[int, int], ...]) -> bool:
    """Tell whether the last of up to three points can be encoded after the others."""
    return all(_change_fits([point[part] for point in points]) for part in (0, 1))


def _change_fits(values: list[int]) -> bool:
    if len(values) < 2:
        return True
    before = values[-2] - values[-3] if len(values) > 2 else 0
    return -(1 << 31) <= values[-1] - values[-2] - before < 1 << 31


def encode_sequence_tracker(tracker: SequenceTracker) -> bytes:
    """Encode a tracker; never empty, even without points, since the client panics on an empty field."""
    head = _HEAD.pack(VERSION, len(tracker.points))
    seqs = np.fromiter((seq for seq, _ in tracker.points), np.uint64, len(tracker.points))
    seconds = np.fromiter((at for _, at in tracker.points), np.int64, len(tracker.points))
    return head + _encode_gorilla(seqs.view(np.int64)) + _encode_gorilla(seconds)


def decode_sequence_tracker(data: bytes) -> SequenceTracker:
    """Decode a tracker.

    Raises
    ------
    CorruptDataError : too short, or the counts disagree
    UnsupportedFormatError : unknown version
    """
    data = bytes(data)
    if len(data) < _HEAD.size:
        raise CorruptDataError(f"Sequence tracker has {len(data)} bytes, expected at least {_HEAD.size}.", offset=0)
    version, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise UnsupportedFormatError(f"Sequence tracker has version {version}, expected {VERSION}.")
    seqs, used = _decode_gorilla(data[_HEAD.size :], count)
    seconds, _ = _decode_gorilla(data[_HEAD.size + used :], count)
    return SequenceTracker(tuple(zip(seqs.view(np.uint64).tolist(), seconds.tolist(), strict=True)))


def _encode_gorilla(values: NDArray[np.int64]) -> bytes:
    """Encode int64 values; a delta of deltas beyond 32 bits is truncated, as by the client."""
    head = _STREAM_HEAD.pack(len(values))
    if not len(values):
        return head
    changes = np.diff(np.diff(values, prepend=values[0]))  # the delta before the first one counts as 0
    # The absolute value of the smallest int64 is negative, but needs the last form.
    form = np.where(changes == np.iinfo(np.int64).min, 4, np.searchsorted(_LIMITS, np.abs(changes)))
    masks = (np.uint64(1) << _CHANGE_BITS[form].astype(np.uint64)) - np.uint64(1)
    codes = _PREFIXES[form] << _CHANGE_BITS[form].astype(np.uint64) | changes.view(np.uint64) & masks
    return head + _FIRST.pack(int(values[0])) + _pack_bits(codes, _BITS[form])


def _pack_bits(codes: NDArray[np.uint64], bits: NDArray[np.int64]) -> bytes:
    """Concatenate the low `bits` of each code, zero-padded to a byte.

    Requires: at most 64 bits per code, no higher bits set.
    """
    if not len(codes):
        return b""
    ends = np.cumsum(bits)
    total, starts = int(ends[-1]), ends - bits
    words = np.zeros(total // _WORD_BITS + 2, np.uint64)
    word, left = starts // _WORD_BITS, _WORD_BITS - starts % _WORD_BITS - bits  # free bits after a code in its word
    fits = np.maximum(left, 0).astype(np.uint64), np.maximum(-left, 0).astype(np.uint64)
    firsts = np.flatnonzero(np.diff(word, prepend=-1))
    words[word[firsts]] = np.bitwise_or.reduceat(codes << fits[0] >> fits[1], firsts)
    over = left < 0  # at most one code per word
    words[word[over] + 1] |= codes[over] << (_WORD_BITS + left[over]).astype(np.uint64)
    return words.astype(">u8").tobytes()[: -(-total // 8)]


def _decode_gorilla(data: bytes, expected: int) -> tuple[NDArray[np.int64], int]:
    """Return the values of a stream and its size in bytes."""
    if len(data) < _STREAM_HEAD.size:
        raise CorruptDataError("Sequence tracker ends inside a value count.")
    (count,) = _STREAM_HEAD.unpack_from(data)
    if count != expected:
        raise CorruptDataError(f"Sequence tracker has {count} values, its header says {expected}.")
    if count == 0:
        return np.empty(0, np.int64), _STREAM_HEAD.size
    body = _STREAM_HEAD.size + _FIRST.size
    if body > len(data) or count - 1 > (len(data) - body) * 8:  # a value takes at least one bit
        raise CorruptDataError(f"Sequence tracker ends before its {count} values.")
    changes, used = _decode_changes(data[body:], count - 1)
    values = np.empty(count, np.int64)
    (values[0],) = _FIRST.unpack_from(data, _STREAM_HEAD.size)
    values[1:] = values[0] + np.cumsum(np.cumsum(changes))  # wraps beyond 64 bits, as in the client
    return values, body + used


def _decode_changes(data: bytes, count: int) -> tuple[NDArray[np.int64], int]:
    """Return `count` deltas of deltas and their size in bytes."""
    longest = min(len(data), (count * int(_BITS.max()) + 7) // 8)
    octets = np.zeros(longest + 8, np.uint8)  # room for the last window
    octets[:longest] = np.frombuffer(data, np.uint8, longest)
    form = _forms(octets)
    sizes = form.tobytes().translate(_SIZE_OF_FORM)
    starts, at = [], 0
    with contextlib.suppress(IndexError):  # truncated input is detected below
        for _ in range(count):  # the start of a value depends on its predecessors; the rest is vectorized
            starts.append(at)
            at += sizes[at]
    if len(starts) < count or at > longest * 8:
        raise CorruptDataError(f"Sequence tracker ends before its {count + 1} values.")
    places = np.array(starts, np.int64)
    eight = np.ndarray(longest + 1, ">u8", octets.data, strides=(1,))  # the eight bytes at each offset
    windows = eight[places >> 3].astype(np.uint64)
    chosen = form[places]
    windows <<= (places & 7).astype(np.uint64) + _PREFIX_BITS.astype(np.uint64)[chosen]
    signed = windows.view(np.int64) >> np.minimum(_WORD_BITS - _CHANGE_BITS, _WORD_BITS - 1)[chosen]
    return np.where(chosen == 0, 0, signed), (at + 7) // 8


def _forms(octets: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return, for each bit but the last three, the number of leading ones from there, at most four."""
    bits = np.unpackbits(octets)
    one = bits[:-3]
    two = one & bits[1:-2]
    three = two & bits[2:-1]
    ones: NDArray[np.uint8] = one + two + three + (three & bits[3:])
    return ones
