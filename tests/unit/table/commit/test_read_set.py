"""ReadSet: keys and ranges in a normal form, and its text. Ranges are pairs of letters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import InternalError
from slatespark.format.manifest import Manifest
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.commit.read_set import MAX_KEYS, ReadSet
from slatespark.table.snapshot import Snapshot, WalTail

Bounds = tuple[bytes, bytes | None]

SNAPSHOT = Snapshot(3, Manifest(), WalTail(1, 1), max_seq=17, tick_ms=0, now_ms=0)


def ranges_of(*bounds: Bounds) -> tuple[KeyRange, ...]:
    return tuple(KeyRange(*each) for each in bounds)


@pytest.mark.parametrize(
    ("keys", "ranges", "left", "joined"),
    [
        pytest.param([b"b", b"a", b"b"], [], [b"a", b"b"], [], id="keys once, ascending"),
        pytest.param([b"b", b"c", b"d"], [(b"b", b"d")], [b"d"], [(b"b", b"d")], id="the end is outside"),
        pytest.param([], [(b"c", b"d"), (b"a", b"c")], [], [(b"a", b"d")], id="adjacent ranges"),
        pytest.param([], [(b"b", b"b"), (b"c", b"a")], [], [], id="empty ranges"),
        pytest.param([b"z"], [(b"y", None), (b"a", b"b")], [], [(b"a", b"b"), (b"y", None)], id="an open end"),
    ],
)
def test_normal_form(
    keys: Sequence[bytes], ranges: Sequence[Bounds], left: Sequence[bytes], joined: Sequence[Bounds]
) -> None:
    expected = ReadSet(3, 17, tuple(left), ranges_of(*joined))
    assert ReadSet.of(SNAPSHOT, keys=keys, ranges=ranges_of(*ranges)) == expected
    in_turn = ReadSet.of(SNAPSHOT, keys=keys).adding(ranges=ranges_of(*ranges))
    assert in_turn == expected, "keys that a later range covers are dropped"


@pytest.mark.parametrize(
    ("key", "is_covered"),
    [(b"a", False), (b"b", True), (b"bz", True), (b"c", False), (b"dz", False), (b"e", True), (b"zz", True)],
)
def test_covers(key: bytes, is_covered: bool) -> None:
    assert ReadSet(1, 1, ranges=ranges_of((b"b", b"c"), (b"e", None))).covers(key) is is_covered
    assert not ReadSet(1, 1).covers(key)


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        ([(b"", None)], [b"a", b"b"], []),
        ([], [], [b"a", b"b"]),
        ([(b"e", None), (b"b", b"c"), (b"c", b"d")], [b"b", b"c", b"e", b"f"], [b"a", b"d"]),
    ],
)
def test_written_keys_that_count(written: list[Bounds], inside: list[bytes], outside: list[bytes]) -> None:
    reads = ReadSet.of(SNAPSHOT, written=ranges_of(*written))
    assert [key for key in inside + outside if reads.covers_write(key)] == inside


def test_parts_of_written_files_that_count() -> None:
    reads = ReadSet.of(SNAPSHOT, written=ranges_of((b"b", b"d"), (b"f", None)))
    assert reads.written_parts(KeyRange(b"c", b"g")) == ranges_of((b"c", b"d"), (b"f", b"g"))
    assert reads.written_parts(KeyRange(b"d", b"f")) == ()
    assert ReadSet.of(SNAPSHOT).written_parts(KeyRange(b"d", b"f")) == ranges_of((b"d", b"f"))


def test_conditions() -> None:
    everything = ReadSet(3, 17, ranges=(ALL_KEYS,), written=())
    assert ReadSet.of_condition(SNAPSHOT, None, RAW_CODEC) == everything
    assert ReadSet.of_condition(SNAPSHOT, "value = X'00'", RAW_CODEC) == everything
    assert ReadSet.of_condition(SNAPSHOT, "key IN (X'62', X'61')", RAW_CODEC) == ReadSet(
        3, 17, (b"a", b"b"), written=()
    )
    assert ReadSet.of_condition(SNAPSHOT, "key >= X'61' AND key < X'63'", RAW_CODEC) == ReadSet(
        3, 17, ranges=ranges_of((b"a", b"c")), written=()
    )


def test_a_condition_on_many_keys_is_tracked_by_its_ranges() -> None:
    def read_set(count: int) -> ReadSet:
        keys = ", ".join(f"X'{number:04x}'" for number in range(0, 2 * count, 2))
        return ReadSet.of_condition(SNAPSHOT, f"key IN ({keys})", RAW_CODEC)

    assert len(read_set(MAX_KEYS).keys) == MAX_KEYS
    many = read_set(MAX_KEYS + 1)
    assert many.keys == ()
    assert all(many.covers(number.to_bytes(2, "big")) for number in range(0, 2 * MAX_KEYS + 2, 2))


def test_only_the_written_keys() -> None:
    reads = ReadSet(3, 17, (b"a",), ranges_of((b"b", b"c")), read_ts_ms=5, written=())
    assert reads.of_written() == ReadSet(3, 17, read_ts_ms=5, written=(ALL_KEYS,))


@pytest.mark.parametrize(
    "reads",
    [
        ReadSet(0, 0),
        ReadSet(3, 2**64 - 1, (b"", b"\xff\x00"), ranges_of((b"b", b"c"), (b"x", None)), -5, written=()),
        ReadSet(3, 9, written=ranges_of((b"", b"a"), (b"q", None))),
        ReadSet(3, 9, ranges=ranges_of((b"b", b"c")), written=(), operands_only=True),
    ],
)
def test_text_carries_everything(reads: ReadSet) -> None:
    assert ReadSet.from_text(reads.to_text()) == reads


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": [], "ranges": [], "written": []}',
        '{"manifest_id": 1, "read_seq": 1, "keys": [], "ranges": []}',
        '{"manifest_id": 1, "read_seq": 1, "keys": ["x"], "ranges": [], "written": []}',
        '{"manifest_id": 1, "read_seq": 1, "keys": [], "ranges": [["00"]], "written": []}',
        '{"manifest_id": 1, "read_seq": 1, "keys": [], "ranges": [], "written": [], "more": 1}',
    ],
)
def test_any_other_text(text: str) -> None:
    with pytest.raises(InternalError):
        ReadSet.from_text(text)
