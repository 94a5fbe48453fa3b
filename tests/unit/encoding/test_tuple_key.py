from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark.encoding.column_types import VARIANT
from slatespark.encoding.tuple_key import (
    decode_tuple_keys,
    encode_tuple,
    encode_tuple_keys,
    key_damage,
    require_key_type,
)
from slatespark.encoding.type_names import sql_type
from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.kernels.tuple_program import KeyStatus
from tests.unit.kernels.rows import all_rows, columns, put

TIMESTAMP, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")
PRICE = pa.decimal128(5, 2)
PLACE = pa.struct([pa.field("x", pa.int32()), pa.field("name", pa.string(), nullable=False)])


def keys_of(*arrays: Any) -> list[bytes]:
    key_bytes, offsets = encode_tuple_keys(arrays)
    return [key_bytes[start:end].tobytes() for start, end in pairwise(offsets.tolist())]


def columns_of(types: list[pa.DataType], *keys: bytes) -> tuple[list[Any], list[int]]:
    source = columns(*(put(key, 1) for key in keys))
    arrays, status = decode_tuple_keys([source], all_rows([source]), types, [True] * len(types))
    return [None if array is None else array.to_pylist() for array in arrays], status.tolist()


def test_dates_times_and_decimals_are_integers() -> None:
    arrays = [
        pa.array([date(1969, 12, 31), None], pa.date32()),
        pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None], TIMESTAMP),
        pa.array([datetime(1969, 12, 31, 23, 59, 59, 999999), None], NTZ),  # noqa: DTZ001
        pa.array([Decimal("-1.5"), None], PRICE),
    ]
    keys = keys_of(*arrays)
    assert [key.hex(" ") for key in keys] == ["13 fe 17 0f 42 40 13 fe 13 69", "00 00 00 00"]
    found, status = columns_of([array.type for array in arrays], *keys)
    assert status == [0, 0]
    assert found == [array.to_pylist() for array in arrays]


def test_structs() -> None:
    places = pa.array([{"x": None, "name": "a"}, None, {"x": 1, "name": ""}], PLACE)
    keys = keys_of(places, pa.array([1, 2, 3]))
    assert [key.hex(" ") for key in keys] == ["05 00 ff 02 61 00 00 15 01", "00 15 02", "05 15 01 02 00 00 15 03"]
    assert keys_of(places.slice(1), pa.array([2, 3])) == keys[1:]
    chunks = pa.chunked_array([places[:2], places[2:]])
    assert keys_of(chunks, pa.chunked_array([[1], [2, 3]])) == keys
    found, status = columns_of([PLACE, pa.int64()], *keys, b"\x05\x00\xff\x00\xff\x00\x14", b"\x05\x14\x00")
    assert status == [0, 0, 0, KeyStatus.WRONG_TYPE, KeyStatus.WRONG_TYPE]
    assert found == [[*places.to_pylist(), None, None], [1, 2, 3, None, None]]


def test_only_wanted_columns_are_decoded() -> None:
    types = [PLACE, pa.string(), pa.int8()]
    source = columns(put(encode_tuple([(1, "n"), "text", 5], types), 1), put(b"\x14", 1))
    for wanted in ([True, False, False], [False, True, True], [False, False, False]):
        arrays, status = decode_tuple_keys([source], all_rows([source]), types, wanted)
        assert [array is not None for array in arrays] == wanted
        assert [array.type for array in arrays if array is not None] == [
            k for k, w in zip(types, wanted, strict=True) if w
        ]
        assert status.tolist() == [0, KeyStatus.WRONG_TYPE]


def test_no_rows() -> None:
    types = [PLACE, pa.string(), PRICE]
    key_bytes, offsets = encode_tuple_keys([pa.array([], kind) for kind in types])
    assert (key_bytes.tolist(), offsets.tolist()) == ([], [0])
    arrays, status = decode_tuple_keys([], np.zeros(0, np.int64), types, [True] * 3)
    assert [len(array) for array in arrays if array is not None] == [0, 0, 0]
    assert len(status) == 0
    keys = keys_of(*(pa.chunked_array([], kind) for kind in types))
    assert keys == []


