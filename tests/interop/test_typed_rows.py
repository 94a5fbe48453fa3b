"""Rows of typed tables in both directions: slatespark, and the real client with fdb.tuple and fastavro."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SlateStore
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from tests.support.client import Client, Location, Put, read_rows
from tests.support.foreign_rows import ForeignTable

UTC = dt.UTC
INSTANT = dt.datetime(2026, 1, 31, 12, 0, 0, 1, UTC)
POINT = pa.struct([("x", pa.float64()), ("at", pa.timestamp("us", "UTC"))])

SCHEMA = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("id", pa.int64()),
        pa.field("a byte", pa.int8()),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("long", pa.int64()),
        pa.field("single", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("ok", pa.bool_()),
        pa.field("text", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("wall", pa.timestamp("us")),
        pa.field("price", pa.decimal128(20, 4)),
        pa.field("took", pa.duration("us")),
        pa.field("path", list_of(POINT)),
        pa.field("tags", map_of(pa.string(), pa.int64())),
        pa.field("byDay", map_of(pa.date32(), pa.string())),
        pa.field("any", VARIANT),
    ]
)
FULL: dict[str, Any] = {
    "tenant": "a\0é",
    "id": -300,
    "a byte": -128,
    "number": 2**31 - 1,
    "long": -(2**63),
    "single": 0.5,
    "double": 1e-300,
    "ok": True,
    "text": "€😀",
    "data": b"\0\xff",
    "day": dt.date(1969, 12, 31),
    "at": INSTANT,
    "wall": INSTANT.replace(tzinfo=None),
    "price": Decimal("-12345678901234.5678"),
    "took": dt.timedelta(microseconds=-5),
    "path": [{"x": 1.5, "at": INSTANT}, None, {"x": None, "at": None}],
    "tags": [("k", 1), ("", None)],
    "byDay": [(dt.date(2026, 1, 1), "x")],
    "any": {"value": b"\x0c\x01", "metadata": b"\x01\0\0"},
}
EMPTY = {**dict.fromkeys(FULL), "tenant": "", "number": 0}

# What of it fastavro shows in another way: names and intervals, maps.
SHOWN = {
    "took": -5,
    "tags": {"k": 1, "": None},
    "byDay": [{"key": dt.date(2026, 1, 1), "value": "x"}],
}


def foreign(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: SHOWN[name] if name in SHOWN and value is not None else value for name, value in row.items()}
    shown["a_x0020_byte"] = shown.pop("a byte")
    return shown


@pytest.fixture
def store(tmp_path: Path) -> SlateStore:
    return SlateStore.create(str(tmp_path / "table"), SCHEMA, keyColumns=["tenant", "id"])


def rows_of(store: SlateStore, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.scan(**options).read_all().to_pylist()
    return found


def test_the_client_reads_every_type(store: SlateStore, tmp_path: Path) -> None:
    store.write(pa.Table.from_pylist([FULL, EMPTY], SCHEMA))
    table = ForeignTable(tmp_path / "table")
    found = [table.decode(row.key, row.value) for row in read_rows(Location.local(tmp_path / "table"))]
    assert found == [foreign(EMPTY), foreign(FULL)]


def test_slatespark_reads_every_type_that_the_client_wrote(store: SlateStore, tmp_path: Path) -> None:
    table = ForeignTable(tmp_path / "table")
    with Client.open(Location.local(tmp_path / "table")) as client:
        for row in (FULL, EMPTY):
            value = {name: item for name, item in foreign(row).items() if name not in table.key_columns}
            client.write([Put(*table.encode((row["tenant"], row["id"]), value))])
        client.close()
    assert rows_of(store) == [EMPTY, FULL]
    assert rows_of(store, columns="text,id") == [{"text": None, "id": None}, {"text": "€😀", "id": -300}]
    assert rows_of(store, filter="`a byte` = -128") == [FULL]
    assert store.get("a\0é", -300) == FULL


def test_both_write_while_the_table_evolves(store: SlateStore, tmp_path: Path) -> None:
    folder, location = tmp_path / "notes", Location.local(tmp_path / "notes")
    first = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("n", pa.int32())])
    store = SlateStore.create(str(folder), first, keyColumns="id")
    old = ForeignTable(folder)
    second = pa.schema(
        [pa.field("id", pa.int32(), nullable=False), pa.field("n", pa.int64()), pa.field("s", pa.string())]
    )
    store.write(pa.table([[1, 3], [2**40, 5], ["x", "y"]], schema=second), mergeSchema=True)
    with Client.open(location) as client:  # it has not noticed yet
        client.write([Put(*old.encode((2,), {"n": 7})), Put(*old.encode((3,), {"n": None}))])
        new = ForeignTable(folder)
        assert [new.decode(row.key, row.value) for row in client.scan()] == [
            {"id": 1, "n": 2**40, "s": "x"},
            {"id": 2, "n": 7},
            {"id": 3, "n": None},
        ]
        client.write([Put(*new.encode((4,), {"n": 2**50, "s": "z"}))])
        client.close()
    assert rows_of(store) == [
        {"id": 1, "n": 2**40, "s": "x"},
        {"id": 2, "n": 7, "s": None},
        {"id": 3, "n": None, "s": None},
        {"id": 4, "n": 2**50, "s": "z"},
    ]


def test_a_row_of_an_unknown_schema(store: SlateStore, tmp_path: Path) -> None:
    store.write(pa.Table.from_pylist([FULL], SCHEMA))
    table = ForeignTable(tmp_path / "table")
    with Client.open(Location.local(tmp_path / "table")) as client:
        key, _ = table.encode(
            ("b", 1), {name: item for name, item in foreign(FULL).items() if name not in ("tenant", "id")}
        )
        client.put(key, b"\xc3\x01" + bytes(8))
        client.close()
    with pytest.raises(CorruptDataError, match=f"{key.hex()}.*{'00' * 8}"):
        rows_of(store)
    with pytest.warns(UserWarning, match="1 "):
        assert rows_of(store, ignoreUndecodable=True) == [FULL]
    assert rows_of(store, columns="tenant") == [{"tenant": "a\0é"}, {"tenant": "b"}]
