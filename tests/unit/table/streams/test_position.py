"""Positions as offsets: one text for each, and an error of ours for what is none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slatespark import InvalidRequestError, UnsupportedFormatError
from slatespark.table.streams.position import DeliveredPart, Position, decode_position, encode_position, name_table
from slatespark.table.streams.version_mark import VersionMark
from tests.unit.table.streams.stream_place import Place, rows

WHOLE = Position("0123456789abcdef/s", 7, 12, 3)
WITHIN = Position("0123456789abcdef/s", 7, 12, 3, DeliveredPart(9, b"a\xff"))


MARKED = Position("0123456789abcdef/s", 7, 12, 3, None, VersionMark(7, "00c0ffee00c0ffee"))


def test_an_offset_has_plain_values_in_one_order() -> None:
    assert json.dumps(encode_position(WHOLE)) == (
        '{"table": "0123456789abcdef/s", "version": 7, "seq": 12, "wal": 3, "part": null}'
    )
    assert json.dumps(encode_position(WITHIN)["part"]) == '{"version": 9, "key": "61ff"}'
    assert json.dumps(encode_position(MARKED)).endswith(
        '"part": null, "mark": {"version": 7, "id": "00c0ffee00c0ffee"}}'
    )
    for position in (WHOLE, WITHIN, MARKED):
        assert decode_position(json.loads(json.dumps(encode_position(position)))) == position
    assert [WHOLE.versions, WITHIN.versions] == [frozenset({7}), frozenset({7, 9})]
    assert Position("", 0, 0, 0).versions == frozenset()


@pytest.mark.parametrize(
    "change",
    [
        {"version": -1},
        {"version": "7"},
        {"seq": None},
        {"wal": True},
        {"table": 5},
        {"table": "0123456789abcdef"},
        {"part": {"version": 9}},
        {"part": {"version": 9, "key": "xy"}},
        {"part": {"version": -9, "key": ""}},
        {"part": 3},
        {"mark": None},
        {"mark": {"version": 7}},
        {"mark": {"version": -7, "id": "00c0ffee00c0ffee"}},
        {"mark": {"version": 7, "id": "00C0FFEE00C0FFEE"}},
        {"mark": {"version": 7, "id": 12}},
    ],
)
def test_what_is_no_offset(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        decode_position({**encode_position(WITHIN), **change})


def test_an_offset_of_another_source() -> None:
    for offset in ({}, {"index": 3}, {"table": "a"}):
        with pytest.raises(InvalidRequestError, match="checkpoint location"):
            decode_position(offset)


def test_an_offset_of_a_later_release() -> None:
    with pytest.raises(UnsupportedFormatError, match="lane"):
        decode_position({**encode_position(WITHIN), "lane": 1})


@pytest.mark.parametrize("offset", [5, "5", [1, 2], None, {"logOffset": 0}])
def test_offsets_of_other_sources(offset: Any) -> None:
    with pytest.raises(InvalidRequestError, match="another source"):
        decode_position(offset)


def test_positions_between_which_no_batch_lies() -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(maxRowsPerTrigger=2)
    consumer.catch_up()
    first = decode_position(json.loads(consumer.offsets[1]))
    place.store.write(rows(range(3), 1))
    assert consumer.step()
    start = decode_position(json.loads(consumer.offsets[-1]))
    later = place.store.write(rows(range(3), 2))
    consumer.catch_up()
    end = decode_position(json.loads(consumer.offsets[-1]))
    assert start.part is not None
    for one, other in (
        (start, replace(start, part=DeliveredPart(later, start.part.key + b"\xff"))),  # units of different ends
        (start, replace(end, part=None)),
        (first, start),
        (end, start),
        (start, replace(start, table=name_table(start.identity, "another"))),
    ):
        with pytest.raises(InvalidRequestError):
            consumer.stream.plan(one, other)
