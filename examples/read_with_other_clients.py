"""Read the rows of a typed table without slatespark: with the SlateDB client, the tuple layer and an Avro library.

Needs `pip install slatedb==0.17.0 foundationdb fastavro`.

python examples/read_with_other_clients.py [FOLDER]
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from fdb.tuple import unpack
from slatedb import uniffi

from slatespark import SlateStore

MARKER = b"\xc3\x01"  # of Avro's single-object encoding


def create_table(folder: Path) -> None:
    """Load a small typed table, as a Spark job would."""
    schema = pa.schema(
        [
            pa.field("tenant", pa.string(), nullable=False),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("placed", pa.timestamp("us", "UTC")),
            pa.field("items", pa.list_(pa.string())),
        ]
    )
    rows = [
        {"tenant": "b", "id": 7, "price": None, "placed": None, "items": []},
        {
            "tenant": "a",
            "id": 300,
            "price": Decimal("12.50"),
            "placed": datetime(2026, 1, 31, 12, tzinfo=UTC),
            "items": ["tea", "milk"],
        },
    ]
    store = SlateStore.create(str(folder), schema, keyColumns=["tenant", "id"])
    store.write(pa.Table.from_pylist(rows, schema))


def read_definition(folder: Path) -> dict[str, Any]:
    """Return the newest version of the table's definition."""
    newest = max((folder / "slatespark" / "table").glob("*.json"))
    definition: dict[str, Any] = json.loads(newest.read_bytes())
    return definition


async def scan_with_client(folder: Path) -> list[tuple[bytes, bytes]]:
    """Return all keys and values, as the client sees them."""
    place = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    place.with_url(str(folder.parent))
    builder = uniffi.DbReaderBuilder(folder.name, place.build())
    builder.with_reader_mode(uniffi.ReaderMode.FOLLOW_LATEST())  # which writes nothing
    reader = await builder.build()
    try:
        everything = uniffi.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False)
        rows = await reader.scan(everything)
        found = []
        while batch := await rows.next_batch(1000):
            found += [(bytes(row.key), bytes(row.value)) for row in batch]
        return found
    finally:
        await reader.shutdown()


def decode_row(key: bytes, value: bytes, definition: dict[str, Any]) -> dict[str, Any]:
    """Return a row by column name."""
    row = dict(zip(definition["keyColumns"], unpack(key), strict=True))
    if not value.startswith(MARKER):
        raise ValueError(f"The value of key {key.hex()} is no Avro object.")
    fingerprint = value[2:10][::-1].hex()  # little-endian on disk
    schema = definition["writerSchemas"][fingerprint]
    return row | fastavro.schemaless_reader(io.BytesIO(value[10:]), schema, None)


def main(folder: Path) -> None:
    """Make a table, and read it with other tools."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    create_table(folder)
    definition = read_definition(folder)
    for key, value in asyncio.run(scan_with_client(folder)):
        print(decode_row(key, value, definition))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "read-with-other-clients"))
