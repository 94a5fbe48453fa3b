"""Typed tables that we write, read by the real client with `fdb` and `fastavro`; rows and clones that it makes."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import fdb.tuple
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.table.definition.versions import definition_path
from tests.support.client import Client, Location, read_rows
from tests.support.client_admin import clone_database

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
UTC = pa.timestamp("us", "UTC")

SCHEMA = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("day", pa.date32()),
        pa.field("at", UTC),
        pa.field("n", pa.int32()),
        pa.field("x", pa.float64()),
        pa.field("ok", pa.bool_()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
        pa.field("note", pa.string(), nullable=False),
    ]
)
KEYS = ["tenant", "day", "n", "x", "ok", "price"]

ROWS: list[dict[str, Any]] = [
    {
        "tenant": "a\0b" * number,
        "day": None if number == 2 else dt.date(1970, 1, 1) + dt.timedelta(days=number * 1000 - 3000),
        "at": None if number == 3 else EPOCH + dt.timedelta(microseconds=10**15 * number),
        "n": [0, 1, -1, 255, -256, 2**31 - 1, -(2**31)][number],
        "x": [0.0, -1.5, math.inf, 1e-300, None, -math.inf, 2.5][number],
        "ok": [True, False, None][number % 3],
        "price": None if number == 1 else Decimal(number * 10**8 - 3 * 10**8).scaleb(-2),
        "tags": [None, [], ["x", None], ["ü" * number]][number % 4],
        "note": f"note {number}",
    }
    for number in range(7)
]


def key_of(row: dict[str, Any]) -> bytes:
    """What the tuple layer of FoundationDB makes of the key columns."""
    day, price = row["day"], row["price"]
    parts = (
        row["tenant"],
        None if day is None else (day - EPOCH.date()).days,
        row["n"],
        row["x"],
        row["ok"],
        None if price is None else int(price.scaleb(2)),
    )
    packed: bytes = fdb.tuple.pack(parts)
    return packed


def writer_schema(location: Location, fingerprint: bytes, number: int = 1) -> Any:
    """A writer's schema from the table's folder, as any client finds it."""
    content = json.loads((location.folder / definition_path(number)).read_bytes())
    name = f"{int.from_bytes(fingerprint, 'little'):016x}"
    schema = content["writerSchemas"][name]
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    assert fastavro.schema.fingerprint(canonical, "CRC-64-AVRO") == fingerprint.hex()
    return fastavro.parse_schema(schema)


def decoded(location: Location, value: bytes) -> dict[str, Any]:
    assert value[:2] == b"\xc3\x01"
    found: Any = fastavro.schemaless_reader(io.BytesIO(value[10:]), writer_schema(location, value[2:10]), None)
    return dict(found)


@pytest.fixture
def location(tmp_path: Path) -> Location:
    store = SlateStore.create(str(tmp_path / "table"), SCHEMA, KEYS, defaultTtl="1d")
    store.write(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    return Location.local(tmp_path / "table")


def test_keys_and_values_are_those_of_standard_libraries(location: Location) -> None:
    stored = read_rows(location)
    assert [row.key for row in stored] == sorted(key_of(row) for row in ROWS)
    by_key = {key_of(row): {name: row[name] for name in ("at", "tags", "note")} for row in ROWS}
    assert {row.key: decoded(location, row.value) for row in stored} == by_key
    for row in stored:
        schema = writer_schema(location, row.value[2:10])
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, by_key[row.key])
        assert row.value[10:] == out.getvalue()


def test_rows_that_the_client_writes_are_rows_of_the_table(location: Location) -> None:
    [value] = {row.value[:10] for row in read_rows(location)}
    new = {**ROWS[0], "tenant": "by the client", "note": "hello"}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, writer_schema(location, value[2:10]), new)
    with Client.open(location) as client:
        client.put(key_of(new), value + out.getvalue())
        client.delete(key_of(ROWS[1]))
        client.flush_wal()
    store = SlateStore.open(str(location.folder))
    assert store.get(*(new[name] for name in KEYS)) == new
    assert store.get(*(ROWS[1][name] for name in KEYS)) is None
    store.write(pa.Table.from_pylist([{**new, "note": "and back"}], schema=SCHEMA), ifClientActive="fence")
    with Client.open(location) as client:
        found = client.get(key_of(new))
        assert found is not None
        assert decoded(location, found)["note"] == "and back"


def test_changes_by_row_reach_the_client(location: Location) -> None:
    gone, kept = ROWS[2], {**ROWS[3], "note": "changed", "op": "put"}
    rows = [{**{name: gone[name] for name in KEYS}, "op": "delete"}, kept]
    changes = pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("op", pa.string())))
    SlateStore.open(str(location.folder)).write(changes, opColumn="op", ttl="none")
    stored = {row.key: row for row in read_rows(location)}
    assert key_of(gone) not in stored
    assert decoded(location, stored[key_of(kept)].value)["note"] == "changed"
    assert stored[key_of(kept)].expire_ts is None
    assert stored[key_of(ROWS[4])].expire_ts is not None


def test_rows_under_a_grown_schema(location: Location) -> None:
    new = {**ROWS[0], "tenant": "z", "level": 7}
    store = SlateStore.open(str(location.folder))
    store.write(pa.Table.from_pylist([new], schema=SCHEMA.append(pa.field("level", pa.int16()))), mergeSchema=True)
    stored = {row.key: row.value for row in read_rows(location)}
    value = stored[key_of(new)]
    found: Any = fastavro.schemaless_reader(io.BytesIO(value[10:]), writer_schema(location, value[2:10], 2), None)
    assert found["level"] == 7
    old = stored[key_of(ROWS[1])]
    assert writer_schema(location, old[2:10], 2) == writer_schema(location, old[2:10], 1)


def test_a_clone_that_the_client_makes_is_typed_too(location: Location, tmp_path: Path) -> None:
    clone_database(location, "clone")
    assert not (tmp_path / "clone" / "slatespark").exists()
    store = SlateStore.open(str(tmp_path / "clone"))
    key = [ROWS[0][name] for name in KEYS]
    assert store.get(*key) == ROWS[0]
    store.write(pa.Table.from_pylist([{**ROWS[0], "note": "in the clone"}], schema=SCHEMA))
    assert (tmp_path / "clone" / definition_path(1)).exists(), "its own definition, should the parent go"
    assert store.get(*key) == {**ROWS[0], "note": "in the clone"}
    assert SlateStore.open(str(location.folder)).get(*key) == ROWS[0]
    store.write(
        pa.Table.from_pylist([{**ROWS[0], "more": 1}]).cast(SCHEMA.append(pa.field("more", pa.int64()))),
        mergeSchema=True,
    )
    assert SlateStore.open(str(location.folder)).definition.codec().schema.names == SCHEMA.names
