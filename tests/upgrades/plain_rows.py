"""Rows as plain JSON, and back: what a table must show is stored without any part of the package."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def plain(value: Any) -> Any:
    """Return a value of `to_pylist` as JSON; bytes as hexadecimal digits, times as ISO text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, date):  # or a datetime
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def table_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows of plain JSON as a table with some columns of a schema: those that the rows have."""
    chosen = pa.schema([field for field in schema if field.name in rows[0]])
    return pa.Table.from_pylist(
        [{field.name: _value(row[field.name], field.type) for field in chosen} for row in rows], chosen
    )


def _value(plain_value: Any, kind: pa.DataType) -> Any:
    if plain_value is None:
        return None
    if pa.types.is_binary(kind):
        return bytes.fromhex(plain_value)
    if pa.types.is_floating(kind):
        return float(plain_value)
    if pa.types.is_decimal(kind):
        return Decimal(plain_value)
    if pa.types.is_date(kind):
        return date.fromisoformat(plain_value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(plain_value)
    if pa.types.is_struct(kind):
        return {field.name: _value(plain_value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in plain_value]
    if pa.types.is_map(kind):
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in plain_value]
    return plain_value
