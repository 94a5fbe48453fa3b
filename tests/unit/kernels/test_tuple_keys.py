from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from slatespark.errors import InternalError, SchemaError
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
from slatespark.kernels.tuple_program import END, STRUCT, TEXT, KeyStatus, program_entry
from tests.unit.kernels.rows import all_rows, columns, packed, put, same

FORMATS = {BOOL: "?", INT8: "b", INT16: "<h", INT32: "<i", INT64: "<q", FLOAT32: "<f", FLOAT64: "<d"}
DECIMAL = program_entry(INT128, precision=38)
FINE, WRONG_TYPE, CUT_SHORT, OUT_OF_RANGE, NOT_CANONICAL, BAD_TEXT, TRAILING = KeyStatus


def column(kind: int, *items: Any) -> FlatColumn:
    there = np.array([item is not None for item in items], np.uint8)
    valid = None if there.all() else there
    if kind == STRUCT:
        return FlatColumn(BOOL, there, valid=valid)
    if kind in (BYTES, TEXT):
        data = [item or b"" for item in items]
        offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
        return FlatColumn(BYTES, np.frombuffer(b"".join(data), np.uint8), offsets, valid)
    if kind == INT128:
        encoded = b"".join((item or 0).to_bytes(16, "little", signed=True) for item in items)
    else:
        encoded = b"".join(struct.pack(FORMATS[kind], item or 0) for item in items)
    return FlatColumn(kind, np.frombuffer(encoded, np.uint8), valid=valid)


def one_key(kernels: Any, program: list[int], *columns: FlatColumn) -> str:
    keys, offsets = kernels.encode_tuples(columns, np.array(program))
    assert offsets.tolist() == [0, len(keys)]
    return bytes(keys).hex(" ")


def decoded(kernels: Any, program: list[int], *keys: bytes) -> tuple[list[FlatColumn], list[int]]:
    source = columns(*(put(key, 1) for key in keys))
    wanted = np.ones(sum(entry & 0xFF != END for entry in program), np.bool_)
    found, status = kernels.decode_tuples([source], all_rows([source]), np.array(program), wanted)
    return found, status.tolist()


@pytest.mark.parametrize(
    ("kind", "item", "key"),
    [
        (BOOL, False, "26"),
        (BOOL, True, "27"),
        (INT8, 0, "14"),
        (INT8, -128, "13 7f"),
        (INT16, 256, "16 01 00"),
        (INT16, -255, "13 00"),
        (INT32, -256, "12 fe ff"),
        (INT64, 2**63 - 1, "1c 7f ff ff ff ff ff ff ff"),
        (INT64, -(2**63), "0c 7f ff ff ff ff ff ff ff"),
        (FLOAT32, 1.5, "20 bf c0 00 00"),
        (FLOAT32, -1.5, "20 40 3f ff ff"),
        (FLOAT32, -0.0, "20 80 00 00 00"),
        (FLOAT32, math.nan, "20 ff c0 00 00"),
        (FLOAT64, 0.0, "21 80 00 00 00 00 00 00 00"),
        (FLOAT64, -0.0, "21 80 00 00 00 00 00 00 00"),
        (FLOAT64, -math.nan, "21 ff f8 00 00 00 00 00 00"),
        (FLOAT64, math.inf, "21 ff f0 00 00 00 00 00 00"),
        (DECIMAL, 2**64 - 2, "1c ff ff ff ff ff ff ff fe"),
        (DECIMAL, 2**64 - 1, "1d 08 ff ff ff ff ff ff ff ff"),
        (DECIMAL, 1 - 2**64, "0b f7 00 00 00 00 00 00 00 00"),
        (DECIMAL, 2**64, "1d 09 01 00 00 00 00 00 00 00 00"),
        (DECIMAL, -(2**64), "0b f6 fe ff ff ff ff ff ff ff ff"),
        (DECIMAL, 10**38 - 1, "1d 10 4b 3b 4c a8 5a 86 c4 7a 09 8a 22 3f ff ff ff ff"),
        (DECIMAL, 1 - 10**38, "0b ef b4 c4 b3 57 a5 79 3b 85 f6 75 dd c0 00 00 00 00"),
        (BYTES, b"", "01 00"),
        (BYTES, b"\0\xff", "01 00 ff ff 00"),
        (TEXT, b"1234567\0", "02 31 32 33 34 35 36 37 00 ff 00"),
        (TEXT, "\u00e9\U0001f600".encode(), "02 c3 a9 f0 9f 98 80 00"),
        (TEXT, None, "00"),
        (DECIMAL, None, "00"),
    ],
)
def test_items(kernels: Any, kind: int, item: Any, key: str) -> None:
    assert one_key(kernels, [kind], column(kind & 0xFF, item)) == key
    found, status = decoded(kernels, [kind], bytes.fromhex(key))
    assert status == [FINE]
    assert one_key(kernels, [kind], inputs_of(found[0])) == key
    if item == item:  # not NaN
        assert same(bytes(found[0].data), bytes(column(kind & 0xFF, 0.0 if item == 0 else item).data))


