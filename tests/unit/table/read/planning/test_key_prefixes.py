"""Keys and bounds of key ranges as columns. Tuples are those of docs/reference/key-encoding.md."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.table.read.planning.key_prefixes import decode_prefixes, name_key, prefix_behind

SCHEMA = pa.schema([("tenant", pa.string()), ("day", pa.int32()), ("value", pa.string())])
CODEC = RowCodec(SCHEMA, ("tenant", "day"), "tuple", "avro", {})
TEXT = RowCodec(pa.schema([("id", pa.string()), ("value", pa.string())]), ("id",), "utf8", "utf8", {})

A, A_1 = CODEC.encode_prefix(["a"]), CODEC.encode_prefix(["a", 1])


def decoded(codec: RowCodec, keys: list[bytes]) -> list[tuple[list[bytes], dict[str, list[object]]]]:
    return [
        (found, {name: column.to_pylist() for name, column in columns.items()})
        for found, columns in decode_prefixes(codec, keys)
    ]


def test_keys_with_most_columns_come_first() -> None:
    b = CODEC.encode_prefix(["b"])
    assert decoded(CODEC, [A, A_1, b"\x99", b, b""]) == [
        ([A_1], {"tenant": ["a"], "day": [1]}),
        ([A, b], {"tenant": ["a", "b"]}),
    ]
    assert decoded(CODEC, [b"", b"\x99"]) == []
    assert decoded(CODEC, []) == []


def test_a_key_of_one_text_has_no_shorter_form() -> None:
    assert decoded(TEXT, [b"ab", b"\xff", b""]) == [([b"ab"], {"id": ["ab"]})]


@pytest.mark.parametrize(
    ("bound", "prefix"),
    [
        pytest.param(A + b"\xff", A, id="behind all keys of a prefix"),
        pytest.param(CODEC.encode_prefix(["a\0"]), A, id="the next text: the tuple of a and a zero byte"),
        pytest.param(A, None, id="a bound at a prefix"),
        pytest.param(b"", None, id="no bound"),
    ],
)
def test_what_a_bound_lies_behind(bound: bytes, prefix: bytes | None) -> None:
    assert prefix_behind(bound) == prefix


@pytest.mark.parametrize(
    ("codec", "key", "name"),
    [
        (CODEC, A_1, "tenant='a', day=1"),
        (CODEC, CODEC.encode_prefix([None, 1]), "tenant=None, day=1"),
        (CODEC, b"\x99", "key 99"),
        (CODEC, A, f"key {A.hex()}"),
        (RAW_CODEC, b"ab", "key 6162"),
        (TEXT, b"ab", "id='ab'"),
        (TEXT, b"\xff", "key ff"),
    ],
)
def test_the_name_of_a_key(codec: RowCodec, key: bytes, name: str) -> None:
    assert name_key(codec, key) == name
