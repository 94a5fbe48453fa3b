"""Casts that keep every value exactly, or raise an error that names the column."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding import arrow_compute as pc
from slatespark.encoding.column_types import INTEGERS, canonical_type, find_name, is_variant
from slatespark.encoding.plain_layout import in_plain_layout
from slatespark.encoding.type_names import sql_type
from slatespark.errors import SchemaError

_ANY_INTEGER: Final = pa.decimal128(19, 0)
_ANY_DIGITS: Final = 76  # of a decimal with more decimals: as many as 256 bits hold, twice those that a table has


def takes_rows(target: pa.DataType, rows: pa.Field) -> bool:
    """Tell whether rows with a column of any type can be stored as a canonical type where their values fit exactly.

    Raises
    ------
    SchemaError
        When no table holds the type of the rows.
    """
    return can_cast(canonical_type(rows.type, rows.name, of_table=False), target)


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether values of one canonical type that fit another exactly can be stored as the other."""
    if source == target or kinds.is_null(source):
        return True
    if kinds.is_struct(source) and kinds.is_struct(target) and is_variant(source) == is_variant(target):
        return _can_cast_fields(pa.schema(list(source)), pa.schema(list(target)))
    if kinds.is_list(source) and kinds.is_list(target):
        return can_cast(source.value_type, target.value_type)
    if kinds.is_map(source) and kinds.is_map(target):
        return can_cast(source.key_type, target.key_type) and can_cast(source.item_type, target.item_type)
    if source in INTEGERS:
        return target in INTEGERS or bool(kinds.is_floating(target) or kinds.is_decimal128(target))
    families = (kinds.is_floating, kinds.is_decimal128)
    return any(is_member(source) and is_member(target) for is_member in families)


def _can_cast_fields(source: pa.Schema, target: pa.Schema) -> bool:
    names = [find_name(source, field.name) for field in target]
    if len([name for name in names if name is not None]) < len(source):  # a field would be lost
        return False
    return all(
        field.nullable if name is None else can_cast(source.field(name).type, field.type)
        for name, field in zip(names, target, strict=True)
    )


def cast_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Return a column as the type of a canonical field, with every value unchanged.

    Raises
    ------
    SchemaError
        When a value does not fit the type exactly, or a part of a list, map or struct is null though it is not
        nullable. Nulls of the column itself are not checked.
    """
    if column.type == field.type:
        return column
    if not takes_rows(field.type, pa.field(field.name, column.type)):
        raise incompatible(field.name, field.type, column.type)
    try:
        return pa.chunked_array([cast_array(chunk, field.type) for chunk in column.chunks], field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as exc:
        raise SchemaError(
            f"Column {field.name} is {sql_type(field.with_type(column.type))} in the rows and holds a value that "
            f"does not fit {sql_type(field)}: {exc}.",
            todo="Cast it, or filter such rows out.",
        ) from exc


def incompatible(where: str, table: pa.DataType, incoming: pa.DataType) -> SchemaError:
    """Return the error for a column whose types are incompatible."""
    wanted = sql_type(pa.field("", table))
    return SchemaError(
        f"Column {where} is {wanted} in the table and {sql_type(pa.field('', incoming))} in the rows.",
        todo=f"Cast it to {wanted}, or give it another name.",
    )


def cast_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return an array as another canonical type; raises `ValueError` for a bad value. Requires: `can_cast`."""
    if array.type == target:
        return array
    if isinstance(array, pa.ExtensionArray):
        return cast_array(array.storage, target)
    if isinstance(array, pa.DictionaryArray):
        return cast_array(in_plain_layout(array.dictionary).take(array.indices), target)
    if kinds.is_run_end_encoded(array.type):
        return cast_array(in_plain_layout(array), target)
    if kinds.is_null(array.type):
        return pa.nulls(len(array), target)
    if kinds.is_struct(target):
        return _cast_struct(array, target)
    if kinds.is_map(target) or kinds.is_list(target):
        return _cast_list(array, target)
    if kinds.is_decimal(target):
        return _cast_decimal(array, target)
    narrowed = array.cast(target)
    if kinds.is_floating(array.type) and kinds.is_floating(target):
        _require_same_floats(array, narrowed)
    return narrowed


def _cast_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return whole numbers or decimals as another decimal."""
    if kinds.is_integer(array.type):
        array = array.cast(_ANY_INTEGER)  # Arrow requires a precision for all digits of the integer type
    if array.type.scale < target.scale:  # in 128 bits a number may wrap around, and Arrow notices few that do
        array = array.cast(pa.decimal256(_ANY_DIGITS, target.scale))
    return array.cast(target)


def _require_same_floats(array: pa.Array, narrowed: pa.Array) -> None:
    before, after = (item.cast(pa.float64()).to_numpy(zero_copy_only=False) for item in (array, narrowed))
    changed = (before != after) & ~np.isnan(before)
    if changed.any():
        raise ValueError(f"{before[changed][0]} would become {after[changed][0]}")


def _cast_struct(array: pa.StructArray, target: pa.DataType) -> pa.Array:
    names = pa.schema(list(array.type))
    children = dict(zip(names.names, array.flatten(), strict=True))  # null wherever the struct is
    present = array.is_valid()
    parts = []
    for field in target:
        name = find_name(names, field.name)
        part = pa.nulls(len(array), field.type) if name is None else cast_array(children[name], field.type)
        _require_no_nulls(field, pc.and_(present, part.is_null()))
        parts.append(part)
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())


def _cast_list(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Rebuild a list of any layout, or a map, around its visible elements."""
    if kinds.is_map(target):
        entry = pa.struct([pa.field("key", array.type.key_type, nullable=False), array.type.item_field])
        array = array.cast(pa.list_(pa.field("entries", entry, nullable=False)))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    if bounds[-1] > np.iinfo(np.int32).max:
        raise ValueError("it has more than 2^31 elements in one batch")
    offsets = pa.array(bounds.astype(np.int32))
    elements = pc.list_flatten(array)
    if kinds.is_map(target):
        entries = elements.flatten()
        keys, items = cast_array(entries[0], target.key_type), cast_array(entries[1], target.item_type)
        _require_no_nulls(target.item_field, items.is_null())
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=array.is_null())
    values = cast_array(elements, target.value_type)
    _require_no_nulls(target.value_field, values.is_null())
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=array.is_null())


def _require_no_nulls(field: pa.Field, nulls: pa.Array) -> None:
    if not field.nullable and pc.any(nulls).as_py():
        raise ValueError(f"{field.name} is null but not nullable")
