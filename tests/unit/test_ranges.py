from __future__ import annotations

from slatespark.ranges import ByteRange, coalesce


def test_near_ranges_are_read_together_up_to_a_limit() -> None:
    parts = [ByteRange(0, 4), ByteRange(6, 8), ByteRange(20, 24)]
    assert coalesce(parts, max_gap=2, max_bytes=100) == [ByteRange(0, 8), ByteRange(20, 24)]
    assert coalesce(parts, max_gap=2, max_bytes=7) == parts
