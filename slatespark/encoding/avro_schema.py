"""Avro schemas of values: the record for a list of columns, its fingerprint, and its names.

The record `slatespark.row` has one field for each value column, in the order of the table. On disk, do not change:
existing values are decoded by the fingerprints of these schemas. See docs/reference/value-encoding.md.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import fastavro.schema
import pyarrow as pa

from slatespark.encoding.column_types import is_variant
from slatespark.errors import InternalError, SchemaError

NAMESPACE: Final = "slatespark"
RECORD_NAME: Final = "row"

# An attribute next to those of Avro, for types without a logical type in Avro.
SPARK: Final = "spark"
DAY_TIME_INTERVAL: Final = "day-time interval"
VARIANT: Final = "variant"

_ESCAPE: Final = re.compile(r"_x([0-9A-F]{4,6})_")
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_]|^[0-9]|_(?=x[0-9A-F]{4})")

_PRIMITIVES: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.time64("ns"): {"type": "long", "logicalType": "time-micros"},
    pa.duration("us"): {"type": "long", SPARK: DAY_TIME_INTERVAL},
}


def avro_schema(fields: Sequence[pa.Field]) -> dict[str, Any]:
    """Return the Avro record for rows of these columns, as plain JSON.

    Parameters
    ----------
    fields : fields with canonical types; a nullable one becomes a union of null and its type, with default null

    Raises
    ------
    SchemaError
        When a name is empty or repeated, or a struct has no fields.
    """
    path = f"{NAMESPACE}.{RECORD_NAME}"
    return {"type": "record", "name": RECORD_NAME, "namespace": NAMESPACE, "fields": _fields(fields, path)}


def fingerprint(schema: Mapping[str, Any]) -> int:
    """Return the CRC-64-AVRO of the schema's parsing canonical form, as an unsigned number.

    Values start with C3 01, followed by the fingerprint as 8 bytes, little-endian.
    """
    return _checksum(fastavro.schema.to_parsing_canonical_form(dict(schema)))


def avro_name(name: str) -> str:
    """Return a column's name for Avro. Characters that Avro does not allow become `_xHHHH_`, with the hex code point.

    Distinct columns get distinct names: the underscore of text that looks like an escape is escaped itself.
    """
    if not name:
        raise SchemaError("A column has no name.", todo="Name it.")
    return _NOT_ALLOWED.sub(lambda found: f"_x{ord(found[0]):04X}_", name)


def column_name(name: str) -> str:
    """Return the column name for an Avro name."""
    return _ESCAPE.sub(_unescaped, name)


def _unescaped(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    is_character = number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF  # no half of a surrogate pair
    return chr(number) if is_character else found[0]


@lru_cache(maxsize=256)
def _checksum(canonical_form: str) -> int:
    return int.from_bytes(bytes.fromhex(fastavro.schema.fingerprint(canonical_form, "CRC-64-AVRO")), "little")


def _fields(fields: Sequence[pa.Field], path: str) -> list[dict[str, Any]]:
    if not fields and path != f"{NAMESPACE}.{RECORD_NAME}":
        raise SchemaError(f"The struct {path} has no fields.", todo="Drop the column, or give it a field.")
    names = [avro_name(item.name) for item in fields]
    for name, count in Counter(names).items():
        if count > 1:
            raise SchemaError(f"{path} has two fields named {column_name(name)!r}.", todo="Rename one of them.")
    return [_field(item, name, path) for item, name in zip(fields, names, strict=True)]


def _field(item: pa.Field, name: str, path: str) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "type": _nullable(item, f"{path}.{name}")}
    if item.nullable:
        described["default"] = None
    return described


def _nullable(item: pa.Field, path: str) -> Any:
    described = _type(item.type, path)
    return ["null", described] if item.nullable else described


def _type(kind: pa.DataType, path: str) -> Any:
    """Return a type. Records are named by their path, so names are unique and independent of other columns."""
    if kind in _PRIMITIVES:
        found = _PRIMITIVES[kind]
        return dict(found) if isinstance(found, dict) else found
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_field, f"{path}.item")}
    if pa.types.is_map(kind):
        if kind.key_type == pa.string():
            return {"type": "map", "values": _nullable(kind.item_field, f"{path}.value")}
        pair = [pa.field("key", kind.key_type, nullable=False), kind.item_field.with_name("value")]
        return {"type": "array", "items": {"type": "record", "name": path, "fields": _fields(pair, path)}}
    if pa.types.is_struct(kind):
        parts = [kind.field(number) for number in range(kind.num_fields)]
        record = {"type": "record", "name": path, "fields": _fields(parts, path)}
        return {**record, SPARK: VARIANT} if is_variant(kind) else record
    raise InternalError(f"{path} has the type {kind}, which no table has.")
