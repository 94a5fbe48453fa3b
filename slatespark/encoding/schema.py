"""Schema evolution: a merge adds columns and widens types, and changes nothing else.

A merge accepts rows that have to be cast. Those that are stored already are not: `find_misread` tells which would be
read as other values.

Canonical types are in `column_types`, their JSON in `spark_schema`, casts of rows in `exact_cast`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum, auto
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding.column_types import INTEGERS, find_name, is_variant, list_of, map_of
from slatespark.encoding.exact_cast import can_cast, incompatible
from slatespark.encoding.spark_schema import schema_of_spark_json, spark_json
from slatespark.errors import SchemaError

__all__ = ["find_misread", "find_name", "merge_schemas", "schema_of_spark_json", "spark_json"]

_TO_DOUBLE: Final = (*INTEGERS[:3], pa.float32())  # types that a double represents exactly
_TO_FLOAT: Final = INTEGERS[:2]


class _StoredIn(Enum):
    """What a value is stored in, on which depends how it can be read later."""

    KEY = auto()
    JSON = auto()
    OTHER = auto()


def _stored_in(name: str, key_columns: Collection[str], value_format: str) -> _StoredIn:
    if name in key_columns:
        return _StoredIn.KEY
    return _StoredIn.JSON if value_format == "json" else _StoredIn.OTHER


def merge_schemas(
    table: pa.Schema, incoming: pa.Schema, *, key_columns: Collection[str] = (), value_format: str = "avro"
) -> pa.Schema:
    """Return the table's schema, extended to hold rows of the incoming schema.

    Parameters
    ----------
    table, incoming : canonical; columns are matched by name, ignoring case, and keep the table's spelling. Parts of
        the incoming ones may be of the type null
    key_columns : key columns of the table; their types may only change to types with the same encoding
    value_format : value format of the table

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
        kind = _merge_types(field.type, other.type, field.name, _stored_in(field.name, key_columns, value_format))
        merged.append(field.with_type(kind))
    added = [field.with_nullable(True) for field in incoming if field.name.lower() not in known]
    return pa.schema([*merged, *added])


def _by_lower(schema: pa.Schema) -> dict[str, str]:
    return {name.lower(): name for name in schema.names}


def _merge_types(table: pa.DataType, incoming: pa.DataType, where: str, stored_in: _StoredIn) -> pa.DataType:
    if kinds.is_null(incoming):
        return table
    if table == incoming or is_variant(table) or is_variant(incoming):
        if is_variant(table) != is_variant(incoming):
            raise incompatible(where, table, incoming)
        return table
    if kinds.is_struct(table) and kinds.is_struct(incoming):
        return _merge_structs(table, incoming, where, stored_in)
    if kinds.is_map(table) and kinds.is_map(incoming):
        if not table.key_type.equals(incoming.key_type):
            raise incompatible(f"{where}.key", table.key_type, incoming.key_type)
        value = _merge_types(table.item_type, incoming.item_type, f"{where}.value", stored_in)
        return map_of(table.key_type, value, nullable=table.item_field.nullable)
    if kinds.is_list(table) and kinds.is_list(incoming):
        element = _merge_types(table.value_type, incoming.value_type, f"{where}.element", stored_in)
        return list_of(element, nullable=table.value_field.nullable)
    wider = _widened(table, incoming, stored_in)
    if wider is None:
        raise incompatible(where, table, incoming)
    return wider


def _merge_structs(table: pa.DataType, incoming: pa.DataType, where: str, stored_in: _StoredIn) -> pa.DataType:
    known, others = pa.schema(list(table)), pa.schema(list(incoming))
    merged = []
    for field in known:
        name = find_name(others, field.name)
        if name is None:
            merged.append(field)
        else:
            kind = _merge_types(field.type, others.field(name).type, f"{where}.{field.name}", stored_in)
            merged.append(field.with_type(kind))
    added = [field.with_nullable(True) for field in others if find_name(known, field.name) is None]
    if added and stored_in is _StoredIn.KEY:
        raise SchemaError(f"Key column {where} would get the field {added[0].name}.", todo="Drop the field.")
    return pa.struct([*merged, *added])


