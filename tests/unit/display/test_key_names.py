from __future__ import annotations

import pytest

from slatespark.display.key_names import MAX_CHARACTERS, KeyNames
from slatespark.encoding.row_codec import RAW_CODEC
from tests.unit.display.summaries import CODEC


def test_raw_keys_are_text_where_they_can_be() -> None:
    names = KeyNames(RAW_CODEC, [])
    assert names.of(b"user/1") == "user/1"
    assert names.of(b"\xff\x00") == "0xff00"
    assert names.of(b"\x1b[2J") == "\\u001b[2J"
    assert names.span(b"a", b"b\0") == "a to b"
    assert names.span(b"a", b"a\0") == "a"
    assert names.span(b"a", b"c") == "a to below c"
    assert names.span(b"", None) == "the first key to the last key"
    assert [names.edge(end) for end in (b"b\0", b"c", b"below c", None)] == ["b", "c", "below c", "the last key"]
    assert len(names.of(b"x" * 1000)) == MAX_CHARACTERS


def test_typed_keys_are_decoded() -> None:
    first, last = CODEC.encode_key(["a", None]), CODEC.encode_key(["it's\n", -5])
    names = KeyNames(CODEC, [first, last + b"\0", last])
    assert names.span(first, last + b"\0") == "tenant=a, id=- to tenant=it's\\n, id=-5"
    assert names.last(last) == "below tenant=it's\\n, id=-5"


@pytest.mark.parametrize("key", [b"\x02a", b"\xff", b"\x02a\x00\x15", b"\x00\x00\x00"])
def test_what_does_not_decode_is_hexadecimal(key: bytes) -> None:
    assert KeyNames(CODEC, [key]).of(key) == key.hex()


def test_a_key_that_ends_in_zero_is_told_from_the_end_of_a_range() -> None:
    key = CODEC.encode_key(["a", 256])
    assert key.endswith(b"\0")
    names = KeyNames(CODEC, [key, key + b"\0"])
    assert names.last(key) == "below tenant=a, id=256"
    assert names.last(key + b"\0") == "tenant=a, id=256"
    assert names.first(key) == "tenant=a, id=256"
    assert names.first(key + b"\0") == "above tenant=a, id=256"


def test_bounds_of_ranges_are_named_by_the_columns_they_have() -> None:
    prefix = CODEC.encode_prefix(["a"])
    whole = CODEC.encode_key(["a", 7])
    names = KeyNames(CODEC, [prefix, prefix + b"\xff", prefix + b"\0", whole + b"\xff"])
    assert names.span(prefix, prefix + b"\xff") == "tenant=a"
    assert names.span(prefix, whole + b"\xff") == "tenant=a to tenant=a, id=7"
    assert names.first(prefix + b"\xff") == "above tenant=a"
    assert names.last(prefix) == "below tenant=a"
    assert names.last(prefix + b"\0") == "below tenant=a, id=-", "the first key of all that begin with it"
