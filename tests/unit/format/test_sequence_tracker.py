from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.sequence_tracker import (
    MAX_POINTS,
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


@pytest.mark.parametrize(
    "change", [0, 1, -63, 63, 64, -64, 255, -255, 256, 2047, -2047, 2048, (1 << 31) - 1, -(1 << 31)]
)
def test_every_form_of_a_delta_round_trips(change: int) -> None:
    far = 1 << 40
    tracker = SequenceTracker(((0, 0), (far, far), (far + far + change, far + far + change)))
    # The first delta exceeds 32 bits and is truncated, as by the client; the next one is exact.
    points = decode_sequence_tracker(encode_sequence_tracker(tracker)).points
    assert points[0] == (0, 0)
    assert points[2][1] - 2 * points[1][1] == change


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
    streams = [plain_stream([signed(seq, 64) for seq, _ in points]), plain_stream([at for _, at in points])]
    assert data == struct.pack("<BI", 1, len(points)) + b"".join(streams)
    found = decode_sequence_tracker(data).points
    assert [signed(seq, 64) for seq, _ in found] == plain_values(streams[0])
    assert [at for _, at in found] == plain_values(streams[1])


def plain_stream(values: list[int]) -> bytes:
    """Encode the stream value by value, as in `docs/reference/format/sequence-tracker.md`."""
    bits, before, distance = f"{len(values):032b}", 0, 0
    for place, value in enumerate(values):
        if place == 0:
            bits += f"{value & (1 << 64) - 1:064b}"
        else:
            change = signed(signed(value - before, 64) - distance, 64)
            _, prefix, width = next(form for form in FORMS if abs(change) <= form[0])
            bits += prefix + (f"{change & (1 << width) - 1:0{width}b}" if width else "")
            distance = signed(value - before, 64)
        before = value
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


def plain_values(stream: bytes) -> list[int]:
    bits = "".join(f"{byte:08b}" for byte in stream)
    count, at, values, distance = int(bits[:32], 2), 96, [], 0
    for place in range(count):
        if place == 0:
            values.append(signed(int(bits[32:96], 2), 64))
            continue
        _, prefix, width = next(form for form in FORMS if bits.startswith(form[1], at))
        at += len(prefix)
        distance += signed(int(bits[at : at + width], 2), width) if width else 0
        at += width
        values.append(signed(values[-1] + distance, 64))
    return values


FORMS: tuple[tuple[int, str, int], ...] = (
    (0, "0", 0),
    (63, "10", 7),
    (255, "110", 9),
    (2047, "1110", 12),
    (1 << 64, "1111", 32),
)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def test_an_empty_tracker_has_bytes() -> None:
    assert encode_sequence_tracker(SequenceTracker()) == bytes.fromhex("01000000000000000000000000")
    assert decode_sequence_tracker(bytes.fromhex("01000000000000000000000000")) == SequenceTracker()


def test_points_within_a_minute_are_skipped() -> None:
    tracker = SequenceTracker().record(5, 1000)
    assert tracker.record(9, 1059) is tracker
    assert tracker.record(9, 1060).points == ((5, 1000), (9, 1060))


def test_points_that_go_backwards_are_skipped() -> None:
    tracker = SequenceTracker(((5, 1000),))
    assert tracker.record(4, 2000) is tracker
    assert tracker.record(9, 900) is tracker
    assert tracker.record(5, 2000).points == ((5, 1000), (5, 2000))


def test_points_beyond_32_bits_are_skipped() -> None:
    tracker = SequenceTracker(((1, 1000),))
    assert tracker.record(1 + (1 << 31), 2000) is tracker
    reached = tracker.record(1 << 31, 2000)
    assert reached.points[-1] == (1 << 31, 2000)
    assert reached.record((1 << 33), 3000) is reached
    assert reached.record((1 << 31) + 5, 3000).points[-1] == ((1 << 31) + 5, 3000)


def test_above_its_capacity_every_second_point_is_dropped() -> None:
    full = SequenceTracker(tuple((number, number * 60) for number in range(MAX_POINTS)))
    thinned = full.record(MAX_POINTS, MAX_POINTS * 60)
    assert thinned.points == tuple((number, number * 60) for number in range(0, MAX_POINTS + 1, 2))
    assert decode_sequence_tracker(encode_sequence_tracker(thinned)) == thinned


def test_lookups_round_to_points() -> None:
    tracker = SequenceTracker(((10, 100), (20, 200), (20, 260), (30, 320)))
    assert tracker.find_by_seq(20, round_up=False) == (20, 200)
    assert [tracker.find_by_seq(25, round_up=up) for up in (False, True)] == [(20, 260), (30, 320)]
    assert [tracker.find_by_seq(9, round_up=up) for up in (False, True)] == [None, (10, 100)]
    assert [tracker.find_by_seq(31, round_up=up) for up in (False, True)] == [(30, 320), None]
    assert [tracker.find_by_seconds(199, round_up=up) for up in (False, True)] == [(10, 100), (20, 200)]
    assert SequenceTracker().find_by_seconds(5, round_up=True) is None


def test_large_seqs_are_unsigned() -> None:
    top = (1 << 64) - 1
    tracker = SequenceTracker(((top - 1, 10), (top, 100)))
    assert decode_sequence_tracker(encode_sequence_tracker(tracker)) == tracker


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01",
        "0100000000",
        "0101000000" + "00000001" + "00" * 8,
        "0101000000" + "00000002" + "00" * 30,
        "01ffffffff" + "ffffffff" + "00" * 30,
        "0102000000" + "00000002" + "00" * 8,
    ],
)
def test_damaged_trackers_are_refused(text: str) -> None:
    with pytest.raises(CorruptDataError):
        decode_sequence_tracker(bytes.fromhex(text))


def test_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError):
        decode_sequence_tracker(bytes.fromhex("02000000000000000000000000"))
