"""Keys: the bytes that FoundationDB's own package writes, in the order of the columns, and never a wrong value back."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import fdb.tuple
import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.encoding.tuple_key import decode_tuple_keys, encode_tuple, encode_tuple_keys, key_columns, key_program
from slatespark.kernels.tuple_program import KeyStatus
from tests.support.effort import examples
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.rows import all_rows, columns, put, same

INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64, pa.date32(): 32}
TIMES = [pa.timestamp("us", "UTC"), pa.timestamp("us")]
OTHERS = [pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.binary()]

decimal_types = st.integers(1, 38).flatmap(lambda p: st.builds(pa.decimal128, st.just(p), st.integers(0, p)))
flat_types = st.sampled_from([*INTEGERS, *TIMES, *OTHERS]) | decimal_types


def struct_types(parts: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(parts, st.booleans()), min_size=1, max_size=3)
    return fields.map(lambda items: pa.struct([pa.field(f"f{i}", kind, null) for i, (kind, null) in enumerate(items)]))


key_types = st.recursive(flat_types, struct_types, max_leaves=4)

# Zero bytes are escaped, and words of eight bytes are gone through: strings that meet both at all places.
texts = st.text("\0a\x7f\xff\u0800\U0001f600", max_size=20) | st.text(max_size=4)
binaries = st.lists(st.sampled_from([b"\0", b"\xff", b"abcdefg"]), max_size=6).map(b"".join) | st.binary(max_size=9)


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Of any number of bytes, and next to where one more is needed."""
    edges = [sign * (256**size + step) for size in range(17) for sign in (1, -1) for step in (-2, -1, 0)]
    inside = sorted({low, high, 0, *(edge for edge in edges if low <= edge <= high)})
    return st.integers(low, high) | st.sampled_from(inside)