def inputs_of(output: FlatColumn) -> FlatColumn:
    offsets = None if output.offsets is None else output.offsets.astype(np.int64)
    return FlatColumn(output.kind, output.data, offsets, output.valid)


NESTED = [STRUCT, INT64, STRUCT, TEXT, END, END, BOOL]


@pytest.mark.parametrize(
    ("items", "key"),
    [
        ((True, 1, True, b"x"), "05 15 01 05 02 78 00 00 00 27"),
        ((True, None, True, None), "05 00 ff 05 00 ff 00 00 27"),
        ((True, 0, None, b"ignored"), "05 14 00 ff 00 27"),
        ((None, 5, True, b"ignored"), "00 27"),
    ],
)
def test_structs(kernels: Any, items: tuple[Any, ...], key: str) -> None:
    kinds = [STRUCT, INT64, STRUCT, TEXT]
    parts = [column(kind, item) for kind, item in zip(kinds, items, strict=True)]
    assert one_key(kernels, NESTED, *parts, column(BOOL, True)) == key
    found, status = decoded(kernels, NESTED, bytes.fromhex(key))
    assert status == [FINE]
    there = [item is not None for item in items]
    if not there[0]:
        there = [False] * 4
    elif not there[2]:
        there[3] = False
    assert [part.valid is None for part in found] == [*there, True]


BAD = [
    (INT64, "", CUT_SHORT),
    (INT64, "15", CUT_SHORT),
    (INT64, "15 00", NOT_CANONICAL),
    (INT64, "13 ff", NOT_CANONICAL),
    (INT64, "16 00 01", NOT_CANONICAL),
    (INT64, "15 01 00", TRAILING),
    (INT64, "02 00", WRONG_TYPE),
    (INT64, "1c 80 00 00 00 00 00 00 00", OUT_OF_RANGE),
    (INT64, "0c 7f ff ff ff ff ff ff fe", OUT_OF_RANGE),
    (INT64, "1d 09 01 00 00 00 00 00 00 00 00", OUT_OF_RANGE),
    (INT8, "15 80", OUT_OF_RANGE),
    (INT8, "13 7e", OUT_OF_RANGE),
    (program_entry(INT128, precision=3), "16 03 e8", OUT_OF_RANGE),
    (program_entry(INT128, precision=3), "12 fc 17", OUT_OF_RANGE),
    (DECIMAL, "1d", CUT_SHORT),
    (DECIMAL, "1d 09 01", CUT_SHORT),
    (DECIMAL, "1d 07 01 01 01 01 01 01 01", NOT_CANONICAL),
    (DECIMAL, "1d 08 ff ff ff ff ff ff ff fe", NOT_CANONICAL),
    (DECIMAL, "1c ff ff ff ff ff ff ff ff", NOT_CANONICAL),
    (DECIMAL, "1d 09 00 ff ff ff ff ff ff ff ff", NOT_CANONICAL),
    (DECIMAL, "1d 11", OUT_OF_RANGE),
    (DECIMAL, "1d 10 4b 3b 4c a8 5a 86 c4 7a 09 8a 22 40 00 00 00 00", OUT_OF_RANGE),
    (FLOAT32, "20 80", CUT_SHORT),
    (FLOAT32, "21 80 00 00 00 00 00 00 00", WRONG_TYPE),
    (FLOAT32, "20 7f ff ff ff", NOT_CANONICAL),
    (FLOAT64, "21 7f ff ff ff ff ff ff ff", NOT_CANONICAL),
    (FLOAT64, "21 ff f8 00 00 00 00 00 01", NOT_CANONICAL),
    (FLOAT64, "21 00 07 ff ff ff ff ff ff", NOT_CANONICAL),
    (BOOL, "25", WRONG_TYPE),
    (BYTES, "02 00", WRONG_TYPE),
    (BYTES, "01 61", CUT_SHORT),
    (BYTES, "01 61 00 ff", CUT_SHORT),
    (BYTES, "01 61 00 fe", TRAILING),
    (TEXT, "02 80 00", BAD_TEXT),
    (TEXT, "02 c0 80 00", BAD_TEXT),
    (TEXT, "02 ed a0 80 00", BAD_TEXT),
    (TEXT, "02 c3 00", BAD_TEXT),
    (TEXT, "02 c3 00 ff 00", BAD_TEXT),
    (TEXT, "00 ff", TRAILING),
]


@pytest.mark.parametrize(("kind", "key", "status"), BAD, ids=[key for _, key, _ in BAD])
def test_invalid_keys(kernels: Any, kind: int, key: str, status: KeyStatus) -> None:
    good = decoded(kernels, [kind], bytes.fromhex("00"))
    found, statuses = decoded(kernels, [kind], b"\0", bytes.fromhex(key), b"\0")
    assert statuses == [FINE, status, FINE]
    assert found[0].valid is not None
    assert found[0].valid.tolist() == [0, 0, 0]
    assert bytes(found[0].data) == bytes(good[0][0].data) * 3


