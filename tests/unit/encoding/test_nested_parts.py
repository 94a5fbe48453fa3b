"""Nested columns that kernels decode, and what is left to fastavro."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark.encoding import nested_decode, nested_encode
from slatespark.encoding.avro_schema import avro_schema, fingerprint
from slatespark.encoding.avro_value import FINE, MALFORMED, decode_avro_values, encode_avro_values
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.encoding.nested_parts import NestedParts
from slatespark.errors import SchemaError
from tests.unit.encoding.columns_and_rows import cut, rows_of

ITEM = pa.struct([pa.field("a b", pa.int64(), nullable=False), pa.field("c", list_of(pa.string()))])
DAYS = map_of(pa.date32(), pa.decimal128(9, 2))
CASES: dict[str, tuple[Any, list[Any]]] = {
    "list": (list_of(pa.int32()), [[1, None, 3], [], None, [-(2**31)]]),
    "struct": (ITEM, [{"a b": 1, "c": ["x", None]}, None, {"a b": 2, "c": None}, {"a b": 3, "c": []}]),
    "list of structs": (list_of(ITEM), [[{"a b": 1, "c": ["é"]}, None], [], None, [{"a b": 2, "c": []}]]),
    "map": (map_of(pa.string(), list_of(pa.float64())), [[("k", [1.5]), ("l", None)], [], None, [("k", [])]]),
    "map of dates": (DAYS, [[(5, Decimal("1.25")), (6, None)], None, []]),
    "times": (list_of(pa.time64("ns")), [[0, 86_399_999_999_000], [None]]),
    "timestamps": (pa.struct([pa.field("at", pa.timestamp("us", "UTC"))]), [{"at": 2**62}, {"at": None}]),
    "variant": (VARIANT, [{"metadata": b"\x01", "value": b"\x00"}, None]),
}


def written(kind: Any, values: list[Any]) -> tuple[list[Any], list[bytes]]:
    fields = [pa.field("column", kind)]
    array = pa.array(values, kind)
    return fields, cut(encode_avro_values([array], fields, avro_schema(fields)))


def written_by_python(kind: Any, values: list[Any]) -> tuple[list[Any], list[bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nested_encode, "assembled", lambda *_: None)
        return written(kind, values)


def read(fields: list[Any], values: list[bytes]) -> tuple[Any, list[int]]:
    writers = {fingerprint(avro_schema(fields)): avro_schema(fields)}
    found, status = decode_avro_values(*rows_of(values), writers=writers, fields=fields, wanted=["column"])
    found["column"].validate(full=True)
    return found["column"], status.tolist()


@pytest.mark.parametrize("case", CASES)
def test_no_value_is_decoded_in_python(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = CASES[case]
    fields, stored = written(kind, values)
    monkeypatch.setattr(nested_decode._Decoder, "chunk", lambda *_: pytest.fail("a value was decoded in Python"))
    array, status = read(fields, stored)
    assert array.equals(pa.array(values, kind))
    assert status == [FINE] * len(values)


@pytest.mark.parametrize("case", CASES)
def test_fastavro_decodes_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = CASES[case]
    fields, stored = written(kind, values)
    monkeypatch.setattr(NestedParts, "array", lambda *_: None)
    array, _ = read(fields, stored)
    assert array.equals(pa.array(values, kind))


@pytest.mark.parametrize("case", CASES)
def test_no_value_is_encoded_in_python(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = CASES[case]
    _, expected = written_by_python(kind, values)
    monkeypatch.setattr(nested_encode, "_put_all", lambda *_: pytest.fail("a value was encoded in Python"))
    assert written(kind, values)[1] == expected


@pytest.mark.parametrize("case", CASES)
def test_parts_of_larger_arrays_are_encoded(case: str) -> None:
    kind, values = CASES[case]
    fields, expected = written(kind, values)
    array = pa.array([*reversed(values), *values, *values], kind)[len(values) : 2 * len(values)]
    assert cut(encode_avro_values([array], fields, avro_schema(fields))) == expected
    chunks = pa.chunked_array([array[:2], array[2:2], array[2:]])
    assert cut(encode_avro_values([chunks], fields, avro_schema(fields))) == expected


def test_items_below_a_null_are_not_encoded() -> None:
    """Arrow allows them."""
    kind = list_of(pa.int64())
    array = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3]), type=kind, mask=pa.array([True, False])
    )
    fields, expected = written(kind, [None, [3]])
    assert cut(encode_avro_values([array], fields, avro_schema(fields))) == expected


def test_a_map_whose_pairs_begin_later() -> None:
    kind = map_of(pa.string(), pa.int64())
    pairs = pa.array([("z", 0), ("k", 1), ("l", 2)], pa.struct([kind.key_field, kind.item_field]))
    ends = pa.py_buffer(np.array([0, 2], np.int32))
    array = pa.Array.from_buffers(kind, 1, [None, ends], children=[pairs.slice(1)])
    fields, expected = written(kind, [[("k", 1), ("l", 2)]])
    assert cut(encode_avro_values([array], fields, avro_schema(fields))) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (map_of(pa.string(), pa.int64()), [("k", 1), ("k", 2)]),
        (list_of(pa.time64("ns")), [1]),
        (list_of(pa.time64("ns")), [86_400_000_000_000]),
    ],
    ids=["a key twice", "half a microsecond", "more than a day"],
)
def test_what_is_not_allowed_is_named(kind: Any, value: Any) -> None:
    with pytest.raises(SchemaError):
        written(kind, [value])


def test_a_malformed_value_is_null_and_others_are_not() -> None:
    kind = list_of(pa.int8())
    _, stored = written(list_of(pa.int32()), [[1], [300], [3]])
    head = written(kind, [[1]])[1][0][:10]
    array, status = read([pa.field("column", kind)], [head + value[10:] for value in stored])
    assert array.to_pylist() == [[1], None, [3]]
    assert status == [FINE, MALFORMED, FINE]


def test_a_map_that_repeats_a_key_shows_the_last_one() -> None:
    kind = map_of(pa.string(), pa.int64())
    fields, (first, second) = written(kind, [[("k", 1), ("l", 2)], [("k", 3)]])
    twice = first.replace(b"l", b"k")
    assert twice != first
    assert read(fields, [twice, second])[0].to_pylist() == [[("k", 2)], [("k", 3)]]


def test_long_columns_are_decoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_decode, "_CHUNK_BYTES", 40)
    kind = list_of(pa.string())
    values = [["x" * (number % 60)] if number % 7 else None for number in range(300)]
    assert read(*written(kind, values))[0].to_pylist() == values
