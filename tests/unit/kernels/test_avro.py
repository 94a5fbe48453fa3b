from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slatespark.errors import InternalError, InvalidRequestError
from slatespark.kernels.avro_program import (
    ARRAY,
    BOOLEAN,
    DATA,
    DECIMAL,
    DOUBLE,
    FINE,
    FLOAT,
    INT,
    LONG,
    MALFORMED,
    MAP,
    RECORD,
    SKIPPED,
    TEXT,
    UNKNOWN_FINGERPRINT,
    AvroNode,
    AvroStep,
    AvroWriter,
    DecodeProgram,
    EncodeProgram,
)
from slatespark.kernels.flat import (
    BOOL,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT128,
    FlatColumn,
)
from tests.support.avro_numbers import zigzag
from tests.unit.kernels.rows import all_rows, columns, delete, operand, put

HEAD = b"\xc3\x01\x11\x22\x33\x44\x55\x66\x77\xf8"
FINGERPRINT = 0xF877665544332211
INT64_RANGE = (-(2**63), 2**63 - 1)


def reading(*steps: AvroStep, kinds: tuple[int, ...], whole: bool = True) -> DecodeProgram:
    return DecodeProgram(kinds, (AvroWriter(FINGERPRINT, steps, whole),))


def decoded(kernels: Any, program: DecodeProgram, *bodies: bytes) -> tuple[list[list[Any]], list[int]]:
    """Return the encoded items of each column, None for null, and the statuses."""
    rows = columns(*(put(b"%d" % number, 1, HEAD + body) for number, body in enumerate(bodies)))
    found, status = kernels.decode_avro([rows], np.arange(len(bodies)), program)
    return [items_of(column) for column in found], status.tolist()


def items_of(column: FlatColumn) -> list[Any]:
    count = len(column)
    if column.offsets is not None:
        ends = column.offsets.tolist()
        items = [column.data[start:end].tobytes() for start, end in pairwise(ends)]
    else:
        width = len(column.data) // max(count, 1)
        items = [column.data[width * row : width * (row + 1)].tobytes() for row in range(count)]
    assert column.valid is not None
    assert not any(b"".join(item for item, there in zip(items, column.valid.tolist(), strict=True) if not there))
    return [item if there else None for item, there in zip(items, column.valid.tolist(), strict=True)]


def one(kernels: Any, wire: int, kind: int, body: bytes, low: int = 0, high: int = 0) -> Any:
    """Decode a body; returns its status if it is invalid."""
    step = AvroStep(AvroNode(wire), 0, low, high)
    (items,), (status,) = decoded(kernels, reading(step, kinds=(kind,)), body)
    assert (items[0] is None) == (status != FINE)
    return items[0] if status == FINE else status


