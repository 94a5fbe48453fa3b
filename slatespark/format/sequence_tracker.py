"""Sequence tracker: maps sequence numbers to seconds, delta-of-delta coded.

    00      u8 version, 1 or 2
    01-04   u32 little endian, number of points
    05-..   gorilla(sequence numbers), padded to a byte
    ..      gorilla(seconds), padded to a byte

`gorilla` is a bit stream, most significant bit first: u32 count; the first value in 64 bits; then, per value, the
delta of deltas in one of five forms, see `_PREFIXES`. The fifth has 32 bits in version 1 and 64 in version 2. Only
clients from 0.18 on read version 2; it is written where version 1 cannot hold the points. Source:
`docs/reference/format/sequence-tracker.md`.
"""

from __future__ import annotations

import contextlib
import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError, UnsupportedFormatError

VERSION: Final = 1  # on disk, do not change
WIDE_VERSION: Final = 2  # on disk, do not change
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
_WIDEST_FORM: Final = 4


_DecodeChanges: TypeAlias = Callable[[bytes, int], tuple[NDArray[np.int64], int]]


@dataclass(frozen=True, slots=True)
class SequenceTracker:
    """Points (seq, seconds since the epoch); both ascend in a valid tracker."""

    points: tuple[tuple[int, int], ...] = ()

    def record(self, seq: int, seconds: int) -> SequenceTracker:
        """Return the tracker with the point (`seq`, `seconds`), or unchanged if the point is skipped.

        Skipped are points within 60 s of the last one, points that go backwards (the client panics on them), and points
        that would turn a tracker of version 1 into one of version 2, which clients before 0.18 cannot read.
        """
        if not self.points:
            return SequenceTracker(((seq, seconds),))
        last_seq, last_seconds = self.points[-1]
        if seconds - last_seconds < INTERVAL_S or seq < last_seq:
            return self
        points = (*self.points, (seq, seconds))
        if len(points) > MAX_POINTS:
            points = points[::2]
            fits = _all_fit(points)
        else:
            fits = _fits(points[-3:])
        return SequenceTracker(points) if fits or not _all_fit(self.points) else self

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
    """Tell whether version 1 can hold the last of up to three points after the others."""
    return all(_change_fits([point[part] for point in points]) for part in (0, 1))


def _all_fit(points: tuple[tuple[int, int], ...]) -> bool:
    """Tell whether version 1 can hold the points."""
    return all(_fits(points[max(end - 3, 0) : end]) for end in range(2, len(points) + 1))


def _change_fits(values: list[int]) -> bool:
    if len(values) < 2:
        return True
    before = values[-2] - values[-3] if len(values) > 2 else 0
    return -(1 << 31) <= values[-1] - values[-2] - before < 1 << 31


def encode_sequence_tracker(tracker: SequenceTracker) -> bytes:
    """Encode a tracker; never empty, even without points, since the client panics on an empty field."""
    seqs = np.fromiter((seq for seq, _ in tracker.points), np.uint64, len(tracker.points)).view(np.int64)
    seconds = np.fromiter((at for _, at in tracker.points), np.int64, len(tracker.points))
    is_wide = any(not _is_narrow(_changes_of(values)).all() for values in (seqs, seconds))
    head = _HEAD.pack(WIDE_VERSION if is_wide else VERSION, len(tracker.points))
    encode = _encode_wide if is_wide else _encode_gorilla
    return head + encode(seqs) + encode(seconds)


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
    if version not in (VERSION, WIDE_VERSION):
        raise UnsupportedFormatError(f"Sequence tracker has version {version}, expected {VERSION} or {WIDE_VERSION}.")
    decode_changes = _decode_changes if version == VERSION else _decode_wide_changes
    seqs, used = _decode_gorilla(data[_HEAD.size :], count, decode_changes)
    seconds, _ = _decode_gorilla(data[_HEAD.size + used :], count, decode_changes)
    return SequenceTracker(tuple(zip(seqs.view(np.uint64).tolist(), seconds.tolist(), strict=True)))