@pytest.mark.parametrize(
    ("value", "kind", "key"),
    [
        (None, pa.int64(), "00"),
        (np.int16(-1), pa.int64(), "13 fe"),
        (5, pa.float64(), "21 c0 14 00 00 00 00 00 00"),
        (0.1, pa.float32(), "20 bd cc cc cd"),
        (np.float32(-0.0), pa.float32(), "20 80 00 00 00"),
        (-math.inf, pa.float32(), "20 00 7f ff ff"),
        (np.True_, pa.bool_(), "27"),
        (bytearray(b"\0"), pa.binary(), "01 00 ff 00"),
        (7, PRICE, "16 02 bc"),
        (Decimal("1E+1"), PRICE, "16 03 e8"),
        (Decimal("-999.9900"), PRICE, "11 fe 79 60"),
        (Decimal("-0E-9"), PRICE, "14"),
        (Decimal("0E+9"), PRICE, "14"),
        (Decimal("00001.5"), PRICE, "15 96"),
        (date(1970, 1, 2), pa.date32(), "15 01"),
        (-1, pa.date32(), "13 fe"),
        (5, TIMESTAMP, "15 05"),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), TIMESTAMP, "14"),
        (datetime(1970, 1, 1, 0, 0, 0, 5), TIMESTAMP, "15 05"),  # noqa: DTZ001
        (datetime(1970, 1, 1, 0, 0, 0, 5), NTZ, "15 05"),  # noqa: DTZ001
        ({"name": "a", "x": 1}, PLACE, "05 15 01 02 61 00 00"),
        ((None, "a"), PLACE, "05 00 ff 02 61 00 00"),
    ],
)
def test_values(value: Any, kind: pa.DataType, key: str) -> None:
    assert encode_tuple([value], [kind, pa.int8()]).hex(" ") == key


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (1.0, pa.int64(), "float"),
        (True, pa.int64(), "bool"),
        ("1", pa.int64(), "str"),
        (128, pa.int8(), "range"),
        (2**63, pa.int64(), "range"),
        (1, pa.bool_(), "int"),
        (2**53 + 1, pa.float64(), "exact"),
        (10**400, pa.float64(), "exact"),
        (10**39, pa.float32(), "exact"),
        (2**100, pa.date32(), "range"),
        (1e39, pa.float32(), "FLOAT"),
        (b"a", pa.string(), "bytes"),
        ("\ud800", pa.string(), "surrogates"),
        ("a", pa.binary(), "str"),
        (1.5, PRICE, "float"),
        (1000, PRICE, "digits"),
        (Decimal("0.001"), PRICE, "digits"),
        (Decimal("1E-999999999"), PRICE, "digits"),
        (Decimal("123.456"), PRICE, "digits"),
        (Decimal("NaN"), PRICE, "number"),
        (Decimal("sNaN"), PRICE, "number"),
        (Decimal("-Infinity"), PRICE, "number"),
        (Decimal("1E+999999"), PRICE, "point"),
        (datetime(1970, 1, 1), pa.date32(), "datetime"),  # noqa: DTZ001
        (date(1970, 1, 1), TIMESTAMP, "date"),
        (datetime(1970, 1, 1, tzinfo=UTC), NTZ, "zone"),
        ("1970-01-01", TIMESTAMP, "str"),
        ((1,), PLACE, "fields"),
        ({"x": 1}, PLACE, "expected"),
        ("ab", PLACE, "str"),
        ((1.5, "a"), PLACE, "float"),
    ],
)
def test_values_that_do_not_fit(value: Any, kind: pa.DataType, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        encode_tuple([0, value], [pa.int8(), kind])
    assert "Value 2" in str(caught.value)
    assert sql_type(pa.field("", kind)) in str(caught.value)


def test_a_value_that_does_not_fit_names_its_column() -> None:
    with pytest.raises(InvalidRequestError, match=r"^Key column day is DATE and cannot be 'soon': "):
        encode_tuple([0, "soon"], [pa.int8(), pa.date32()], ["id", "day"])
    with pytest.raises(InvalidRequestError, match=r"^Key column id is TINYINT and cannot be 'x': its type is str.$"):
        encode_tuple(["x"], [pa.int8(), pa.date32()], ["id", "day"])


def test_prefixes() -> None:
    types = [pa.string(), pa.int64()]
    assert encode_tuple([], types) == b""
    assert encode_tuple(["a", 1], types).startswith(encode_tuple(["a"], types))
    with pytest.raises(InvalidRequestError, match="values"):
        encode_tuple(["a", 1, 2], types)
    with pytest.raises(SchemaError, match="null"):
        encode_tuple([(1, None)], [PLACE])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.duration("us"), "INTERVAL"),
        (pa.time64("ns"), "TIME"),
        (pa.list_(pa.int8()), "ARRAY"),
        (pa.map_(pa.string(), pa.int8()), "MAP"),
        (VARIANT, "variant_get"),
        (pa.struct([]), "STRUCT"),
        (pa.struct([("a", pa.struct([("b", pa.time64("ns"))]))]), r"k\.a\.b"),
        (pa.large_string(), "LARGE_STRING"),
    ],
)
def test_types_that_a_key_cannot_hold(kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        require_key_type(pa.field("k", kind))


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8(), pa.float32(), PRICE, pa.binary(), pa.date32(), NTZ, PLACE])
def test_types_that_a_key_can_hold(kind: pa.DataType) -> None:
    require_key_type(pa.field("k", kind))
    assert encode_tuple([None], [kind]) == b"\0"


def test_invalid_utf8_is_refused() -> None:
    broken = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(SchemaError, match="UTF-8"):
        encode_tuple_keys([broken])


def test_every_status_has_a_reason() -> None:
    for status in list(KeyStatus)[1:]:
        assert key_damage(int(status))
