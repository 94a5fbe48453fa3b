"""Decoder of FoundationDB's tuple layer. Layout: `slatespark.kernels.reference.tuple_encode`.

Strict: a key must equal the encoding of its items, otherwise two keys could denote the same row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns
from slatespark.kernels.flat import BOOL, BYTES, FLOAT32, FLOAT64, INT128, ITEM_BYTES, FlatColumn
from slatespark.kernels.reference.gather import unpacked
from slatespark.kernels.reference.tuple_encode import FORMATS, encode_integer, encode_item, is_text
from slatespark.kernels.tuple_program import (
    BYTES_CODE,
    DOUBLE_CODE,
    END,
    ESCAPE,
    FALSE_CODE,
    FLOAT_CODE,
    LONG_NEGATIVE_CODE,
    LONG_POSITIVE_CODE,
    NULL_CODE,
    STRUCT,
    STRUCT_CODE,
    TEXT,
    TEXT_CODE,
    TRUE_CODE,
    ZERO_CODE,
    KeyStatus,
    TupleStep,
    check_total,
    check_wanted,
    read_program,
)


def decode_tuples(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> tuple[list[FlatColumn | None], NDArray[np.uint8]]:
    """See `slatespark.kernels.decode_tuples`."""
    steps = read_program(program)
    check_wanted(steps, wanted)
    keys = [source.key(row) for source, row in unpacked(sources, rows)]
    check_total(sum(map(len, keys)))
    decoded = [_items(steps, key) for key in keys]
    columns = [
        _column(step, [items[step.column] for items, _ in decoded]) if wanted[step.column] else None
        for step in steps
        if step.kind != END
    ]
    return columns, np.array([status for _, status in decoded], np.uint8)


class _NoTupleError(Exception):
    """The bytes of a key do not match the program."""


def _items(steps: Sequence[TupleStep], key: bytes) -> tuple[list[Any], KeyStatus]:
    """Return the items of a key, None for nulls, and its status."""
    items: list[Any] = [None] * sum(step.kind != END for step in steps)
    try:
        at, number = 0, 0
        while number < len(steps):
            step = steps[number]
            code = _part(key, at, 1)[0]
            if step.kind == END:
                _expect(code == 0, KeyStatus.WRONG_TYPE)
                at += 1
            elif code == NULL_CODE:
                _expect(not step.required, KeyStatus.WRONG_TYPE)
                if step.nested:
                    _expect(_part(key, at + 1, 1)[0] == ESCAPE, KeyStatus.WRONG_TYPE)
                at += step.null_bytes
                number += step.parts
            else:
                items[step.column], at = _item(step, code, key, at)
            number += 1
        _expect(at == len(key), KeyStatus.TRAILING)
    except _NoTupleError as error:
        return [None] * len(items), KeyStatus(error.args[0])
    return items, KeyStatus.FINE


def _expect(fine: bool, status: KeyStatus) -> None:
    if not fine:
        raise _NoTupleError(status)


def _part(key: bytes, at: int, size: int) -> bytes:
    _expect(at + size <= len(key), KeyStatus.CUT_SHORT)
    return key[at : at + size]


def _item(step: TupleStep, code: int, key: bytes, at: int) -> tuple[Any, int]:
    """Return the item at `at`, and its end."""
    if step.kind in (BYTES, TEXT):
        _expect(code == (TEXT_CODE if step.kind == TEXT else BYTES_CODE), KeyStatus.WRONG_TYPE)
        item, end = _string(key, at + 1)
        _expect(step.kind == BYTES or is_text(item), KeyStatus.BAD_TEXT)
        return item, end
    if step.kind == STRUCT:
        _expect(code == STRUCT_CODE, KeyStatus.WRONG_TYPE)
        return True, at + 1
    if step.kind == BOOL:
        _expect(code in (FALSE_CODE, TRUE_CODE), KeyStatus.WRONG_TYPE)
        return code == TRUE_CODE, at + 1
    if step.kind in (FLOAT32, FLOAT64):
        return _float(step, code, key, at)
    if code in (LONG_NEGATIVE_CODE, LONG_POSITIVE_CODE):
        _expect(step.kind == INT128, KeyStatus.OUT_OF_RANGE)
        size, start = _part(key, at + 1, 1)[0] ^ (0xFF if code == LONG_NEGATIVE_CODE else 0), at + 2
        _expect(size >= 8, KeyStatus.NOT_CANONICAL)
        _expect(size <= 16, KeyStatus.OUT_OF_RANGE)
    else:
        size, start = abs(code - ZERO_CODE), at + 1
        _expect(size <= 8, KeyStatus.WRONG_TYPE)
    number = int.from_bytes(_part(key, start, size), "big")
    if code < ZERO_CODE:
        number -= (1 << 8 * size) - 1
    _expect(encode_integer(number) == key[at : start + size], KeyStatus.NOT_CANONICAL)
    _expect(abs(number) <= step.limit + (step.kind != INT128 and code < ZERO_CODE), KeyStatus.OUT_OF_RANGE)
    return number, start + size


def _string(key: bytes, at: int) -> tuple[bytes, int]:
    parts = []
    while True:
        end = key.find(0, at)
        _expect(end >= 0, KeyStatus.CUT_SHORT)
        parts.append(key[at:end])
        if key[end + 1 : end + 2] != bytes([ESCAPE]):
            return b"\0".join(parts), end + 1
        at = end + 2


def _float(step: TupleStep, code: int, key: bytes, at: int) -> tuple[float, int]:
    size = ITEM_BYTES[step.kind]
    _expect(code == (FLOAT_CODE if step.kind == FLOAT32 else DOUBLE_CODE), KeyStatus.WRONG_TYPE)
    bits = int.from_bytes(_part(key, at + 1, size), "big")
    sign = 1 << (8 * size - 1)
    bits ^= sign if bits & sign else 2 * sign - 1
    item = struct.unpack(">f" if step.kind == FLOAT32 else ">d", bits.to_bytes(size, "big"))[0]
    _expect(encode_item(step, item) == key[at : at + 1 + size], KeyStatus.NOT_CANONICAL)
    return item, at + 1 + size


def _column(step: TupleStep, items: list[Any]) -> FlatColumn:
    present = np.array([item is not None for item in items], np.uint8)
    valid = None if present.all() else present
    if step.kind == STRUCT:
        return FlatColumn(BOOL, present, valid=valid)
    if step.kind in (BYTES, TEXT):
        offsets = np.cumsum([0, *(len(item or b"") for item in items)], dtype=np.int32)
        return FlatColumn(BYTES, np.frombuffer(b"".join(item or b"" for item in items), np.uint8), offsets, valid)
    if step.kind == INT128:
        data = b"".join((item or 0).to_bytes(16, "little", signed=True) for item in items)
    else:
        data = b"".join(struct.pack(FORMATS[step.kind], item or 0) for item in items)
    return FlatColumn(step.kind, np.frombuffer(data, np.uint8), valid=valid)