LONGS = [
    (0, "00"),
    (-1, "01"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (2**27 - 1, "feffff7f"),
    (2**55, "808080808080808001"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("number", "body"), LONGS)
@pytest.mark.parametrize("padding", [0, 20])
def test_longs(kernels: Any, number: int, body: str, padding: int) -> None:
    steps = [AvroStep(AvroNode(LONG), 0, *INT64_RANGE), *[AvroStep(AvroNode(DOUBLE))] * padding]
    (items,), status = decoded(kernels, reading(*steps, kinds=(INT64,)), bytes.fromhex(body) + bytes(8 * padding))
    assert (items, status) == ([number.to_bytes(8, "little", signed=True)], [FINE])
    column = FlatColumn(INT64, np.frombuffer(number.to_bytes(8, "little", signed=True), np.uint8))
    values, offsets = kernels.encode_avro([column], EncodeProgram(FINGERPRINT, (AvroNode(LONG),)), 1)
    assert values.tobytes() == HEAD + bytes.fromhex(body)
    assert offsets.tolist() == [0, len(values)]


@pytest.mark.parametrize("body", ["", "80", "ff" * 9, "80" * 10, "80" * 9 + "02", "ff" * 10 + "01", "0000"])
@pytest.mark.parametrize("column", [0, SKIPPED])
def test_invalid_longs(kernels: Any, body: str, column: int) -> None:
    program = reading(AvroStep(AvroNode(LONG), column, *INT64_RANGE), kinds=(INT64,) if column == 0 else ())
    assert decoded(kernels, program, bytes.fromhex(body))[1] == [MALFORMED]


@pytest.mark.parametrize("body", ["8000", "808000", "80808080808080808000"])
def test_longs_with_more_bytes_than_needed(kernels: Any, body: str) -> None:
    assert one(kernels, LONG, INT64, bytes.fromhex(body), *INT64_RANGE) == bytes(8)


@pytest.mark.parametrize("kind", [INT8, INT16, INT32, INT64])
def test_integers_in_and_out_of_their_range(kernels: Any, kind: int) -> None:
    bits = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}[kind]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for number in (low, -1, 0, high):
        item = number.to_bytes(bits // 8, "little", signed=True)
        assert one(kernels, LONG, kind, zigzag(number), low, high) == item
        values, _ = kernels.encode_avro(
            [FlatColumn(kind, np.frombuffer(item, np.uint8))], EncodeProgram(FINGERPRINT, (AvroNode(LONG),)), 1
        )
        assert values.tobytes() == HEAD + zigzag(number)
    if kind != INT64:
        assert one(kernels, LONG, kind, zigzag(low - 1), low, high) == MALFORMED
        assert one(kernels, LONG, kind, zigzag(high + 1), low, high) == MALFORMED


def test_an_int_has_32_bits_also_in_a_wider_column(kernels: Any) -> None:
    assert one(kernels, INT, INT64, zigzag(-(2**31)), *INT64_RANGE) == (-(2**31)).to_bytes(8, "little", signed=True)
    for number in (2**31, -(2**31) - 1):
        assert one(kernels, INT, INT64, zigzag(number), *INT64_RANGE) == MALFORMED
        assert one(kernels, INT, FLOAT64, zigzag(number), *INT64_RANGE) == MALFORMED


def test_integers_are_promoted_to_floats(kernels: Any) -> None:
    for number in (0, -3, 2**53 + 1, 2**63 - 1, 2**60 + 2**36 + 1):
        assert one(kernels, LONG, FLOAT64, zigzag(number), *INT64_RANGE) == np.float64(number).tobytes()
        rounded = np.int64(number).astype(np.float32)  # once; not by way of a double
        assert one(kernels, LONG, FLOAT32, zigzag(number), *INT64_RANGE) == rounded.tobytes()
    for single in (1.5, float("inf"), -0.0):
        assert one(kernels, FLOAT, FLOAT64, np.float32(single).tobytes()) == np.float64(single).tobytes()
    assert np.isnan(np.frombuffer(one(kernels, FLOAT, FLOAT64, np.float32("nan").tobytes()), np.float64)[0])


def test_floats_and_booleans(kernels: Any) -> None:
    for wire, kind, body in (
        (FLOAT, FLOAT32, b"\x01\0\xc0\x7f"),
        (FLOAT, FLOAT32, b"\x01\0\x80\x7f"),  # a signalling NaN
        (DOUBLE, FLOAT64, b"12345678"),
        (BOOLEAN, BOOL, b"\1"),
    ):
        assert one(kernels, wire, kind, body) == body
        assert one(kernels, wire, kind, body[:-1]) == MALFORMED
        values, _ = kernels.encode_avro(
            [FlatColumn(kind, np.frombuffer(body, np.uint8))], EncodeProgram(FINGERPRINT, (AvroNode(wire),)), 1
        )
        assert values.tobytes() == HEAD + body
    assert one(kernels, BOOLEAN, BOOL, b"\2") == MALFORMED


DECIMALS = [
    (0, "00"),
    (-1, "ff"),
    (127, "7f"),
    (128, "0080"),
    (-128, "80"),
    (-129, "ff7f"),
    (10**38 - 1, ""),
    (1 - 10**38, ""),
]


@pytest.mark.parametrize(("number", "body"), DECIMALS)
def test_decimals(kernels: Any, number: int, body: str) -> None:
    data = bytes.fromhex(body) or number.to_bytes(16, "big", signed=True)
    item = number.to_bytes(16, "little", signed=True)
    highest = 10**38 - 1
    assert one(kernels, DECIMAL, INT128, zigzag(len(data)) + data, -highest, highest) == item
    longer = (b"\xff" if number < 0 else b"\0") * 20 + data
    assert one(kernels, DECIMAL, INT128, zigzag(len(longer)) + longer, -highest, highest) == item
    values, _ = kernels.encode_avro(
        [FlatColumn(INT128, np.frombuffer(item, np.uint8))], EncodeProgram(FINGERPRINT, (AvroNode(DECIMAL),)), 1
    )
    assert values.tobytes() == HEAD + zigzag(len(data)) + data


@pytest.mark.parametrize(
    ("highest", "data"),
    [
        (9, "0a"),
        (9, "f6"),
        (10**38 - 1, "7f" + "ff" * 15),
        (10**38 - 1, "80" + "00" * 15),
        (10**38 - 1, "0080" + "00" * 15),
        (10**38 - 1, "ff7f" + "ff" * 15),
        (10**38 - 1, "01" + "00" * 16),
        (10**20, "056bc75e2d63100001"),
        (9, ""),
    ],
)
def test_decimals_out_of_range(kernels: Any, highest: int, data: str) -> None:
    body = zigzag(len(data) // 2) + bytes.fromhex(data)
    assert one(kernels, DECIMAL, INT128, body, -highest, highest) == MALFORMED


@pytest.mark.parametrize("size", [*range(40), 63, 64, 65, 127, 128, 200])
@pytest.mark.parametrize("wire", [TEXT, DATA])
def test_bytes_of_every_length_to_the_last_byte_of_a_buffer(kernels: Any, wire: int, size: int) -> None:
    data = b"x" * size
    assert one(kernels, wire, BYTES, zigzag(size) + data) == data
    assert one(kernels, wire, BYTES, zigzag(size + 1) + data) == MALFORMED
    column = FlatColumn(BYTES, np.frombuffer(data, np.uint8), np.array([0, size]))
    values, _ = kernels.encode_avro([column], EncodeProgram(FINGERPRINT, (AvroNode(wire),)), 1)
    assert values.tobytes() == HEAD + zigzag(size) + data


@pytest.mark.parametrize("length", [-1, -(2**63), 2**62, 2**63 - 1])
@pytest.mark.parametrize("column", [0, SKIPPED])
def test_invalid_lengths(kernels: Any, length: int, column: int) -> None:
    program = reading(AvroStep(AvroNode(DATA), column), kinds=(BYTES,) if column == 0 else ())
    assert decoded(kernels, program, zigzag(length) + b"abc")[1] == [MALFORMED]


NO_TEXT = ["80", "c0af", "c1bf", "e08080", "e09fbf", "eda080", "edbfbf", "f0808080", "f08fbfbf", "f4908080", "f5", "ff",
           "c3", "e282", "f09f98", "e28261", "f09f9861", "c328"]  # fmt: skip


@pytest.mark.parametrize("bad", NO_TEXT)
@pytest.mark.parametrize("before", [0, 1, 7, 8, 15, 31, 60, 100])
@pytest.mark.parametrize("after", [0, 9])
def test_text_is_utf8(kernels: Any, bad: str, before: int, after: int) -> None:
    data = b"a" * before + bytes.fromhex(bad) + b"b" * after
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    assert one(kernels, TEXT, BYTES, zigzag(len(data)) + data) == MALFORMED
    assert one(kernels, DATA, BYTES, zigzag(len(data)) + data) == data
    column = FlatColumn(BYTES, np.frombuffer(data, np.uint8), np.array([0, len(data)]))
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        kernels.encode_avro([column], EncodeProgram(FINGERPRINT, (AvroNode(TEXT),)), 1)
    kernels.encode_avro([column], EncodeProgram(FINGERPRINT, (AvroNode(DATA),)), 1)
    good = b"a" * before + "é€😀\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\0".encode() + b"b" * after
    assert one(kernels, TEXT, BYTES, zigzag(len(good)) + good) == good


def test_unions(kernels: Any) -> None:
    for null_branch, null, there in ((0, b"\0", b"\2"), (1, b"\2", b"\0")):
        node = AvroNode(LONG, null_branch)
        program = reading(AvroStep(node, 0, *INT64_RANGE), kinds=(INT64,))
        (items,), status = decoded(kernels, program, null, there + b"\2", b"\1", b"\4", b"", there, b"\x80\0\2")
        assert items == [None, b"\1\0\0\0\0\0\0\0", None, None, None, None, None]
        assert status == [FINE, FINE, *[MALFORMED] * 5]
        column = FlatColumn(INT64, np.arange(2).view(np.uint8), valid=np.array([0, 1], np.uint8))
        values, _ = kernels.encode_avro([column], EncodeProgram(FINGERPRINT, (node,)), 2)
        assert values.tobytes() == HEAD + null + HEAD + there + b"\2"


ITEMS = AvroNode(ARRAY, children=(AvroNode(INT),))
NESTED = [
    (AvroNode(RECORD, children=(AvroNode(INT), AvroNode(TEXT, 0), AvroNode(DOUBLE))), b"\2\2\2a12345678"),
    (ITEMS, b"\0"),
    (ITEMS, b"\4\2\4\0"),
    (ITEMS, b"\2\2\2\4\0"),  # two blocks
    (ITEMS, b"\3\4\2\4\0"),  # a block with a size
    (AvroNode(ARRAY, children=(AvroNode(LONG, 1),)), b"\6\2\0\2\2\0"),
    (AvroNode(MAP, children=(AvroNode(BOOLEAN),)), b"\4\2k\1\0\0\0"),
    (AvroNode(MAP, children=(AvroNode(RECORD, children=(ITEMS, AvroNode(FLOAT))),)), b"\2\2k\2\2\x001234\0"),
    (AvroNode(ARRAY, children=(AvroNode(ARRAY, children=(ITEMS,)),)), b"\4\0\4\0\2\2\0\0\0"),
]


@pytest.mark.parametrize(("node", "body"), NESTED)
def test_nested_fields_are_extracted_and_skipped(kernels: Any, node: AvroNode, body: bytes) -> None:
    after = AvroStep(AvroNode(INT), 0, *INT64_RANGE)
    assert decoded(kernels, reading(AvroStep(node), after, kinds=(INT8,)), body + b"\2") == ([[b"\1"]], [FINE])
    taken = reading(AvroStep(node, 1), after, kinds=(INT8, BYTES))
    assert decoded(kernels, taken, body + b"\2") == ([[b"\1"], [body]], [FINE])
    nullable = reading(AvroStep(node._replace(null_branch=0), 1), after, kinds=(INT8, BYTES))
    assert decoded(kernels, nullable, b"\2" + body + b"\2", b"\0\4") == ([[b"\1", b"\2"], [body, None]], [FINE, FINE])
    for size in range(len(body)):
        assert decoded(kernels, taken, body[:size])[1] == [MALFORMED]
    column = FlatColumn(BYTES, np.frombuffer(body, np.uint8), np.array([0, len(body)]))
    values, _ = kernels.encode_avro([column], EncodeProgram(FINGERPRINT, (node,)), 1)
    assert values.tobytes() == HEAD + body


@pytest.mark.parametrize(
    ("node", "body", "skips_too"),
    [
        (ITEMS, b"\3\2\2\4\0", False),  # wrong size of the block
        (ITEMS, b"\3\1\2\4\0", False),
        (ITEMS, zigzag(2**62) + b"\2", False),
        (ITEMS, zigzag(-(2**63)) + b"\2\2", False),
        (ITEMS, b"\2" + zigzag(2**31) + b"\0", True),
        (AvroNode(ARRAY, children=(AvroNode(BOOLEAN),)), b"\2\2\0", True),
        (AvroNode(ARRAY, children=(AvroNode(TEXT),)), b"\2\2\xff\0", True),
        (AvroNode(MAP, children=(AvroNode(BOOLEAN),)), b"\2\2\xff\1\0", True),
        (AvroNode(ARRAY, children=(AvroNode(DECIMAL),)), b"\2\0\0", True),
        (AvroNode(ARRAY, children=(AvroNode(INT, 0),)), b"\2\4\0", False),
    ],
)
def test_invalid_nested_values(kernels: Any, node: AvroNode, body: bytes, skips_too: bool) -> None:
    assert one(kernels, node.wire, BYTES, b"") == MALFORMED
    (items,), status = decoded(kernels, reading(AvroStep(node, 0), kinds=(BYTES,)), body)
    assert (items, status) == ([None], [MALFORMED])
    # Skipped values are checked only as far as needed to find their end.
    assert decoded(kernels, reading(AvroStep(node), kinds=()), body)[1] == [FINE if skips_too else MALFORMED]


def test_rows_end_where_their_fields_do(kernels: Any) -> None:
    step = AvroStep(AvroNode(LONG), 0, *INT64_RANGE)
    assert decoded(kernels, reading(step, kinds=(INT64,)), b"\2\0")[1] == [MALFORMED]
    assert decoded(kernels, reading(step, kinds=(INT64,), whole=False), b"\2\0") == ([[b"\1" + bytes(7)]], [FINE])
    assert decoded(kernels, reading(kinds=(), whole=False), b"", b"abc")[1] == [FINE, FINE]
    assert decoded(kernels, reading(kinds=()), b"", b"abc")[1] == [FINE, MALFORMED]


def test_a_row_that_fails_late_is_null_in_all_columns(kernels: Any) -> None:
    steps = [AvroStep(AvroNode(TEXT), 0), AvroStep(AvroNode(LONG), 1, *INT64_RANGE), AvroStep(AvroNode(TEXT), 2)]
    good, bad = b"\4ab\2\2c", b"\6xyz\4\4\xff\xff"
    (texts, numbers, others), status = decoded(
        kernels, reading(*steps, kinds=(BYTES, INT64, BYTES)), bad, good, bad, good
    )
    assert status == [MALFORMED, FINE, MALFORMED, FINE]
    assert (texts, others) == ([None, b"ab", None, b"ab"], [None, b"c", None, b"c"])
    assert numbers == [None, b"\1" + bytes(7), None, b"\1" + bytes(7)]


def several_writers() -> tuple[Any, NDArray[np.int64], DecodeProgram]:
    step = AvroStep(AvroNode(LONG), 0, *INT64_RANGE)
    other = AvroStep(AvroNode(TEXT), 1)
    writers = (
        AvroWriter(FINGERPRINT, (step,), missing=(1,)),
        AvroWriter(1, (AvroStep(AvroNode(DOUBLE)), other, step)),
        AvroWriter(2, (), missing=(0, 1)),
    )
    marker = b"\xc3\x01"
    rows = columns(
        put(b"1", 1, HEAD + b"\2"),
        put(b"2", 1, marker + b"\1" + bytes(7) + bytes(8) + b"\2a\4"),
        delete(b"3", 1),
        put(b"4", 1, marker + b"\2" + bytes(7)),
        put(b"5", 1, marker + b"\3" + bytes(7)),
        put(b"6", 1, HEAD[:9]),
        put(b"7", 1, b"\xc3\x02" + HEAD[2:] + b"\2"),
        operand(b"8", 1, HEAD + b"\6"),
        put(b"9", 1, b""),
    )
    return [rows], all_rows([rows]), DecodeProgram((INT64, BYTES), writers)


def test_rows_of_several_writers_tombstones_and_unknown_fingerprints(kernels: Any) -> None:
    sources, rows, program = several_writers()
    (numbers, texts), status = kernels.decode_avro(sources, rows, program)
    unknown = UNKNOWN_FINGERPRINT
    assert status.tolist() == [FINE, FINE, FINE, FINE, unknown, unknown, unknown, FINE, unknown]
    assert [None if item is None else item[0] for item in items_of(numbers)] == [1, 2, *[None] * 5, 3, None]
    assert items_of(texts) == [None, b"a", *[None] * 7]


def test_no_rows_no_columns_no_writers(kernels: Any) -> None:
    sources, rows, program = several_writers()
    found, status = kernels.decode_avro(sources, rows[:0], program)
    assert [items_of(column) for column in found] == [[], []]
    assert len(status) == 0
    found, status = kernels.decode_avro(sources, rows, replace(program, writers=()))
    assert status.tolist() == [1, 1, 0, *[1] * 6]
    values, offsets = kernels.encode_avro([], EncodeProgram(FINGERPRINT, ()), 2)
    assert (values.tobytes(), offsets.tolist()) == (HEAD * 2, [0, 10, 20])
    for column in (
        FlatColumn(INT64, np.zeros(0, np.uint8)),
        FlatColumn(BYTES, np.zeros(0, np.uint8), np.zeros(1, np.int64)),
    ):
        wire = LONG if column.kind == INT64 else DATA
        values, offsets = kernels.encode_avro([column], EncodeProgram(1, (AvroNode(wire),)), 0)
        assert (len(values), offsets.tolist()) == (0, [0])


def test_columns_that_do_not_match(kernels: Any) -> None:
    column = FlatColumn(FLOAT64, np.zeros(8, np.uint8))
    for node in (AvroNode(LONG), AvroNode(TEXT), AvroNode(FLOAT)):
        with pytest.raises(InternalError, match="cannot be encoded"):
            kernels.encode_avro([column], EncodeProgram(1, (node,)), 1)
    with pytest.raises(InternalError, match="items"):
        kernels.encode_avro([column], EncodeProgram(1, (AvroNode(DOUBLE),)), 2)
    nulls = replace(column, valid=np.zeros(1, np.uint8))
    with pytest.raises(InternalError, match="null"):
        kernels.encode_avro([nulls], EncodeProgram(1, (AvroNode(DOUBLE),)), 1)
    for offsets in ([0, 40, 8], [0, 4096, 64], [-8, 0, 8], [0, 8, 65]):
        outside = FlatColumn(BYTES, np.zeros(64, np.uint8), np.array(offsets, np.int64))
        with pytest.raises(InternalError, match="Offsets"):
            kernels.encode_avro([outside], EncodeProgram(1, (AvroNode(DATA),)), 2)


def test_rows_that_do_not_exist(kernels: Any) -> None:
    sources, _, program = several_writers()
    for rows in ([0, 99], [0] * 1500 + [99] + [0] * 500):
        with pytest.raises(InternalError, match="exist"):
            kernels.decode_avro(sources, np.array(rows), program)


def test_compiled_kernels_check_where_values_lie() -> None:
    from slatespark.kernels.avro_decode import decode_avro

    [source], _, program = several_writers()
    for start, length in ((-1, 1), (0, len(source.value_bytes) + 1), (3, -1), (2**62, 2**62)):
        starts, lengths = source.value_starts.copy(), source.value_lengths.copy()
        starts[7], lengths[7] = start, length
        wrong = replace(source, value_starts=starts, value_lengths=lengths)
        for rows in (np.arange(9), np.arange(3000) % 9):
            with pytest.raises(InternalError, match="outside"):
                decode_avro([wrong], rows, program)


def test_many_rows(kernels: Any) -> None:
    sources, _, program = several_writers()
    (numbers, texts), status = kernels.decode_avro(sources, np.arange(9000) % 9, program)
    (few_numbers, few_texts), few_status = kernels.decode_avro(sources, np.arange(9), program)
    assert status.tolist() == few_status.tolist() * 1000
    assert items_of(texts) == items_of(few_texts) * 1000
    assert items_of(numbers) == items_of(few_numbers) * 1000
