"""Arrow in all its shapes becomes the same rows; what a table cannot hold is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import SchemaError
from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import HAS_EXPIRE, RowColumns
from slatespark.options import WriteOptions
from slatespark.table.rows.encoder import MAX_KEY_BYTES, Stamp
from slatespark.table.rows.encoder_plan import plan_encoder
from slatespark.units import MAX_MS
from tests.support.row_values import columns_to_rows

STAMP = Stamp(seq=7, create_ts_ms=1000, ttl_ms=None)


def options(**given: Any) -> WriteOptions:
    return WriteOptions.parse({"path": "p", **given})


def encoded(table: pa.Table, stamp: Stamp = STAMP, **given: Any) -> RowColumns:
    return plan_encoder(table.schema, RAW_CODEC, options(**given)).encode(table, stamp).rows


def rows(table: pa.Table, stamp: Stamp = STAMP, **given: Any) -> list[Row]:
    return columns_to_rows(encoded(table, stamp, **given))


def table(
    kind: pa.DataType, keys: list[bytes], values: list[bytes | None], more: dict[str, Any] | None = None
) -> pa.Table:
    return pa.table({"key": pa.array(keys, kind), "value": pa.array(values, kind), **(more or {})})


KEYS = [b"k1", b"k3", b"k2", b"k1", b"k9"]
VALUES: list[bytes | None] = [b"v1", b"v3", b"v2", b"w1", b"v9"]
EXPECTED = [Row(key, 7, value=value or b"", create_ts_ms=1000) for key, value in zip(KEYS, VALUES, strict=True)]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)], ids=str)
def test_binary_types_slices_and_chunks(kind: pa.DataType) -> None:
    whole = table(kind, KEYS, VALUES)
    assert rows(whole) == EXPECTED
    assert rows(whole.slice(1, 3)) == EXPECTED[1:4]
    assert rows(pa.concat_tables([whole.slice(0, 2), whole.slice(2, 0), whole.slice(2)])) == EXPECTED
    assert rows(pa.concat_tables([whole.slice(3), whole.slice(1, 1)])) == [*EXPECTED[3:], EXPECTED[1]]
    assert rows(whole.slice(0, 0)) == []
    assert rows(whole.schema.empty_table()) == []


def test_deletes_need_no_value() -> None:
    gone = [Row(key, 7, RowKind.DELETE, create_ts_ms=1000) for key in KEYS]
    keys = pa.array(KEYS, pa.binary())
    assert rows(pa.table({"key": keys}), operation="delete") == gone
    assert rows(pa.table({"key": keys, "value": pa.nulls(5)}), operation="delete") == gone
    assert rows(pa.table({"key": keys, "value": VALUES}), Stamp(7, 1000, ttl_ms=5), operation="delete") == gone


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()], ids=str)
def test_operations_by_row(text: pa.DataType) -> None:
    ops = pa.array(["put", "delete", "merge", "delete"], text)
    values = pa.array([b"1", None, b"3", b"ignored"], pa.binary())
    changes = pa.table({"key": pa.array([b"a", b"b", b"c", b"d"]), "op": ops, "value": values})
    stamped = Stamp(7, 1000, ttl_ms=500)
    expected = [
        Row(b"a", 7, RowKind.PUT, b"1", 1000, 1500),
        Row(b"b", 7, RowKind.DELETE, b"", 1000),
        Row(b"c", 7, RowKind.MERGE, b"3", 1000, 1500),
        Row(b"d", 7, RowKind.DELETE, b"", 1000),
    ]
    assert rows(changes, stamped, opColumn="op") == expected
    assert rows(changes.slice(1, 2), stamped, opColumn="op") == expected[1:3]
    columns = encoded(changes, stamped, opColumn="op")
    assert (columns.value_lengths.tolist(), (columns.flags & HAS_EXPIRE).astype(bool).tolist()) == (
        [1, 0, 1, 0],
        [True, False, True, False],
    )


@pytest.mark.parametrize(
    ("ttl_ms", "expire_ts_ms"),
    [(None, None), (0, 1000), (5, 1005), (MAX_MS - 1000, MAX_MS), (MAX_MS - 999, None), (MAX_MS, None)],
)
def test_an_expiry_beyond_64_bits_never_comes(ttl_ms: int | None, expire_ts_ms: int | None) -> None:
    [row] = rows(table(pa.binary(), [b"k"], [b"v"]), Stamp(7, 1000, ttl_ms))
    assert row.expire_ts_ms == expire_ts_ms


BINARY = pa.array([b"x"], pa.binary())


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"key": BINARY}, {}, "raw"),
        ({}, {}, "none"),
        ({"key": BINARY, "value": BINARY, "more": BINARY}, {}, "more"),
        ({"Keys": BINARY, "value": BINARY}, {}, "Keys"),
        ({"key": BINARY, "value": BINARY}, {"opColumn": "op"}, "op"),
        ({"key": BINARY, "value": BINARY, "op": BINARY}, {"opColumn": "op"}, "STRING"),
        ({"key": pa.array(["x"]), "value": BINARY}, {}, "BINARY"),
        ({"key": pa.nulls(1), "value": BINARY}, {}, "null"),
        ({"key": BINARY, "value": pa.array([1])}, {}, "BIGINT"),
        ({"key": pa.array([None], pa.binary()), "value": BINARY}, {}, "null"),
        ({"key": pa.array([b""]), "value": BINARY}, {}, "empty"),
        ({"key": pa.array([b"k" * (MAX_KEY_BYTES + 1)]), "value": BINARY}, {}, "65536"),
        ({"key": BINARY, "value": pa.nulls(1)}, {}, "null"),
        ({"key": BINARY, "value": pa.nulls(1)}, {"operation": "merge"}, "null"),
        ({"key": BINARY, "value": BINARY, "op": ["upsert"]}, {"opColumn": "op"}, "upsert"),
        ({"key": BINARY, "value": BINARY, "op": pa.array([None], pa.string())}, {"opColumn": "op"}, "None"),
        ({"key": BINARY, "value": pa.nulls(1), "op": ["put"]}, {"opColumn": "op"}, "null"),
    ],
)
def test_what_a_table_cannot_hold(columns: dict[str, Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        rows(pa.table(columns), **given)


def test_a_column_named_twice() -> None:
    twice = pa.Table.from_arrays([BINARY, BINARY, BINARY], names=["key", "value", "key"])
    with pytest.raises(SchemaError, match="key, value, key"):
        rows(twice)


def test_the_longest_key() -> None:
    [row] = rows(table(pa.binary(), [b"k" * MAX_KEY_BYTES], [b""]))
    assert (len(row.key), row.value) == (MAX_KEY_BYTES, b"")