@pytest.mark.parametrize(
    ("program", "key", "status"),
    [
        ([INT64, BOOL], "14", CUT_SHORT),
        ([STRUCT, INT64, END], "05 14", CUT_SHORT),
        ([STRUCT, INT64, END], "05 00", CUT_SHORT),
        ([STRUCT, INT64, END], "05 00 00", WRONG_TYPE),  # a struct without fields
        ([STRUCT, INT64, END], "05 14 14 00", WRONG_TYPE),  # one field too many
        ([STRUCT, INT64, END], "14", WRONG_TYPE),
        ([STRUCT, program_entry(INT64, required=True), END], "05 00 ff 00", WRONG_TYPE),
        ([STRUCT, program_entry(INT64, required=True), END], "00", FINE),
    ],
)
def test_invalid_tuples(kernels: Any, program: list[int], key: str, status: KeyStatus) -> None:
    assert decoded(kernels, program, bytes.fromhex(key))[1] == [status]


def test_several_sources_and_repeated_rows(kernels: Any) -> None:
    sources = [columns(put(b"\x02a\0\x26", 1), put(b"\x02bc\0\x27", 1)), columns(put(b"\x00\x27", 1))]
    rows = np.array([*packed(1, 0), *packed(0, 1, 0, 1)])
    program = np.array([TEXT, BOOL])
    found, status = kernels.decode_tuples(sources, rows, program, np.array([True, False]))
    assert status.tolist() == [0, 0, 0, 0]
    assert found[1] is None
    assert (bytes(found[0].data), found[0].offsets.tolist()) == (b"bcabc", [0, 0, 2, 3, 5])
    assert (found[0].offsets.dtype, found[0].valid.tolist()) == (np.int32, [0, 1, 1, 1])
    found, status = kernels.decode_tuples(sources, rows[:0], program, np.array([True, True]))
    assert [len(part) for part in found] == [0, 0]
    for many in ([], packed(0, 1) * 2000):
        with pytest.raises(InternalError, match="source"):
            kernels.decode_tuples(sources, np.array([*many, *packed(1, 9)]), program, np.array([True, True]))


def test_many_keys(kernels: Any) -> None:
    source = columns(*(put(b"\x02%d\0\x26" % number, 1) for number in range(3000)))
    found, status = kernels.decode_tuples([source], np.arange(3000), np.array([TEXT, BOOL]), np.array([True, True]))
    assert not status.any()
    assert bytes(found[0].data) == b"".join(b"%d" % number for number in range(3000))
    assert found[0].offsets[-1] == len(found[0].data)


def test_values_that_cannot_be_encoded(kernels: Any) -> None:
    for item in (b"\xff", b"12345678\xc3", b"\xed\xa0\x80"):
        with pytest.raises(SchemaError, match=r"column 1 .*UTF-8.* row 1 "):
            kernels.encode_tuples([column(TEXT, b"fine", item)], np.array([TEXT]))
    for number in (1000, -1000, 10**38):
        with pytest.raises(SchemaError, match=r"3 digits.* row 0 "):
            kernels.encode_tuples([column(INT128, number)], np.array([program_entry(INT128, precision=3)]))
    required = np.array([BOOL, STRUCT, program_entry(INT8, required=True), END])
    with pytest.raises(SchemaError, match=r"column 2 .*null.* row 1 "):
        kernels.encode_tuples([column(BOOL, True, True), column(STRUCT, True, True), column(INT8, 1, None)], required)


def test_invalid_calls(kernels: Any) -> None:
    number = column(INT64, 1)
    for program in ([0], [13], [INT128], [INT64 | 1 << 8], [STRUCT, INT64], [END], [INT64, END], [INT64 | 1 << 17]):
        with pytest.raises(InternalError):
            kernels.encode_tuples([number], np.array(program))
    for given in ([], [number, number], [column(INT32, 1)], [column(BYTES, b"")]):
        with pytest.raises(InternalError, match="kinds"):
            kernels.encode_tuples(given, np.array([INT64]))
    with pytest.raises(InternalError, match="rows"):
        kernels.encode_tuples([number, column(INT64, 1, 2)], np.array([INT64, INT64]))
    with pytest.raises(InternalError, match="2 columns"):
        kernels.decode_tuples([], np.zeros(0, np.int64), np.array([INT64]), np.array([True, True]))
    for offsets in ([0, 5, 3, 9], [0, 4096, 9], [0, 10], [-1, 9]):
        outside = FlatColumn(BYTES, np.zeros(9, np.uint8), np.array(offsets))
        with pytest.raises(InternalError, match="Offsets"):
            kernels.encode_tuples([outside], np.array([BYTES]))


def test_zeros_are_counted_in_large_columns(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slatespark.kernels.tuple_encode._GUESSED_BYTES", 4)
    for data in (b"\0" * 30, b"a" * 30, b"a\0" * 15):
        keys, _ = kernels.encode_tuples([column(BYTES, data, b"", data)], np.array([BYTES]))
        expected = b"\x01" + data.replace(b"\0", b"\0\xff") + b"\0"
        assert bytes(keys) == expected + b"\x01\0" + expected
