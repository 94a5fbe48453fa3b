"""Parts of nested Avro values: the items of arrays and maps, and records without a head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.errors import InternalError
from slatespark.kernels.avro_program import (
    ARRAY,
    FINE,
    LONG,
    MALFORMED,
    RECORD,
    TEXT,
    AvroNode,
    AvroStep,
    AvroWriter,
    DecodeProgram,
    EncodeProgram,
)
from slatespark.kernels.flat import BYTES, INT64, FlatColumn
from tests.unit.kernels.test_avro import INT64_RANGE, items_of

NUMBER = AvroNode(LONG)
WORD = AvroNode(TEXT)
MAYBE = AvroNode(LONG, 0)
RECORDS = DecodeProgram(
    (INT64, BYTES), (AvroWriter(0, (AvroStep(MAYBE, 0, *INT64_RANGE), AvroStep(WORD, 1)), whole=True),)
)


def spans_of(*values: bytes | None) -> tuple[Any, ...]:
    """The values with a byte in between that belongs to none, and which of them are null."""
    ends = np.cumsum([1 + len(value or b"") for value in values], dtype=np.int64)
    starts = ends - np.array([len(value or b"") for value in values], np.int64)
    data = np.frombuffer(b"".join(b"\xff" + (value or b"") for value in values), np.uint8)
    valid = np.array([value is not None for value in values], np.uint8)
    return data, starts, ends, valid if None in values else None


def split(kernels: Any, item: AvroNode, *values: bytes | None) -> list[list[bytes] | None]:
    """The bytes of the items of each value; None for one that is malformed."""
    data, starts, ends, valid = spans_of(*values)
    found = kernels.split_avro(data, starts, ends, valid, item)
    assert len(found.bounds) == len(values) + 1
    assert len(found.starts) == len(found.ends) == found.bounds[-1]
    items = [data[start:end].tobytes() for start, end in zip(found.starts, found.ends, strict=True)]
    return [
        items[low:high] if status == FINE else None
        for low, high, status in zip(found.bounds[:-1], found.bounds[1:], found.status, strict=True)
    ]


def test_items_of_arrays(kernels: Any) -> None:
    values = [b"\x04\x02\x80\x01\x00", None, b"\x00", b"\x02\x06\x02\x08\x00"]
    assert split(kernels, NUMBER, *values) == [[b"\x02", b"\x80\x01"], [], [], [b"\x06", b"\x08"]]


def test_blocks_that_tell_their_size(kernels: Any) -> None:
    assert split(kernels, NUMBER, b"\x03\x06\x02\x80\x01\x02\x08\x00") == [[b"\x02", b"\x80\x01", b"\x08"]]
    assert split(kernels, NUMBER, b"\x03\x04\x02\x80\x01\x02\x08\x00") == [None]


def test_items_that_are_nested_or_null(kernels: Any) -> None:
    assert split(kernels, MAYBE, b"\x04\x00\x02\x08\x00") == [[b"\x00", b"\x02\x08"]]
    inner = b"\x02\x08\x00"
    assert split(kernels, AvroNode(ARRAY, children=(NUMBER,)), b"\x04" + inner + b"\x00\x00") == [[inner, b"\x00"]]
    pair = AvroNode(RECORD, children=(WORD, NUMBER))
    assert split(kernels, pair, b"\x04\x02a\x08\x00\x0a\x00") == [[b"\x02a\x08", b"\x00\x0a"]]


@pytest.mark.parametrize(
    "value",
    [b"", b"\x02", b"\x02\x08", b"\x02\x08\x00\x00", b"\x06\x02\x04\x00", b"\x80", b"\x04\x08\x80", b"\x01\x80\x00"],
    ids=["empty", "no item", "no end", "bytes after the end", "few items", "half a count", "half an item", "no size"],
)
def test_a_malformed_array_has_no_items(kernels: Any, value: bytes) -> None:
    good = b"\x02\x08\x00"
    assert split(kernels, NUMBER, good, value, good) == [[b"\x08"], None, [b"\x08"]]


def test_records(kernels: Any) -> None:
    values = [
        b"\x02\x08\x02a",
        None,
        b"\x00\x00",
        b"\x02\x08",
        b"\x02\x08\x02a\x00",
        b"\x02\x0a\x04bc",
        b"\x02\x08\x02\xff",
    ]
    columns, status = kernels.decode_avro_parts(*spans_of(*values), RECORDS)
    assert status.tolist() == [FINE, FINE, FINE, MALFORMED, MALFORMED, FINE, MALFORMED]
    four, five = (number.to_bytes(8, "little") for number in (4, 5))
    assert items_of(columns[0]) == [four, None, None, None, None, five, None]
    assert items_of(columns[1]) == [b"a", None, b"", None, None, b"bc", None]


def test_records_in_any_order_and_twice(kernels: Any) -> None:
    data, starts, ends, _ = spans_of(b"\x02\x08\x02a", b"\x00\x04bc")
    chosen = np.array([1, 0, 1])
    columns, status = kernels.decode_avro_parts(data, starts[chosen], ends[chosen], None, RECORDS)
    assert status.tolist() == [FINE] * 3
    assert items_of(columns[1]) == [b"bc", b"a", b"bc"]


def test_nothing(kernels: Any) -> None:
    assert split(kernels, NUMBER) == []
    columns, status = kernels.decode_avro_parts(*spans_of(), RECORDS)
    assert [len(column) for column in columns] == [0, 0]
    assert len(status) == 0


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (0, 4), (2, 1)], ids=["before", "after", "backwards"])
def test_a_part_outside_of_the_data(kernels: Any, start: int, end: int) -> None:
    spans = np.zeros(3, np.uint8), np.array([start]), np.array([end]), None
    with pytest.raises(InternalError):
        kernels.split_avro(*spans, NUMBER)
    with pytest.raises(InternalError):
        kernels.decode_avro_parts(*spans, RECORDS)


def test_parts_are_encoded_without_a_head(kernels: Any) -> None:
    columns = [
        FlatColumn(INT64, np.array([4, 5], np.int64).view(np.uint8)),
        FlatColumn(BYTES, np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3])),
    ]
    values, offsets = kernels.encode_avro(columns, EncodeProgram(None, (NUMBER, WORD)), 2)
    assert values.tobytes() == b"\x08\x02a\x0a\x04bc"
    assert offsets.tolist() == [0, 3, 7]
