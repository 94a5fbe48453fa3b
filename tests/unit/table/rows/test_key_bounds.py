"""KeyBounds: which rows lie outside the replaced intervals. Keys and bounds are letters."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.errors import InvalidRequestError
from slatespark.ranges import KeyRange
from slatespark.table.rows.key_bounds import KeyBounds

KEYS = [b"", b"a", b"a\0", b"b", b"bb", b"c", b"d", b"e", b"\xff"]


def check(keys: list[bytes], *bounds: tuple[bytes, bytes | None]) -> None:
    table = pa.table({"key": pa.array(keys, pa.binary())})
    ranges = tuple(KeyRange(*each) for each in bounds)
    KeyBounds(ranges, "the interval").check(table, RAW_CODEC.encode_keys(table), codec=RAW_CODEC)


@pytest.mark.parametrize(
    "bounds",
    [
        [(b"", None)],
        [(b"a", b"b")],
        [(b"b", None)],
        [(b"", b"a")],
        [(b"a", b"b"), (b"b", b"c")],
        [(b"a", b"b"), (b"b", b"d"), (b"d", None)],
        [(b"a", b"a\0"), (b"c", b"e")],
        [(b"aa", b"ab")],
        [],
    ],
)
def test_each_key_is_inside_or_refused(bounds: list[tuple[bytes, bytes | None]]) -> None:
    outside = [key for key in KEYS if not any(start <= key and (end is None or key < end) for start, end in bounds)]
    check([key for key in KEYS if key not in outside], *bounds)
    for key in outside:
        with pytest.raises(InvalidRequestError, match=f"1 of 1 rows .* key {key.hex()}"):
            check([key], *bounds)
    if outside:
        with pytest.raises(InvalidRequestError, match=f"{len(outside)} of {len(KEYS)} rows .* key {outside[0].hex()}"):
            check(KEYS, *bounds)


def test_a_part_of_a_table_is_named_by_its_own_rows() -> None:
    """The columns of a slice begin in the middle of their buffers."""
    schema = pa.schema([("Id", pa.string()), ("value", pa.string())])
    codec = RowCodec(schema, ("Id",), "utf8", "utf8", {})
    table = pa.table({"Id": ["x", "b", "q"], "value": ["", "", ""]}).slice(1)
    with pytest.raises(InvalidRequestError, match=r"1 of 2 rows .* Id=q"):
        KeyBounds((KeyRange(b"b", b"c"),), "it").check(table, codec.encode_keys(table), codec=codec)
