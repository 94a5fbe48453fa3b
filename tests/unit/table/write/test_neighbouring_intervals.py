"""Intervals that meet, of every key type: nothing is left between them, and a table emptied by them has no file."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.row_codec import RowCodec
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.write.exact_ranges import exact_ranges
from tests.support.fake_clock import FakeClock

HOUR_MS = 3_600_000
_names = itertools.count()

# Type, values in order, and how a condition names one.
KEYS: dict[str, tuple[pa.DataType, Sequence[Any], Callable[[Any], str]]] = {
    "INT": (pa.int32(), [-300, -1, 0, 1, 255, 256], str),
    "TINYINT": (pa.int8(), [-128, -1, 0, 1, 2, 127], str),
    "DATE": (pa.date32(), [dt.date(2026, 1, day) for day in range(1, 7)], "'{}'".format),
    "TIMESTAMP": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC) for hour in range(6)],
        "'{}'".format,
    ),
    "DECIMAL": (pa.decimal128(6, 2), [Decimal(cents) / 100 for cents in (-999999, -1, 0, 1, 2, 999999)], str),
    "DECIMAL(38)": (pa.decimal128(38, 0), [Decimal(2**power) for power in (1, 63, 64, 65, 66, 100)], str),
    "BOOLEAN": (pa.bool_(), [False, True], str),
    "DOUBLE": (pa.float64(), [-1.5, -0.25, 0.0, 0.25, 1.5, 2.5], str),
    "STRING": (pa.string(), ["", "a", "ab", "aé", "b", "c"], "'{}'".format),
    "BINARY": (pa.binary(), [b"", b"a", b"a\0", b"a\xff", b"b", b"\xff"], lambda value: f"X'{value.hex()}'"),
}
COLUMNS = [("k",), ("shop", "k"), ("k", "n"), ("shop", "k", "n")]


def make_table(name: str, columns: tuple[str, ...], clock: FakeClock) -> SlateStore:
    kind, values, _ = KEYS[name]
    schema = pa.schema([("shop", pa.string()), ("k", kind), ("n", pa.int64()), ("value", pa.string())])
    url = f"memory://neighbours-{next(_names)}"
    store = SlateStore.create(
        url, schema, list(columns), clock=clock, versionRetention="none", autoCompact=False, valueFormat="json"
    )
    rows = {"shop": ["a"] * len(values), "k": values, "n": [7] * len(values), "value": ["x"] * len(values)}
    store.write(pa.table(rows, schema))
    return store


def objects(store: SlateStore) -> list[str]:
    return [meta.path for meta in store._stores.main.list("compacted/")]


@pytest.mark.parametrize("columns", COLUMNS, ids=",".join)
@pytest.mark.parametrize("name", KEYS)
def test_a_table_emptied_value_by_value_is_vacuumed_down_to_nothing(name: str, columns: tuple[str, ...]) -> None:
    clock = FakeClock()
    store = make_table(name, columns, clock)
    shop = "shop = 'a' AND " if columns[0] == "shop" else ""
    _, values, literal = KEYS[name]
    for value in (*values[::2], *values[1::2]):
        store.deleteRange(f"{shop}k = {literal(value)}")
    assert store.scan().read_all().num_rows == 0
    assert list(fetch_latest_manifest(store._stores)[1].views()) == []
    clock.advance(2 * HOUR_MS)
    store.vacuum("1h")
    assert objects(store) == []
    assert store.proveAbsent(where="shop >= ''" if shop else "k IS NOT NULL").rows == 0


@pytest.mark.parametrize("columns", COLUMNS, ids=",".join)
@pytest.mark.parametrize("name", KEYS)
def test_the_end_of_an_interval_is_the_start_of_the_next(name: str, columns: tuple[str, ...]) -> None:
    store = make_table(name, columns, FakeClock())
    codec = store.definition.codec()
    shop = "shop = 'a' AND " if columns[0] == "shop" else ""
    _, values, literal = KEYS[name]
    for value in values:
        below, whole = f"{shop}k < {literal(value)}", f"{shop}k <= {literal(value)}"
        just, above = f"{shop}k = {literal(value)}", f"{shop}k >= {literal(value)}"
        after = f"{shop}k > {literal(value)}"
        if value != values[0]:
            assert end(below, codec) == start(just, codec) == start(above, codec)
        if value != values[-1]:
            assert end(just, codec) == end(whole, codec) == start(after, codec)
    assert start(f"{shop}k IS NOT NULL", codec) == end(f"{shop}k IS NULL", codec)


def start(condition: str, codec: RowCodec) -> bytes:
    return exact_ranges(condition, codec, name="where")[0].start


def end(condition: str, codec: RowCodec) -> bytes | None:
    return exact_ranges(condition, codec, name="where")[-1].end
