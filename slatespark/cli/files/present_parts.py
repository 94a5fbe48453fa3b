"""Structs for Parquet: where one is null, its parts that take no nulls must not be null either, unlike in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


def with_present_parts(table: pa.Table) -> pa.Table:
    """Return rows in which no part is null that its type calls not nullable; they are the same to every reader."""
    columns = [
        pa.chunked_array([_filled(chunk) for chunk in column.chunks], column.type) if _requires(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _requires(kind: pa.DataType) -> bool:
    """Tell whether some struct of a type has a part that takes no nulls."""
    if kinds.is_struct(kind):
        return any(not part.nullable or _requires(part.type) for part in kind)
    if kinds.is_map(kind):
        return _requires(kind.key_type) or _requires(kind.item_type)
    return bool(kinds.is_list(kind)) and _requires(kind.value_type)


def _filled(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _requires(kind):
        return array
    if kinds.is_struct(kind):
        empty = pa.array([None], kind)  # pyarrow fills the parts of a null
        parts = []
        for number, field in enumerate(kind):
            part = _filled(array.field(number))
            parts.append(part if field.nullable else pc.coalesce(part, empty.field(number)[0]))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    bounds = array.offsets.to_numpy()
    begin, length = int(bounds[0]), int(bounds[-1] - bounds[0])
    offsets, mask = pa.array(bounds - begin), array.is_null()
    if kinds.is_map(kind):
        keys, items = (_filled(part.slice(begin, length)) for part in (array.keys, array.items))
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    return pa.ListArray.from_arrays(offsets, _filled(array.values.slice(begin, length)), type=kind, mask=mask)
