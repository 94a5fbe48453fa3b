"""Raw and typed tables behind one face: keys and values are bytes, whatever the table makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import fdb.tuple
import pyarrow as pa

from slatespark import SlateStore
from slatespark.table.clock import Clock
from tests.support.client import Delete, ScanRow, Write
from tests.support.foreign_rows import ForeignTable
from tests.support.our_reads import to_ms
from tests.support.row_expiry import OPS, payload


class TimeTable(Protocol):
    """How a model's keys and values are written and read."""

    keys: Sequence[bytes]
    takes_operands: bool

    def create(self, folder: Path, watch: Clock, **properties: Any) -> SlateStore:
        """Make the table."""

    def columns(self, writes: Sequence[Write]) -> dict[str, pa.Array]:
        """Return keys and values as columns; those of deletions are null."""

    def key_of(self, key: bytes) -> Any:
        """Return a key as `get` and results have it."""

    def condition(self, keys: Sequence[bytes]) -> str:
        """Return a condition that holds for these keys."""

    def scan_row(self, row: dict[str, Any]) -> ScanRow:
        """Return a row, read with all metadata columns, as the model has it."""

    def client_value(self, folder: Path, key: bytes, value: bytes) -> bytes:
        """Return a value as somebody without slatespark would store it."""

    def client_row(self, folder: Path, row: ScanRow) -> ScanRow:
        """Return a row that the client read as the model has it."""


class RawTable:
    """Columns `key` and `value`."""

    keys: Sequence[bytes] = (b"a", b"a\0")
    takes_operands = True

    def create(self, folder: Path, watch: Clock, **properties: Any) -> SlateStore:
        SlateStore.create(str(folder), **properties)
        return SlateStore.open(str(folder), clock=watch)

    def columns(self, writes: Sequence[Write]) -> dict[str, pa.Array]:
        values = [None if isinstance(write, Delete) else payload(write) for write in writes]
        keys = pa.array([write.key for write in writes], pa.binary())
        return {"key": keys, "value": pa.array(values, pa.binary())}

    def key_of(self, key: bytes) -> Any:
        return key

    def condition(self, keys: Sequence[bytes]) -> str:
        literals = ", ".join(f"X'{key.hex()}'" for key in keys)
        return f"key IN ({literals})"

    def scan_row(self, row: dict[str, Any]) -> ScanRow:
        return ScanRow(row["key"], row["value"], *_metadata(row))

    def client_value(self, folder: Path, key: bytes, value: bytes) -> bytes:
        return value

    def client_row(self, folder: Path, row: ScanRow) -> ScanRow:
        return row


class TypedTable:
    """Columns `id` and `text`, with the key `id`."""

    keys: Sequence[bytes] = tuple(fdb.tuple.pack((number,)) for number in (-300, 256))
    takes_operands = False

    def create(self, folder: Path, watch: Clock, **properties: Any) -> SlateStore:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.binary())])
        SlateStore.create(str(folder), schema, "id", **properties)
        return SlateStore.open(str(folder), clock=watch)

    def columns(self, writes: Sequence[Write]) -> dict[str, pa.Array]:
        values = [None if isinstance(write, Delete) else payload(write) for write in writes]
        keys = pa.array([self.key_of(write.key) for write in writes], pa.int64())
        return {"id": keys, "text": pa.array(values, pa.binary())}

    def key_of(self, key: bytes) -> Any:
        return fdb.tuple.unpack(key)[0]

    def condition(self, keys: Sequence[bytes]) -> str:
        return f"id IN ({', '.join(str(self.key_of(key)) for key in keys)})"

    def scan_row(self, row: dict[str, Any]) -> ScanRow:
        return ScanRow(fdb.tuple.pack((row["id"],)), row["text"], *_metadata(row))

    def client_value(self, folder: Path, key: bytes, value: bytes) -> bytes:
        return ForeignTable(folder).encode((self.key_of(key),), {"text": value})[1]

    def client_row(self, folder: Path, row: ScanRow) -> ScanRow:
        decoded = ForeignTable(folder).decode(row.key, row.value)
        return ScanRow(row.key, decoded["text"], row.seq, row.create_ts, row.expire_ts)


def _metadata(row: dict[str, Any]) -> tuple[int, int | None, int | None]:
    return row["_seq"], to_ms(row["_create_ts"]), to_ms(row["_expire_ts"])


def op_column(writes: Sequence[Write]) -> pa.Array:
    """Return `put`, `delete` or `merge` of each row."""
    return pa.array([OPS[type(write)] for write in writes], pa.string())