def _encode_gorilla(values: NDArray[np.int64]) -> bytes:
    """Encode int64 values for version 1. Requires: every delta of deltas has at most 32 bits."""
    head = _STREAM_HEAD.pack(len(values))
    if not len(values):
        return head
    changes = _changes_of(values)
    form = _forms_of(changes)
    masks = (np.uint64(1) << _CHANGE_BITS[form].astype(np.uint64)) - np.uint64(1)
    codes = _PREFIXES[form] << _CHANGE_BITS[form].astype(np.uint64) | changes.view(np.uint64) & masks
    return head + _FIRST.pack(int(values[0])) + _pack_bits(codes, _BITS[form])


def _encode_wide(values: NDArray[np.int64]) -> bytes:
    """Encode int64 values for version 2, value by value: such trackers are rare."""
    head = _STREAM_HEAD.pack(len(values))
    if not len(values):
        return head
    changes = _changes_of(values)
    bits = []
    for form, change in zip(_forms_of(changes).tolist(), changes.tolist(), strict=True):
        size = _WORD_BITS if form == _WIDEST_FORM else int(_CHANGE_BITS[form])
        code = int(_PREFIXES[form]) << size | change & ((1 << size) - 1)
        bits.append(format(code, f"0{int(_PREFIX_BITS[form]) + size}b"))
    stream = "".join(bits)
    octets = -(-len(stream) // 8)
    return head + _FIRST.pack(int(values[0])) + int(stream.ljust(octets * 8, "0") or "0", 2).to_bytes(octets)


def _changes_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the deltas of deltas, one less than values; the delta before the first one counts as 0. They wrap."""
    return np.diff(np.diff(values, prepend=values[:1]))


def _is_narrow(changes: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (changes >= -(1 << 31)) & (changes < 1 << 31)


def _forms_of(changes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the form of each delta of deltas."""
    # The absolute value of the smallest int64 is negative, but needs the last form.
    smallest = changes == np.iinfo(np.int64).min
    return np.where(smallest, _WIDEST_FORM, np.searchsorted(_LIMITS, np.abs(changes)))


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


def _decode_gorilla(data: bytes, expected: int, decode_changes: _DecodeChanges) -> tuple[NDArray[np.int64], int]:
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
    changes, used = decode_changes(data[body:], count - 1)
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
    positions = np.array(starts, np.int64)
    eight = np.ndarray(longest + 1, ">u8", octets.data, strides=(1,))  # the eight bytes at each offset
    windows = eight[positions >> 3].astype(np.uint64)
    chosen = form[positions]
    windows <<= (positions & 7).astype(np.uint64) + _PREFIX_BITS.astype(np.uint64)[chosen]
    signed = windows.view(np.int64) >> np.minimum(_WORD_BITS - _CHANGE_BITS, _WORD_BITS - 1)[chosen]
    return np.where(chosen == 0, 0, signed), (at + 7) // 8


def _decode_wide_changes(data: bytes, count: int) -> tuple[NDArray[np.int64], int]:
    """Return `count` deltas of deltas of version 2 and their size in bytes."""
    changes, at = [], 0
    for _ in range(count):
        prefix = _bits_at(data, at, _WIDEST_FORM)
        form = f"{prefix:04b}0".index("0")
        size = _WORD_BITS if form == _WIDEST_FORM else int(_CHANGE_BITS[form])
        at += int(_PREFIX_BITS[form])
        value = _bits_at(data, at, size)
        changes.append(value - (1 << size) if size and value >> (size - 1) else value)
        at += size
    if at > len(data) * 8:
        raise CorruptDataError(f"Sequence tracker ends before its {count + 1} values.")
    return np.array(changes, np.int64), (at + 7) // 8


def _bits_at(data: bytes, at: int, size: int) -> int:
    """Return `size` bits from bit `at` on; zeros behind the end."""
    end = -(-(at + size) // 8)
    octets = data[at // 8 : end].ljust(end - at // 8, b"\0")
    return int.from_bytes(octets) >> (end * 8 - at - size) & ((1 << size) - 1)


def _forms(octets: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return, for each bit but the last three, the number of leading ones from there, at most four."""
    bits = np.unpackbits(octets)
    one = bits[:-3]
    two = one & bits[1:-2]
    three = two & bits[2:-1]
    ones: NDArray[np.uint8] = one + two + three + (three & bits[3:])
    return ones
