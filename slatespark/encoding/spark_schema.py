"""Schemas to the JSON of Spark's `StructType` and back, without Spark."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding.column_types import (
    DURATION,
    SPARK_METADATA,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    canonical_schema,
    is_variant,
    list_of,
    map_of,
)
from slatespark.errors import SchemaError

_TYPE_OF: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "interval day to second": DURATION,
    "time(6)": TIME,
}
_SPARK_NAME_OF: Final = {kind: name for name, kind in _TYPE_OF.items()}


def spark_json(schema: pa.Schema) -> dict[str, Any]:
    """Return a canonical schema as the JSON of Spark's `StructType`."""
    return {"type": "struct", "fields": [_field_json(field) for field in schema]}


def _field_json(field: pa.Field) -> dict[str, Any]:
    metadata = json.loads((field.metadata or {}).get(SPARK_METADATA, b"{}"))
    return {"name": field.name, "type": _type_json(field.type), "nullable": field.nullable, "metadata": metadata}


def _type_json(kind: pa.DataType) -> str | dict[str, Any]:
    if is_variant(kind):
        return "variant"
    if kinds.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kinds.is_struct(kind):
        return spark_json(pa.schema(list(kind)))
    if kinds.is_map(kind):
        return {
            "type": "map",
            "keyType": _type_json(kind.key_type),
            "valueType": _type_json(kind.item_type),
            "valueContainsNull": kind.item_field.nullable,
        }
    if kinds.is_list(kind):
        return {
            "type": "array",
            "elementType": _type_json(kind.value_type),
            "containsNull": kind.value_field.nullable,
        }
    return _SPARK_NAME_OF[kind]


def schema_of_spark_json(content: dict[str, Any]) -> pa.Schema:
    """Return the canonical schema for Spark's JSON.

    Raises
    ------
    SchemaError
        When it is not such JSON, or has a type that a table cannot hold.
    """
    try:
        return canonical_schema(pa.schema(_json_fields(content)))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, pa.ArrowException) as exc:
        raise SchemaError(f"This is not a Spark schema: {exc!r}.") from exc


def _json_fields(content: dict[str, Any]) -> list[pa.Field]:
    if content["type"] != "struct":
        raise TypeError(f"{content['type']!r} is not a struct")
    return [
        pa.field(
            _require_type(item["name"], str),
            _json_type(item["type"]),
            nullable=_require_type(item["nullable"], bool),
            metadata={SPARK_METADATA: json.dumps(item.get("metadata", {})).encode()},
        )
        for item in content["fields"]
    ]


def _json_type(content: str | dict[str, Any]) -> pa.DataType:
    if isinstance(content, str):
        return _named_type(content)
    if content["type"] == "struct":
        return pa.struct(_json_fields(content))
    if content["type"] == "array":
        return list_of(_json_type(content["elementType"]), nullable=_require_type(content["containsNull"], bool))
    if content["type"] == "map":
        key, value = _json_type(content["keyType"]), _json_type(content["valueType"])
        return map_of(key, value, nullable=_require_type(content["valueContainsNull"], bool))
    raise TypeError(f"{content['type']!r} is not a type")


def _named_type(name: str) -> pa.DataType:
    if name in _TYPE_OF:
        return _TYPE_OF[name]
    if name == "variant":
        return VARIANT
    word, _, rest = name.removesuffix(")").partition("(")
    if word == "decimal":
        precision, scale = (int(part) for part in rest.split(","))
        return pa.decimal128(precision, scale)
    if word in ("char", "varchar") or name.startswith("string collate "):
        return pa.string()
    if name.startswith("interval ") and "month" not in name and "year" not in name:
        return DURATION
    if word == "time" and rest.isdigit():
        return TIME
    raise TypeError(f"{name!r} is not a type that a table can hold")


def _require_type(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value
