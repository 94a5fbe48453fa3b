"""The least key at or above a bound divides keys as the bound does, and is a key itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.encoding.least_key import can_hold_keys, least_key, least_text, tight_ranges
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.encoding.tuple_key import decode_tuple_keys, encode_tuple_keys
from slatespark.ranges import KeyRange
from tests.property.test_tuple_keys import array_of, flat_types, items_of, key_types
from tests.support.effort import examples
from tests.unit.kernels.rows import all_rows, columns, put

TAILS = st.sampled_from([b"", b"\0", b"\xff", b"\0\xff", b"\0\xff\0", b"\x01", b"\x14"]) | st.binary(max_size=3)


def codec_of(types: list[pa.DataType], key_format: str = "tuple") -> RowCodec:
    names = tuple(f"c{number}" for number in range(len(types)))
    return RowCodec(pa.schema(list(zip(names, types, strict=True))), names, key_format, "avro")


@st.composite
def bounds_and_keys(draw: st.DrawFn, kinds_of_columns: Any) -> tuple[RowCodec, list[bytes], list[bytes]]:
    """A table, bounds near some of its keys, and keys of it."""
    types = draw(st.lists(kinds_of_columns, min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*map(items_of, types)), min_size=1, max_size=8))
    arrays = [array_of([row[number] for row in rows], kind) for number, kind in enumerate(types)]
    data, offsets = encode_tuple_keys(arrays)
    raw, reach = data.tobytes(), offsets.tolist()
    keys = [raw[start:end] for start, end in pairwise(reach)]
    bounds = [
        key[: len(key) - draw(st.integers(0, len(key)))] + draw(TAILS) for key in [*keys, draw(st.binary(max_size=6))]
    ]
    return codec_of(types), bounds, sorted(keys)


@settings(max_examples=examples(150))
@given(bounds_and_keys(flat_types))
def test_a_bound_and_its_least_key_divide_keys_alike(drawn: tuple[RowCodec, list[bytes], list[bytes]]) -> None:
    codec, bounds, keys = drawn
    for bound in bounds:
        least = least_key(bound, codec)
        assert [key >= bound for key in keys] == [least is not None and key >= least for key in keys]
        if least is not None:
            assert least_key(least, codec) == least
            assert is_key(least, codec), "else there would be a lower bound for the same keys"


def is_key(least: bytes, codec: RowCodec) -> bool:
    """Whether some number of nulls behind the bytes makes them a key."""
    types = [field.type for field in codec.key_fields]
    tries = columns(*(put(least + b"\0" * nulls, 1) for nulls in range(len(types) + 1) if least or nulls))
    return 0 in decode_tuple_keys([tries], all_rows([tries]), types, [True] * len(types))[1].tolist()


@settings(max_examples=examples(50))
@given(bounds_and_keys(key_types))
def test_bounds_within_structs_divide_keys_alike(drawn: tuple[RowCodec, list[bytes], list[bytes]]) -> None:
    codec, bounds, keys = drawn
    for bound in bounds:
        least = least_key(bound, codec)
        assert [key >= bound for key in keys] == [least is not None and key >= least for key in keys]


@given(st.lists(st.binary(max_size=5), min_size=1), st.lists(st.text(max_size=4), min_size=1))
def test_text(bounds: list[bytes], texts: list[str]) -> None:
    for bound in [*bounds, *(text.encode() + tail for text in texts for tail in bounds)]:
        least = least_text(bound)
        assert least is None or (least >= bound and least.decode() is not None)
        for text in map(str.encode, texts):
            assert (text >= bound) == (least is not None and text >= least)


@given(st.sampled_from(["raw", "utf8"]), st.binary(max_size=3), st.binary(min_size=1, max_size=3))
def test_keys_of_plain_bytes(key_format: str, bound: bytes, key: bytes) -> None:
    codec = RAW_CODEC if key_format == "raw" else codec_of([pa.string()], "utf8")
    least = least_key(bound, codec)
    if key_format == "raw" or is_text(key):
        assert (key >= bound) == (least is not None and key >= least)


def is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(bounds_and_keys(flat_types.filter(lambda kind: not kinds.is_struct(kind))))
def test_ranges_hold_the_same_keys_and_do_not_meet(drawn: tuple[RowCodec, list[bytes], list[bytes]]) -> None:
    codec, bounds, keys = drawn
    edges = sorted(set(bounds))
    ranges = [KeyRange(start, end) for start, end in zip(edges[::2], edges[1::2], strict=False)]
    tight = tight_ranges(ranges, codec)
    assert [any(each.contains(key) for each in ranges) for key in keys] == [
        any(each.contains(key) for each in tight) for key in keys
    ]
    assert all(one.end is not None and one.end < other.start for one, other in pairwise(tight))
    for each in ranges:
        assert can_hold_keys(each, codec) == bool(tight_ranges([each], codec))