def items_of(kind: pa.DataType, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Items as plain Python: numbers for dates, times and decimals, tuples for structs."""
    items: st.SearchStrategy[Any]
    if kinds.is_struct(kind):
        items = st.tuples(*(items_of(part.type, nullable=part.nullable) for part in kind))
    elif kinds.is_decimal(kind):
        items = integers(1 - 10**kind.precision, 10**kind.precision - 1)
    elif kinds.is_floating(kind):
        items = st.floats(width=kind.bit_width) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan])
    else:
        bits = INTEGERS.get(kind, 64)
        others = {pa.bool_(): st.booleans(), pa.string(): texts, pa.binary(): binaries}
        items = others.get(kind, integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    return items | st.none() if nullable else items


def array_of(items: list[Any], kind: pa.DataType) -> pa.Array:
    if kinds.is_struct(kind):
        parts = [
            array_of([None if item is None else item[number] for item in items], part.type)
            for number, part in enumerate(kind)
        ]
        mask = pa.array([item is None for item in items], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    return pa.array([python_value(item, kind) for item in items], kind)


def python_value(item: Any, kind: pa.DataType) -> Any:
    if item is None:
        return None
    if kinds.is_struct(kind):
        return tuple(python_value(part, field.type) for part, field in zip(item, kind, strict=True))
    if kinds.is_decimal(kind):
        return Decimal((int(item < 0), tuple(map(int, str(abs(item)))), -kind.scale))
    return item


def plain_items(array: pa.Array) -> list[Any]:
    """Return the items of an array as `items_of` makes them."""
    kind = array.type
    if kinds.is_struct(kind):
        parts = zip(*(plain_items(array.field(number)) for number in range(kind.num_fields)), strict=True)
        return [item if there else None for item, there in zip(parts, array.is_valid().to_pylist(), strict=True)]
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        array = array.cast(pa.int32() if kinds.is_date(kind) else pa.int64())
    items: list[Any] = array.to_pylist()
    return [unscaled(item) if isinstance(item, Decimal) else item for item in items]


def unscaled(number: Decimal) -> int:
    sign, digits, _ = number.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def normal(item: Any, kind: pa.DataType) -> Any:
    """Return what comes back: floating-point numbers as their bits."""
    if item is None:
        return None
    if kinds.is_struct(kind):
        return tuple(normal(part, field.type) for part, field in zip(item, kind, strict=True))
    if kinds.is_floating(kind):
        return struct.pack(">d", math.nan if math.isnan(item) else item + 0.0)
    return item


def rank(item: Any) -> Any:
    """Return what sorts as a column does: nulls first, NaN last, strings by their bytes."""
    if item is None:
        return (0,)
    if isinstance(item, tuple):
        return (1, *map(rank, item))
    if isinstance(item, float):
        return (1, math.isnan(item), 0.0 if math.isnan(item) else item)
    return (1, item.encode() if isinstance(item, str) else item)


def fdb_item(item: Any, kind: pa.DataType) -> Any:
    if item is None:
        return None
    if kinds.is_struct(kind):
        return tuple(fdb_item(part, field.type) for part, field in zip(item, kind, strict=True))
    if kinds.is_floating(kind):
        number = math.nan if math.isnan(item) else item + 0.0
        return fdb.tuple.SingleFloat(number) if kinds.is_float32(kind) else number
    return item


def split_keys(key_bytes: Any, offsets: Any) -> list[bytes]:
    return [key_bytes[start:end].tobytes() for start, end in pairwise(offsets.tolist())]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]]]:
    """Types of key columns, and rows of items."""
    types = draw(st.lists(key_types, min_size=1, max_size=3))
    return types, draw(st.lists(st.tuples(*map(items_of, types)), max_size=12))


def arrays_of(types: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [array_of([row[number] for row in rows], kind) for number, kind in enumerate(types)]


@given(tables())
def test_keys_are_those_of_the_fdb_package(table: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, rows = table
    keys = split_keys(*encode_tuple_keys(arrays_of(types, rows)))
    for key, row in zip(keys, rows, strict=True):
        items = [fdb_item(item, kind) for item, kind in zip(row, types, strict=True)]
        assert key == fdb.tuple.pack(tuple(items))
        values = [python_value(item, kind) for item, kind in zip(row, types, strict=True)]
        assert key == encode_tuple(values, types)
        for size in range(len(types)):
            assert key.startswith(encode_tuple(values[:size], types))


@given(tables())
def test_keys_are_in_the_order_of_the_columns(table: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, rows = table
    keys = split_keys(*encode_tuple_keys(arrays_of(types, rows)))
    for left, left_row in zip(keys, rows, strict=True):
        for right, right_row in zip(keys, rows, strict=True):
            assert (left < right) == (rank(left_row) < rank(right_row))
            assert (left == right) == (rank(left_row) == rank(right_row))


@given(tables(), st.data())
def test_round_trip(table: tuple[list[pa.DataType], list[tuple[Any, ...]]], data: st.DataObject) -> None:
    types, rows = table
    arrays = arrays_of(types, rows)
    cut = data.draw(st.integers(0, len(rows)))
    pieces = [pa.chunked_array([array[:cut], array[cut:]]) for array in arrays]
    keys = split_keys(*encode_tuple_keys(pieces))
    assert keys == split_keys(*encode_tuple_keys(arrays))
    assert keys[cut:] == split_keys(*encode_tuple_keys([array[cut:] for array in arrays]))
    source = columns(*(put(key, 1) for key in keys))
    order = data.draw(st.permutations(range(len(rows))))
    wanted = data.draw(st.tuples(*(st.booleans() for _ in types)))
    decoded, status = decode_tuple_keys([source], np.array(order, np.int64), types, wanted)
    assert not status.any()
    for number, (array, kind) in enumerate(zip(decoded, types, strict=True)):
        assert (array is not None) == wanted[number]
        if array is not None:
            array.validate(full=True)
            assert array.type == kind
            expected = [normal(rows[row][number], kind) for row in order]
            assert [normal(item, kind) for item in plain_items(array)] == expected


@given(tables())
def test_twins_encode_the_same(table: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, rows = table
    arguments = key_columns(arrays_of(types, rows)), key_program(tuple(types))
    assert same(COMPILED.encode_tuples(*arguments), REFERENCE.encode_tuples(*arguments))


CODES = [0x00, 0x01, 0x02, 0x05, 0x0B, 0x0C, 0x13, 0x14, 0x15, 0x1C, 0x1D, 0x20, 0x21, 0x26, 0x27, 0x80, 0xE2, 0xFF]
wild_keys = st.binary(max_size=30) | st.lists(st.sampled_from(CODES), max_size=30).map(bytes)
edits = st.lists(st.tuples(st.integers(0, 1 << 12), st.sampled_from("=^-"), st.sampled_from(CODES)), max_size=3)


def edited(key: bytes, changes: list[tuple[int, str, int]]) -> bytes:
    """Return a key with bytes set, bits flipped, or bytes taken out; cut where it is said so."""
    changed = bytearray(key)
    for at, kind, number in changes:
        at %= len(changed) or 1
        if kind == "-":
            del changed[at : at + 1 + number % 3]
        elif changed:
            changed[at] = number if kind == "=" else changed[at] ^ 1 << number % 8
    return bytes(changed)


@settings(max_examples=examples(150))
@given(tables(), st.lists(wild_keys, max_size=5), edits, st.data())
def test_any_bytes(
    table: tuple[list[pa.DataType], list[tuple[Any, ...]]],
    wild: list[bytes],
    changes: list[tuple[int, str, int]],
    data: st.DataObject,
) -> None:
    types, rows = table
    good = split_keys(*encode_tuple_keys(arrays_of(types, rows)))
    keys = [*good, *(edited(key, changes) for key in good), *wild, *(key + b"\0" for key in good)]
    source, program = columns(*(put(key, 1) for key in keys)), key_program(tuple(types))
    shape = len(key_columns(arrays_of(types, [])))
    every, some = np.ones(shape, np.bool_), np.array(data.draw(st.tuples(*[st.booleans()] * shape)), np.bool_)
    found, status = COMPILED.decode_tuples([source], all_rows([source]), program, every)
    plain, plain_status = REFERENCE.decode_tuples([source], all_rows([source]), program, every)
    assert same((*found, status), (*plain, plain_status))
    part, part_status = COMPILED.decode_tuples([source], all_rows([source]), program, some)
    expected = [column if is_wanted else None for column, is_wanted in zip(found, some, strict=True)]
    assert same((*part, part_status), (*expected, status))
    assert not status[: len(good)].any()
    assert set(status.tolist()) <= set(KeyStatus)
    # What is taken is the key of its own items, so no two keys mean the same row.
    arrays, status = decode_tuple_keys([source], all_rows([source]), types, [True] * len(types))
    fine = np.flatnonzero(status == 0)
    again = split_keys(*encode_tuple_keys([array.take(pa.array(fine)) for array in arrays if array is not None]))
    assert again == [keys[row] for row in fine]
