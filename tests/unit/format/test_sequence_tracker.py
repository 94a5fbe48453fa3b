from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.sequence_tracker import (
    MAX_POINTS,
    SequenceTracker,
    decode_sequence_tracker,
    encode_sequence_tracker,
)


@pytest.mark.parametrize(
    "change", [0, 1, -63, 63, 64, -64, 255, -255, 256, 2047, -2047, 2048, (1 << 31) - 1, -(1 << 31)]
)
def test_every_form_of_a_delta_round_trips(change: int) -> None:
    far = 1 << 40
    tracker = SequenceTracker(((0, 0), (far, far), (far + far + change, far + far + change)))
    # The first delta exceeds 32 bits, so that the tracker needs version 2.
    data = encode_sequence_tracker(tracker)
    assert data[0] == 2
    assert decode_sequence_tracker(data) == tracker
    near = SequenceTracker(tuple((far + step, far + step) for step in (0, 9, 18 + change)))
    data = encode_sequence_tracker(near)
    assert data[0] == 1
    assert decode_sequence_tracker(data) == near


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


def test_a_wide_tracker_takes_any_point() -> None:
    wide = SequenceTracker(((1, 1000), (5_000_000_000, 2000)))
    assert wide.record(5_000_000_100, 3000).points[-1] == (5_000_000_100, 3000)
    full = SequenceTracker(tuple((number * number << 31, number * 60) for number in range(MAX_POINTS)))
    assert len(full.record(1 << 60, MAX_POINTS * 60).points) == MAX_POINTS // 2 + 1


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
        "0202000000" + "00000002" + "00" * 8,
        "0202000000" + "00000002" + "00" * 8 + "ff" * 8,
    ],
)
def test_damaged_trackers_are_refused(text: str) -> None:
    with pytest.raises(CorruptDataError):
        decode_sequence_tracker(bytes.fromhex(text))


def test_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError):
        decode_sequence_tracker(bytes.fromhex("03000000000000000000000000"))
