"""SQL names of canonical Arrow types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from slatespark.encoding.column_types import DURATION, TIME, TIMESTAMP, TIMESTAMP_NTZ, is_variant

_NAMES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    DURATION: "INTERVAL DAY TO SECOND",
    TIME: "TIME",
}

TYPE_NAMES: Final = (*_NAMES.values(), "DECIMAL(p,s)")


def sql_type(field: pa.Field) -> str:
    """Return the SQL name of a field's type; Arrow's name for a type that is not canonical."""
    kind = field.type
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_field)}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_field)},{sql_type(kind.item_field)}>"
    if pa.types.is_struct(kind):
        if is_variant(kind):
            return "VARIANT"
        return f"STRUCT<{', '.join(f'{part.name}: {sql_type(part)}' for part in kind)}>"
    return _NAMES.get(kind, str(kind).upper())


def flat_type(name: str) -> pa.DataType | None:
    """Return the flat type with a SQL name, ignoring case; None if there is none."""
    plain = name.strip().upper()
    if plain.startswith("DECIMAL"):
        return _decimal_type(plain)
    return _BY_NAME.get(plain)


_BY_NAME: Final[dict[str, pa.DataType]] = {name: kind for kind, name in _NAMES.items()} | {
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
}


def _decimal_type(plain: str) -> pa.DataType | None:
    digits = plain.removeprefix("DECIMAL").strip()
    if not (digits.startswith("(") and digits.endswith(")")):
        return None
    precision, _, scale = digits[1:-1].partition(",")
    try:
        return pa.decimal128(int(precision), int(scale or 0))
    except (ValueError, OverflowError):
        return None