def _widened(table: pa.DataType, incoming: pa.DataType, stored_in: _StoredIn) -> pa.DataType | None:
    """Return the wider of two flat types; None if neither includes the other."""
    if table in INTEGERS and incoming in INTEGERS:
        return max(table, incoming, key=INTEGERS.index)
    if kinds.is_decimal128(table) and kinds.is_decimal128(incoming):
        wider = table.scale == incoming.scale and incoming.precision > table.precision
        return incoming if wider else table
    if _is_exact_float(table, incoming, stored_in):
        return incoming
    return table if can_cast(incoming, table) else None


def find_misread(
    stored: pa.Schema, table: pa.Schema, *, key_columns: Collection[str] = (), value_format: str = "avro"
) -> str | None:
    """Return the first column, or part of one, whose values are read as others by a table's schema; None if none is.

    Parameters
    ----------
    stored : canonical, by which the rows were encoded
    table : canonical, by which they will be read; columns that the rows lack are null
    key_columns, value_format : key columns and value format of the table
    """
    return next(_misread_fields(stored, table, "", lambda name: _stored_in(name, key_columns, value_format)), None)


def _misread_fields(
    stored: Iterable[pa.Field], table: Iterable[pa.Field], above: str, stored_in_of: Callable[[str], _StoredIn]
) -> Iterator[str]:
    """Yield fields by their exact names, as values are found by these."""
    known = {field.name: field for field in table}
    given = {field.name: field for field in stored}
    for name, field in given.items():
        other = known.get(name)
        if other is None or (field.nullable and not other.nullable):
            yield above + name
        else:
            yield from _misread_type(field.type, other.type, above + name, stored_in_of(name))
    yield from (above + name for name, field in known.items() if name not in given and not field.nullable)


def _misread_type(stored: pa.DataType, table: pa.DataType, where: str, stored_in: _StoredIn) -> Iterator[str]:
    if stored == table or is_variant(stored) or is_variant(table):
        if stored != table:
            yield where
    elif kinds.is_struct(stored) and kinds.is_struct(table):
        if stored_in is _StoredIn.KEY and [field.name for field in stored] != [field.name for field in table]:
            yield where  # a key has no names
        yield from _misread_fields(stored, table, f"{where}.", lambda _: stored_in)
    elif kinds.is_list(stored) and kinds.is_list(table):
        yield from _misread_part(stored.value_field, table.value_field, f"{where}.element", stored_in)
    elif kinds.is_map(stored) and kinds.is_map(table):
        yield from _misread_part(stored.key_field, table.key_field, f"{where}.key", stored_in)
        yield from _misread_part(stored.item_field, table.item_field, f"{where}.value", stored_in)
    elif not _reads_flat(stored, table, stored_in):
        yield where


def _misread_part(stored: pa.Field, table: pa.Field, where: str, stored_in: _StoredIn) -> Iterator[str]:
    if stored.nullable and not table.nullable:
        yield where
    yield from _misread_type(stored.type, table.type, where, stored_in)


def _reads_flat(stored: pa.DataType, table: pa.DataType, stored_in: _StoredIn) -> bool:
    """Tell whether a flat type is a wider one, and values of the other are read as the same."""
    if stored in INTEGERS and table in INTEGERS:
        return bool(INTEGERS.index(stored) <= INTEGERS.index(table))
    if kinds.is_decimal128(stored) and kinds.is_decimal128(table):
        return bool(stored.scale == table.scale and stored.precision <= table.precision)
    return _is_exact_float(stored, table, stored_in)


def _is_exact_float(number: pa.DataType, wider: pa.DataType, stored_in: _StoredIn) -> bool:
    """Tell whether numbers that are stored as one type are read as the same ones of a floating-point type."""
    if stored_in is _StoredIn.KEY:  # the encodings of their numbers differ
        return False
    if stored_in is _StoredIn.JSON and number == pa.float32():  # it has the few digits that name a float: 0.1
        return False
    return (wider == pa.float64() and number in _TO_DOUBLE) or (wider == pa.float32() and number in _TO_FLOAT)
