"""Rows of typed tables as somebody without slatespark encodes them: with fdb.tuple, fastavro, and the table's JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
from fdb.tuple import pack, unpack

Row = dict[str, Any]


class ForeignTable:
    """What a program of somebody knows of a local table: what the newest version of its definition says."""

    def __init__(self, folder: Path) -> None:
        newest = max((folder / "slatespark" / "table").glob("*.json"))
        definition = json.loads(newest.read_bytes())
        self.key_columns: list[str] = definition["keyColumns"]
        self.schemas: dict[str, Any] = definition["writerSchemas"]
        self.columns: list[str] = [field["name"] for field in definition["schema"]["fields"]]

    def decode(self, key: bytes, value: bytes) -> Row:
        """Return a row; keys as their integers, values as fastavro gives them."""
        assert value[:2] == b"\xc3\x01"
        stream = io.BytesIO(value[10:])
        row: Any = fastavro.schemaless_reader(stream, self.schemas[value[2:10][::-1].hex()], None)
        assert stream.read() == b""
        found: Row = dict(zip(self.key_columns, unpack(key), strict=True)) | row
        return found

    def encode(self, key: tuple[Any, ...], row: Row) -> tuple[bytes, bytes]:
        """Return key and value of a row, by the schema that has just its columns."""
        fingerprint, schema = next(
            item for item in self.schemas.items() if {field["name"] for field in item[1]["fields"]} == row.keys()
        )
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
        return pack(key), b"\xc3\x01" + bytes.fromhex(fingerprint)[::-1] + body.getvalue()
