"""Write rows of a typed table without slatespark: with the SlateDB client, the tuple layer and an Avro library.

Needs `pip install slatedb==0.17.0 foundationdb fastavro`.

python examples/write_with_other_clients.py [FOLDER]
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from fdb.tuple import pack
from slatedb import uniffi

from slatespark import SlateStore

MARKER = b"\xc3\x01"  # of Avro's single-object encoding
EPOCH = date(1970, 1, 1)

SCHEMA = pa.schema(
    [
        pa.field("sensor", pa.string(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("reading", pa.float64(), nullable=False),
        pa.field("taken", pa.timestamp("us", "UTC")),
        pa.field("labels", pa.map_(pa.string(), pa.string())),
    ]
)


def writer_schema(folder: Path) -> tuple[bytes, Any]:
    """Return the fingerprint, as it stands in values, and the Avro schema to write rows with.

    A table that has evolved knows several. Any of them may be used: what it lacks is null. This takes the one that
    has the columns of now.
    """
    newest = max((folder / "slatespark" / "table").glob("*.json"))
    definition = json.loads(newest.read_bytes())
    columns = {field["name"] for field in definition["schema"]["fields"]} - set(definition["keyColumns"])
    for fingerprint, schema in definition["writerSchemas"].items():
        if {field["name"] for field in schema["fields"]} == columns:
            return bytes.fromhex(fingerprint)[::-1], fastavro.parse_schema(schema)
    raise ValueError(f"No schema of {newest} has the columns {columns}.")


def encode_key(sensor: str, day: date) -> bytes:
    """Return the key: a date is the number of its day."""
    packed: bytes = pack((sensor, (day - EPOCH).days))
    return packed


def encode_value(row: dict[str, Any], fingerprint: bytes, schema: Any) -> bytes:
    """Return the value: marker, fingerprint, Avro."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, row)
    return MARKER + fingerprint + body.getvalue()


async def put_with_client(folder: Path, rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Open the database for writing, as an application would, and put rows."""
    place = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    place.with_url(str(folder.parent))
    db = await uniffi.DbBuilder(folder.name, place.build()).build()
    try:
        for key, value in rows:
            await db.put(key, value)
    finally:
        await db.shutdown()


def main(folder: Path) -> None:
    """Let the client add a row to a table, and replace one, then read all with slatespark."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    store = SlateStore.create(str(folder), SCHEMA, keyColumns=["sensor", "day"])
    old = {"sensor": "attic", "day": date(2026, 1, 31), "reading": 1.0, "taken": None, "labels": None}
    store.write(pa.Table.from_pylist([old], SCHEMA))

    fingerprint, schema = writer_schema(folder)
    taken = datetime(2026, 2, 1, 6, 30, tzinfo=UTC)
    rows = [
        (encode_key("attic", date(2026, 1, 31)), {"reading": 21.5, "taken": None, "labels": {"unit": "C"}}),
        (encode_key("cellar", date(2026, 2, 1)), {"reading": float("nan"), "taken": taken, "labels": None}),
    ]
    values = [(key, encode_value(row, fingerprint, schema)) for key, row in rows]
    asyncio.run(put_with_client(folder, values))

    for row in store.scan().read_all().to_pylist():
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "write-with-other-clients"))
