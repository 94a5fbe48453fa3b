"""Schema evolution: a merge adds columns and widens types, and changes nothing else.

Canonical types are in `column_types`, their JSON in `spark_schema`, casts of rows in `exact_cast`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding.column_types import INTEGERS, find_name, is_variant, list_of, map_of
from slatespark.encoding.exact_cast import can_cast, incompatible
from slatespark.encoding.spark_schema import schema_of_spark_json, spark_json
from slatespark.errors import SchemaError

__all__ = ["find_name", "merge_schemas", "schema_of_spark_json", "spark_json"]

_TO_DOUBLE: Final = (*INTEGERS[:3], pa.float32())  # types that a double represents exactly
_TO_FLOAT: Final = INTEGERS[:2]


def merge_schemas(table: pa.Schema, incoming: pa.Schema, *, key_columns: Collection[str] = ()) -> pa.Schema:
    """Return the table's schema, extended to hold rows of the incoming schema.

    Parameters
    ----------
    table, incoming : canonical; columns are matched by name, ignoring case, and keep the table's spelling. Parts of
        the incoming ones may be of the type null
    key_columns : of the table; their types may only change to types with the same encoding

    Raises
    ------
    SchemaError
        When types are incompatible, with the column and both types.
    """
    merged = []
    names, known = _by_lower(incoming), _by_lower(table)
    for field in table:
        name = names.get(field.name.lower())
        if name is None:
            merged.append(field)
            continue
        other = incoming.field(name)
        kind = _merge_types(field.type, other.type, field.name, in_key=field.name in key_columns)
        merged.append(field.with_type(kind))
    added = [field.with_nullable(True) for field in incoming if field.name.lower() not in known]
    return pa.schema([*merged, *added])


def _by_lower(schema: pa.Schema) -> dict[str, str]:
    return {name.lower(): name for name in schema.names}


def _merge_types(table: pa.DataType, incoming: pa.DataType, where: str, *, in_key: bool) -> pa.DataType:
    if kinds.is_null(incoming):
        return table
    if table == incoming or is_variant(table) or is_variant(incoming):
        if is_variant(table) != is_variant(incoming):
            raise incompatible(where, table, incoming)
        return table
    if kinds.is_struct(table) and kinds.is_struct(incoming):
        return _merge_structs(table, incoming, where, in_key=in_key)
    if kinds.is_map(table) and kinds.is_map(incoming):
        if not table.key_type.equals(incoming.key_type):
            raise incompatible(f"{where}.key", table.key_type, incoming.key_type)
        value = _merge_types(table.item_type, incoming.item_type, f"{where}.value", in_key=in_key)
        return map_of(table.key_type, value, nullable=table.item_field.nullable)
    if kinds.is_list(table) and kinds.is_list(incoming):
        element = _merge_types(table.value_type, incoming.value_type, f"{where}.element", in_key=in_key)
        return list_of(element, nullable=table.value_field.nullable)
    wider = _widened(table, incoming, in_key=in_key)
    if wider is None:
        raise incompatible(where, table, incoming)
    return wider


def _merge_structs(table: pa.DataType, incoming: pa.DataType, where: str, *, in_key: bool) -> pa.DataType:
    known, others = pa.schema(list(table)), pa.schema(list(incoming))
    merged = []
    for field in known:
        name = find_name(others, field.name)
        if name is None:
            merged.append(field)
        else:
            kind = _merge_types(field.type, others.field(name).type, f"{where}.{field.name}", in_key=in_key)
            merged.append(field.with_type(kind))
    added = [field.with_nullable(True) for field in others if find_name(known, field.name) is None]
    if added and in_key:
        raise SchemaError(f"Key column {where} would get the field {added[0].name}.", todo="Drop the field.")
    return pa.struct([*merged, *added])


def _widened(table: pa.DataType, incoming: pa.DataType, *, in_key: bool) -> pa.DataType | None:
    """Return the wider of two flat types; None if neither includes the other."""
    if table in INTEGERS and incoming in INTEGERS:
        return max(table, incoming, key=INTEGERS.index)
    if kinds.is_decimal128(table) and kinds.is_decimal128(incoming):
        wider = table.scale == incoming.scale and incoming.precision > table.precision
        return incoming if wider else table
    grows = (incoming == pa.float64() and table in _TO_DOUBLE) or (incoming == pa.float32() and table in _TO_FLOAT)
    if grows and not in_key:  # the encodings of their numbers in a key differ
        return incoming
    return table if can_cast(incoming, table) else None
