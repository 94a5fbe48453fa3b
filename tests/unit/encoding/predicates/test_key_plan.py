"""Examples of ranges and points; `tests/property/test_filters.py` checks that they are correct."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark.encoding.predicates import KeyPlan, bind_filter, parse_filter, plan_keys
from slatespark.encoding.predicates.key_plan import MAX_RANGES
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.ranges import ALL_KEYS, KeyRange

TYPED = RowCodec(
    pa.schema([("tenant", pa.string()), ("day", pa.date32()), ("id", pa.int64()), ("v", pa.float64())]),
    ("tenant", "day", "id"),
    "tuple",
    "avro",
)
STRUCT = RowCodec(pa.schema([("s", pa.struct([("x", pa.int32())])), ("v", pa.int32())]), ("s",), "tuple", "avro")

A = b"\x02a\x00"
FEBRUARY = b"\x15\x1f"  # 1970-02-01


def plan(text: str, codec: RowCodec = TYPED) -> KeyPlan:
    return plan_keys(bind_filter(parse_filter(text), codec.schema), codec)


def span(start: bytes, end: bytes) -> KeyRange:
    return KeyRange(start, end)


@pytest.mark.parametrize(
    ("text", "ranges", "left"),
    [
        ("v = 1", [ALL_KEYS], ("v",)),
        ("day = '1970-02-01'", [ALL_KEYS], ("day",)),
        ("tenant = 'a'", [span(A, A + b"\xff\x00")], ()),
        ("tenant = 'a' AND v > 1", [span(A, A + b"\xff\x00")], ("v",)),
        ("tenant LIKE 'a%'", [span(A, b"\x02b\x00")], ()),
        ("tenant > 'a'", [span(b"\x02a\x00\xff\x00", b"\x03")], ()),
        ("tenant IS NULL", [span(b"\x00", b"\x00\xff")], ()),
        ("tenant IN ('a', 'b')", [span(A, A + b"\xff\x00"), span(b"\x02b\x00", b"\x02b\x00\xff\x00")], ()),
        ("tenant = 'a' AND day = '1970-02-01'", [span(A + FEBRUARY, A + FEBRUARY + b"\xff")], ()),
        (
            "tenant = 'a' AND day BETWEEN '1970-01-02' AND '1970-02-01'",
            [span(A + b"\x15\x01", A + FEBRUARY + b"\xff")],
            (),
        ),
        ("tenant = 'a' AND id = 1", [span(A, A + b"\xff\x00")], ("id",)),
        ("tenant > 'a' AND day = '1970-02-01'", [span(b"\x02a\x00\xff\x00", b"\x03")], ("day",)),
        ("tenant <=> NULL AND day > '1970-02-01' AND id = 1", None, ("id",)),
    ],
)
def test_ranges(text: str, ranges: list[KeyRange] | None, left: tuple[str, ...]) -> None:
    found = plan(text)
    assert found.points is None
    assert found.residual.columns == left
    if ranges is not None:
        assert list(found.ranges) == ranges


def test_a_whole_key_is_a_point() -> None:
    found = plan("tenant IN ('b', 'a', 'a') AND id = 1 AND day = '1970-02-01' AND v > 0")
    assert found.points == (A + FEBRUARY + b"\x15\x01", b"\x02b\x00" + FEBRUARY + b"\x15\x01")
    assert found.residual.columns == ("v",)
    assert all(keys.contains(point) for keys, point in zip(found.ranges, found.points, strict=True))


def test_touching_values_of_the_last_column_make_one_range() -> None:
    days = ", ".join(f"'1970-02-{day:02}'" for day in range(1, 11))
    found = plan(f"tenant = 'a' AND day IN ({days})")
    assert len(found.ranges) == 1
    assert not found.residual


def test_many_values_are_enclosed() -> None:
    names = ", ".join(f"'t{number}'" for number in range(MAX_RANGES + 1))
    found = plan(f"tenant IN ({names})")
    assert len(found.ranges) == 1
    assert found.residual.columns == ("tenant",)

    numbers = ", ".join(str(2 * number) for number in range(MAX_RANGES + 1))
    found = plan(f"tenant = 'a' AND day = '1970-02-01' AND id IN ({numbers})")
    assert found.points is not None
    assert len(found.points) == MAX_RANGES + 1
    assert len(found.ranges) == 1  # around the points
    assert not found.residual


def test_too_many_combinations_use_fewer_columns() -> None:
    names = ", ".join(f"'t{number}'" for number in range(100))
    numbers = ", ".join(str(2 * number) for number in range(200))
    found = plan(f"tenant IN ({names}) AND day IN ('1970-02-01', '1970-03-01', '1970-04-01') AND id > 5 AND id < 100")
    assert len(found.ranges) == 300
    assert not found.residual
    found = plan(f"tenant IN ({names}) AND day = '1970-02-01' AND id NOT IN ({numbers})")
    assert len(found.ranges) == 100
    assert found.residual.columns == ("id",)


def test_nothing_can_match() -> None:
    for text in ("tenant = 'a' AND tenant = 'b'", "v = NULL", "id > 9223372036854775807", "v IN (NULL)"):
        assert plan(text) == KeyPlan((), None, plan(text).residual)
        assert not plan(text).residual


def test_no_filter() -> None:
    found = plan_keys(bind_filter((), TYPED.schema), TYPED)
    assert (found.ranges, found.points) == ((ALL_KEYS,), None)


def test_structs_are_null_or_not() -> None:
    assert plan("s IS NULL", STRUCT).points == (b"\x00",)
    assert plan("s IS NOT NULL", STRUCT).ranges == (span(b"\x05", b"\x05\xff"),)


@pytest.mark.parametrize(
    ("text", "ranges", "points"),
    [
        ("key = 'a'", [span(b"a", b"a\0")], (b"a",)),
        ("key IN (X'ff', 'a')", [span(b"a", b"a\0"), span(b"\xff", b"\xff\0")], (b"a", b"\xff")),
        ("key LIKE 'user:%'", [span(b"user:", b"user;")], None),
        ("key >= X'ff'", [KeyRange(b"\xff", None)], None),
        ("key > 'a' AND key <= 'b' AND key <> 'aa'", [span(b"a\0", b"aa"), span(b"aa\0", b"b\0")], None),
        ("key IS NULL", [], None),
        ("key = ''", [], None),
        ("key IS NOT NULL", [ALL_KEYS], None),
    ],
)
def test_keys_that_are_bytes(text: str, ranges: list[KeyRange], points: tuple[bytes, ...] | None) -> None:
    found = plan(text, RAW_CODEC)
    assert (list(found.ranges), found.points) == (ranges, points)
    assert not found.residual
