from __future__ import annotations

import struct
from itertools import pairwise
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.sequence_tracker import (
    SequenceTracker,
    decode_sequence_tracker,
    encode_sequence_tracker,
)

steps = st.one_of(st.integers(0, 70), st.integers(0, 3000), st.integers(0, 1 << 29))

offers = st.lists(st.tuples(steps, steps), max_size=60)


@given(offers, st.integers(0, 1 << 40))
def test_recorded_points_round_trip(moves: list[tuple[int, int]], start: int) -> None:
    tracker, seq, seconds = SequenceTracker(), start, 1_700_000_000
    for seq_step, time_step in moves:
        seq, seconds = seq + seq_step, seconds + time_step
        before, tracker = tracker, tracker.record(seq, seconds)
        assert tracker.points[: len(before.points)] == before.points
    assert decode_sequence_tracker(encode_sequence_tracker(tracker)) == tracker
    assert all(later[1] - earlier[1] >= 60 for earlier, later in zip(tracker.points, tracker.points[1:], strict=False))


anything = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 300), st.integers(0, 5000), st.integers(0, (1 << 64) - 1)),
        st.one_of(st.integers(0, 300), st.integers(-(1 << 34), 1 << 34), st.integers(-(1 << 63), (1 << 63) - 1)),
    ),
    max_size=40,
)


@given(anything)
def test_bytes_equal_those_of_plain_code(points: list[tuple[int, int]]) -> None:
    data = encode_sequence_tracker(SequenceTracker(tuple(points)))
    columns = [signed(seq, 64) for seq, _ in points], [at for _, at in points]
    version = 1 if all(-(1 << 31) <= change < 1 << 31 for values in columns for change in plain_changes(values)) else 2
    streams = [plain_stream(values, FORMS[version]) for values in columns]
    assert data == struct.pack("<BI", version, len(points)) + b"".join(streams)
    assert decode_sequence_tracker(data).points == tuple(points)
    assert [plain_values(stream, FORMS[version]) for stream in streams] == list(columns)


def plain_changes(values: list[int]) -> list[int]:
    distances = [0, *(signed(later - earlier, 64) for earlier, later in pairwise(values))]
    return [signed(later - earlier, 64) for earlier, later in pairwise(distances)]


def plain_stream(values: list[int], forms: Forms) -> bytes:
    """Encode the stream value by value, as in `docs/reference/format/sequence-tracker.md`."""
    bits, before, distance = f"{len(values):032b}", 0, 0
    for place, value in enumerate(values):
        if place == 0:
            bits += f"{value & (1 << 64) - 1:064b}"
        else:
            change = signed(signed(value - before, 64) - distance, 64)
            _, prefix, width = next(form for form in forms if abs(change) <= form[0])
            bits += prefix + (f"{change & (1 << width) - 1:0{width}b}" if width else "")
            distance = signed(value - before, 64)
        before = value
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


def plain_values(stream: bytes, forms: Forms) -> list[int]:
    bits = "".join(f"{byte:08b}" for byte in stream)
    count, at, values, distance = int(bits[:32], 2), 96, [], 0
    for place in range(count):
        if place == 0:
            values.append(signed(int(bits[32:96], 2), 64))
            continue
        _, prefix, width = next(form for form in forms if bits.startswith(form[1], at))
        at += len(prefix)
        distance += signed(int(bits[at : at + width], 2), width) if width else 0
        at += width
        values.append(signed(values[-1] + distance, 64))
    return values


Forms: TypeAlias = tuple[tuple[int, str, int], ...]  # largest absolute value, prefix, bits

NEAR: Forms = ((0, "0", 0), (63, "10", 7), (255, "110", 9), (2047, "1110", 12))
FORMS: dict[int, Forms] = {1: (*NEAR, (1 << 64, "1111", 32)), 2: (*NEAR, (1 << 64, "1111", 64))}


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
